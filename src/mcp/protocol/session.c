#include "mcp/protocol/session.h"

#include "base/clock.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/jsonrpc.h"
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

/* A call under way, or a connection.  Answers that are kept for a client that may come back are none. */
static bool is_in_use(const struct session *s)
{
        if (s->is_stateless || !list_is_empty(&s->calls))
                return true;
        LIST_EACH (at, &s->streams) {
                if (stream_has_client(LIST_ENTRY(at, struct stream, node)))
                        return true;
        }
        return false;
}

/* Look again when the next of the two limits is due; a session in use begins to count when it is touched. */
static void watch_idle(struct session *s, uint64_t idle_ms)
{
        const struct mcp_options *opt = &s->mcp->opt;
        uint64_t due = s->rests || idle_ms >= opt->rest_after_ms ? opt->end_after_ms : opt->rest_after_ms;

        timer_set(s->mcp->loop, &s->idle, due > idle_ms ? due - idle_ms : opt->end_after_ms);
}

static void on_idle(struct timer *t)
{
        struct session *s = CONTAINER_OF(t, struct session, idle);
        const struct mcp_backend *backend = s->mcp->backend;
        uint64_t idle_ms = is_in_use(s) ? 0 : clock_mono_ms() - s->used_ms;

        if (idle_ms >= s->mcp->opt.rest_after_ms && !s->rests) {
                s->rests = true;
                if (backend->session_rests)
                        backend->session_rests(s);
        }
        if (idle_ms >= s->mcp->opt.end_after_ms && !(backend->session_is_busy && backend->session_is_busy(s)))
                session_end(s);
        else
                watch_idle(s, idle_ms);
}

void session_touch(struct session *s)
{
        s->used_ms = clock_mono_ms();
        s->rests = false;
        if (!s->is_stateless)
                watch_idle(s, 0);
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
        s->idle.on = on_idle;
        random_id(s->id, SESSION_ID_CHARS);
        if (map_put(&m->sessions, str_of(s->id), s, NULL) < 0) {
                free(s);
                return NULL;
        }
        list_push_back(&m->session_order, &s->node);
        m->session_count++;
        session_touch(s);
        return s;
}

struct session *session_find(struct mcp *m, struct str id)
{
        struct session *s = map_get(&m->sessions, id);

        if (s) {
                list_remove(&s->node);
                list_push_back(&m->session_order, &s->node);
                session_touch(s);
        }
        return s;
}

void sessions_tell_tools(struct mcp *m)
{
        LIST_EACH (at, &m->session_order) {
                struct session *s = LIST_ENTRY(at, struct session, node);
                struct stream *st = s->is_initialized ? stream_standalone(s) : NULL;

                if (st)
                        stream_notify(st, jsonrpc_notification("notifications/tools/list_changed", NULL));
        }
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
        timer_clear(&s->idle);
        (void)map_remove(&m->sessions, str_of(s->id));
        list_remove(&s->node);
        m->session_count--;
        free(s);
}
