/* subscriber.h - one client listening to a process: the streamed answer of Start or Connect.
 *
 * One that asks for replay gets offsets with every event, and first what the ring holds from where it wants.  While it
 * is behind it reads from the ring only, as fast as its connection takes it; meanwhile nothing is read from the process,
 * so that it can catch up. */
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
        struct process *process; /* borrowed; NULL: it has ended */
        struct rpc *rpc;         /* whose state this is */
        struct timer keepalive;
        uint64_t interval_ms, last_ms; /* of silence; when the last event went out */
        struct replay *replay;         /* owned (a reference); NULL: events without offsets */
        struct replay_cursor cursor;
        bool is_behind;             /* there is more in the ring for it */
        bool is_ended;              /* the process has ended: */
        int exit_code, exit_status; /* so */
};

struct replay_from { /* what the request says about replay */
        bool is_asked;
        uint64_t offset;
};
/* -1 with invalid_argument. */
int replay_from_decode(const struct http1_head *head, struct replay_from *ret, struct fault *f);

/* Make the rpc a listener of p: the answer begins with its start event, keepalives included.  -1 with *f set: not
 * answered; out_of_range: so much output there never was. */
int subscriber_create(struct rpc *rpc, struct process *p, const struct replay_from *from, struct fault *f);
/* The same for one that has ended: what is kept of its output if that is asked for, and its end. */
int subscriber_create_ended(struct rpc *rpc, const struct ended_process *e, const struct replay_from *from,
                            struct fault *f);

bool subscriber_has_offsets(const struct subscriber *s);
void subscriber_send(struct subscriber *s,
                     struct str envelope); /* not to one that is behind: it finds it in the ring */
bool subscriber_is_full(const struct subscriber *s);
/* The process has ended (codes of waitid): send the end event and end the stream, as soon as it has caught up. */
void subscriber_end(struct subscriber *s, int code, int status);
