/* process_link.h - a channel to one of our own processes that comes back by itself.
 *
 * The listening socket outlives its process, so connecting nearly always works at once; whether somebody is there shows
 * only when a message arrives (process_link_is_live). */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "io/channel.h"
#include "io/loop.h"

struct process_link {
        struct loop *loop; /* borrowed */
        const char *name;  /* for the log */
        char *path;        /* owned */
        struct channel *channel;
        struct timer retry;
        unsigned retry_ms;
        bool is_live; /* the other side has spoken on this channel */
        void (*on_up)(struct process_link *k);
        void (*on_message)(struct process_link *k, json_t *msg, int *fds, size_t nfds);
};

/* Set loop, name, path, on_up and on_message first.  on_up comes at each connection made, also before this returns. */
void process_link_start(struct process_link *k);
void process_link_done(struct process_link *k);
bool process_link_is_live(const struct process_link *k);
/* Steals msg (NULL: out of memory).  0; -ENOTCONN: on_up gives another chance; other negative errno: it is lost. */
int process_link_send(struct process_link *k, json_t *msg);
/* ERR_NONE, or what an answer says is wrong. */
enum err_kind process_link_answer_kind(const json_t *msg);
