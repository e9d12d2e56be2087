/* process_link.h - a channel to control or the engine that is connected again by itself when it is lost.
 *
 * The listening socket outlives the process behind it, so connecting nearly always works at once.  Whether the process is there
 * shows only when a message arrives (process_link_is_live). */
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

/* Set loop, name, path, on_up and on_message first.  on_up is called for each new connection, also before this returns. */
void process_link_start(struct process_link *k);
void process_link_done(struct process_link *k);
bool process_link_is_live(const struct process_link *k);
/* Steals msg (NULL: out of memory).  0; -ENOTCONN: send again from on_up; other negative errno: the message is lost. */
int process_link_send(struct process_link *k, json_t *msg);
/* ERR_NONE, or the kind of error in an answer. */
enum err_kind process_link_answer_kind(const json_t *msg);
