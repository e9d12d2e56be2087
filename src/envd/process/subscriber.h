/* subscriber.h - one client listening to a process: the streamed answer of Start or Connect.
 *
 * A subscriber that asks for replay gets offsets with every event, and first what the ring holds from the offset
 * on that it asks for.  While a subscriber is behind, it is sent bytes of the ring only, as fast as its connection
 * takes them; meanwhile no output is read from the process, so that the subscriber can catch up. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/str.h"
#include "envd/process/replay.h"
#include "envd/rpc/rpc.h"
#include "io/loop.h"

struct ended_process;
struct process;

struct subscriber {
        struct list node;        /* process->subscribers */
        struct process *process; /* borrowed; NULL: the process has ended */
        struct rpc *rpc;         /* this struct is its state */
        struct timer keepalive;
        uint64_t interval_ms, last_ms; /* of silence; when the last event went out */
        struct replay *replay;         /* owned (a reference); NULL: events without offsets */
        struct replay_cursor cursor;
        bool is_behind;             /* the ring has more for this subscriber */
        bool is_ended;              /* the process has ended, with: */
        int exit_code, exit_status; /* as waitid() reports them */
};

struct replay_from { /* what the request says about replay */
        bool is_asked;
        uint64_t offset;
};
/* -1 with invalid_argument. */
int replay_from_decode(const struct http1_head *head, struct replay_from *ret, struct fault *f);

/* Make the rpc a listener of p: the answer begins with its start event, keepalives included.  -1 with *f set: not
 * answered; out_of_range: the offset is beyond the output. */
int subscriber_create(struct rpc *rpc, struct process *p, const struct replay_from *from, struct fault *f);
/* The same for a process that has ended: the output that is kept, if the client asks for it, and the end event. */
int subscriber_create_ended(struct rpc *rpc, const struct ended_process *e, const struct replay_from *from,
                            struct fault *f);

bool subscriber_has_offsets(const struct subscriber *s);
/* Does nothing while the subscriber is behind: the ring has the bytes. */
void subscriber_send(struct subscriber *s, struct str envelope);
bool subscriber_is_full(const struct subscriber *s);
/* The process has ended (codes of waitid): send the end event and end the stream, as soon as the subscriber has
 * caught up. */
void subscriber_end(struct subscriber *s, int code, int status);
