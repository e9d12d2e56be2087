/* call.h - one JSON-RPC request under way.
 *
 * A function that answers a method either finishes the call at once, or keeps it and finishes it later (call_result, call_error).
 * The client may cancel a call (notifications/cancelled), or its session may end.  Then on_cancel is called: it ends what runs for the
 * call and finishes the call before it returns.  The answer of a cancelled call is not sent.  A call that is kept has an on_cancel. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct mcp;
struct session;
struct stream;
struct tool;

struct call {
        struct list node; /* of session->calls */
        struct mcp *mcp;
        struct session *session;
        struct stream *stream;  /* NULL: gone */
        json_t *id;             /* owned, as the next two */
        json_t *params;         /* an object */
        json_t *progress_token; /* NULL: the client wants no progress */
        uint64_t begun_us;
        double progress;
        bool is_cancelled;
        bool is_cacheable;       /* a result that revisions without sessions let clients keep */
        const struct tool *tool; /* of tools/call; NULL: of other methods */
        void *user;
        void (*on_cancel)(struct call *c);
};

struct call *call_begin(struct session *s, struct stream *st, json_t *id, json_t *params); /* NULL: no memory */
void call_result(struct call *c, json_t *result); /* takes result; NULL: answered with an error about memory */
void call_error(struct call *c, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void call_pass_error(struct call *c, const json_t *error); /* of another server: its code, message and data */
/* Tell how far the call is; nothing happens where the client wants no progress.  `message` NULL: none. */
void call_progress(struct call *c, double add, const char *message);
void call_cancel(struct call *c);
struct call *call_find(struct session *s, const json_t *id);
