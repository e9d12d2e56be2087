/* subscriber.h - one client listening to a process: the streamed answer of Start or Connect. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/str.h"
#include "envd/rpc.h"
#include "io/loop.h"

struct process;

struct subscriber {
        struct list node;        /* process->subscribers */
        struct process *process; /* borrowed; NULL: it has ended */
        struct rpc *rpc;         /* whose state this is */
        struct timer keepalive;
        uint64_t interval_ms, last_ms; /* of silence; when the last event went out */
};

/* Make the rpc a listener of p: the answer begins with its start event, keepalives included.  -ENOMEM (not answered). */
int subscriber_create(struct rpc *rpc, struct process *p);

void subscriber_send(struct subscriber *s, struct str envelope);
bool subscriber_is_full(const struct subscriber *s);
/* Send the end event (borrowed) and end the stream; the subscriber is gone afterwards. */
void subscriber_end(struct subscriber *s, json_t *event);
