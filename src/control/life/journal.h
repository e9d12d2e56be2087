/* journal.h - what happened to sandboxes lately: for clients that watch one, or that ask why one is gone.
 *
 * In memory only: the newest events, at most JOURNAL_MAX and JOURNAL_BYTES_MAX, for JOURNAL_KEEP_MS.  After a restart of control it
 * is empty. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/list.h"
#include "io/loop.h"
#include "model/sandbox.h"

#define JOURNAL_MAX 16384u
#define JOURNAL_BYTES_MAX (16u << 20) /* metadata of sandboxes that have ended is most of it */
#define JOURNAL_KEEP_MS 600000u
#define JOURNAL_LISTENERS_MAX 1024u /* each is a client's connection: well below as many as control has */
#define JOURNAL_TEAM_LISTENERS_MAX 256u

struct team;

enum journal_kind {
        JOURNAL_CREATED,
        JOURNAL_PAUSED,
        JOURNAL_RESUMED,
        JOURNAL_COPIED,
        JOURNAL_ROLLED_BACK,
        JOURNAL_ENDED
};

struct journal_event {
        struct list node;
        uint64_t no;             /* counted over all events since control started, from 1 */
        char id[SANDBOX_ID_MAX]; /* of the sandbox */
        const struct team *team; /* borrowed; compared only */
        enum journal_kind kind;
        const char *reason; /* JOURNAL_ENDED: static; "deleted": by a request */
        int64_t at_ns;      /* real time */
        uint64_t kept_since_ms;
        char *shown;  /* JOURNAL_ENDED: owned: what is still told of the sandbox, as JSON; NULL: nothing */
        size_t bytes; /* of memory */
};

struct journal_listener { /* embedded; zeroed is fine */
        struct list node;
        char id[SANDBOX_ID_MAX];
        const struct team *team;
        void (*on)(struct journal_listener *l, const struct journal_event *e); /* may stop listening */
};

struct journal {
        struct loop *loop; /* borrowed */
        struct list events, listeners;
        size_t count, bytes;
        uint64_t next_no;
        struct timer sweep;
};

void journal_init(struct journal *j, struct loop *loop);
void journal_done(struct journal *j);
/* The sandbox went from state `before` to the state that it has now.  why: of an end; static text. */
void journal_note(struct journal *j, const struct sandbox *s, const struct team *t, enum sandbox_state before,
                  const char *why, int64_t now_ns);
/* How a sandbox ended; NULL: it did not, or so long ago that it is forgotten. */
const struct journal_event *journal_find_end(const struct journal *j, const char *id, const struct team *t);
/* What is still told of a sandbox that has ended; new; NULL: nothing. */
json_t *journal_show_end(const struct journal_event *e);
/* {"event","at","sandbox_id"} and, of an end, "reason"; new; NULL: out of memory. */
json_t *journal_show(const struct journal_event *e);
/* false: as many listen as may, in all or of the team. */
bool journal_listen(struct journal *j, struct journal_listener *l);
void journal_leave(struct journal_listener *l); /* fine when not listening */
