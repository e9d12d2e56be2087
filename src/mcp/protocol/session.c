#include "mcp/protocol/session.h"

#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/stream.h"

static bool session_is_idle(const struct session *s)
{
        bool (*is_busy)(const struct session *) = s->mcp->backend->session_is_busy;

        return !s->is_stateless && list_is_empty(&s->streams) && list_is_empty(&s->calls) && !(is_busy && is_busy(s));
}

static bool make_room(struct mcp *m)
{
        if (m->session_count < MCP_SESSIONS_MAX)
                return true;
        LIST_EACH (at, &m->session_order) {
                struct session *s = LIST_ENTRY(at, struct session, node);

                if (session_is_idle(s)) {
                        session_end(s);
                        return true;
                }
        }
        return false;
}

struct session *session_create(struct mcp *m, const char *version)
{
        struct session *s = make_room(m) ? calloc(1, sizeof(*s)) : NULL;

        if (!s)
                return NULL;
        s->mcp = m;
        s->version = version;
        list_init(&s->streams);
        list_init(&s->calls);
        random_id(s->id, SESSION_ID_CHARS);
        if (map_put(&m->sessions, str_of(s->id), s, NULL) < 0) {
                free(s);
                return NULL;
        }
        list_push_back(&m->session_order, &s->node);
        m->session_count++;
        return s;
}

struct session *session_find(struct mcp *m, struct str id)
{
        struct session *s = map_get(&m->sessions, id);

        if (s) {
                list_remove(&s->node);
                list_push_back(&m->session_order, &s->node);
        }
        return s;
}

void session_end(struct session *s)
{
        struct mcp *m = s->mcp;

        while (!list_is_empty(&s->streams))
                stream_free(LIST_ENTRY(s->streams.next, struct stream, node));
        while (!list_is_empty(&s->calls)) { /* cancelling a call finishes it */
                struct call *c = LIST_ENTRY(s->calls.next, struct call, node);

                call_cancel(c);
                if (!list_is_empty(&s->calls) && s->calls.next == &c->node)
                        call_result(c, json_object());
        }
        if (m->backend->session_ended)
                m->backend->session_ended(s);
        if (m->stateless == s)
                m->stateless = NULL;
        (void)map_remove(&m->sessions, str_of(s->id));
        list_remove(&s->node);
        m->session_count--;
        free(s);
}
