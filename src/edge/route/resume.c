#include "edge/route/resume.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "wire/sha256.h"

/* Tells credentials apart without keeping them.  A request to a user's port needs none: the edge has checked its token. */
static uint64_t resume_key_of(const struct visit *v, struct str token)
{
        uint8_t hash[SHA256_LEN];
        uint64_t key;

        if (v->port != ENVD_PORT)
                return 0;
        sha256(token.p, token.n, hash);
        memcpy(&key, hash, sizeof(key));
        return key | 1;
}

static json_t *resume_question(const struct routed_sandbox *s, const struct visit *v, struct str token)
{
        json_t *msg = json_pack("{s:s, s:I, s:s, s:i}", "op", "resume", "req", (json_int_t)s->req, "id", s->id, "port",
                                (int)v->port);
        /* Bytes that are no text, or longer than any token, are no token. */
        json_t *text = token.n && token.n <= ROUTE_TEXT_MAX ? json_stringn(token.p, token.n) : NULL;

        if (text && json_object_set_new(msg, "access_token", text) < 0) {
                json_decref(msg);
                return NULL;
        }
        return msg;
}

enum routes_result resume_ask(struct route_table *t, struct routed_sandbox *s, struct visit *v, struct str token)
{
        uint64_t key = resume_key_of(v, token);
        int r;

        if (s->waiter_count >= t->limits->resume_waiters_max)
                return ROUTES_CROWDED;
        if (t->waiter_count >= t->limits->waiters_max)
                return ROUTES_FULL;
        if (s->asks == ASKS_NOTHING) {
                if (t->resuming_count >= t->limits->resumes_max)
                        return ROUTES_FULL;
                routes_asking(t, s, ASKS_RESUME);
                s->resume_key = key;
                r = process_link_send(&t->link, resume_question(s, v, token));
                if (r < 0 && r != -ENOTCONN &&
                    r != -EPIPE) { /* without a link the question is sent once the link is up again */
                        routes_asking(t, s, ASKS_NOTHING);
                        return ROUTES_FULL;
                }
        }
        v->resume_key = key;
        routes_wait(v, s);
        return ROUTES_WAIT;
}

static enum wait_result resume_result_of(enum err_kind kind)
{
        switch (kind) {
        case ERR_DENIED: return WAIT_DENIED;
        case ERR_LIMIT: return WAIT_LIMIT;
        case ERR_NO_SPACE: return WAIT_NO_SPACE;
        case ERR_CONFLICT: return WAIT_BUSY;
        case ERR_TIMEOUT:
        case ERR_INTERRUPTED:
        case ERR_UNAVAILABLE: return WAIT_UNAVAILABLE;
        default: return WAIT_FAILED; /* the sandbox cannot be resumed: the same answer for every request */
        }
}

static bool route_says_running(const json_t *route)
{
        const char *state = json_string_value(json_object_get(route, "state"));

        return state && strcmp(state, "running") == 0;
}

void resume_answered(struct route_table *t, struct routed_sandbox *s, const json_t *msg)
{
        const json_t *route = json_object_get(msg, "route");
        enum err_kind kind = process_link_answer_kind(msg);

        routes_asking(t, s, ASKS_NOTHING);
        if (kind == ERR_NONE && route_says_running(route)) {
                routes_learn(t, s, route);
                return;
        }
        if (kind == ERR_NOT_FOUND) {
                routes_gone(t, s);
                return;
        }
        if (kind == ERR_NONE)
                kind = ERR_UNAVAILABLE;
        log_debug("resume.refused", "sandbox=%s kind=%s", s->id, err_kind_name(kind));
        t->refusal = json_string_value(json_object_get(json_object_get(msg, "error"), "message"));
        routes_release_waiters(s, resume_result_of(kind));
        t->refusal = NULL;
}
