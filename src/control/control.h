/* control.h - the control role put together: what a request's handler can reach. */
#pragma once
#include <stdint.h>

#include "control/chains.h"
#include "control/durable.h"
#include "control/ended.h"
#include "control/engine_link.h"
#include "control/feed.h"
#include "control/keys.h"
#include "control/lives.h"
#include "control/refs.h"
#include "control/snapshots.h"
#include "control/templates.h"
#include "store/store.h"

struct conf;
struct err;
struct http_server;

struct control {
        const struct conf *conf; /* borrowed */
        struct loop *loop;       /* borrowed */
        struct store *store;     /* owned, as all below */
        uint8_t seed[STORE_SEED_LEN];
        struct keys keys;
        struct templates templates;
        struct engine_link engine;
        struct feed feed;
        struct durable durable;
        struct refs refs;
        struct ended ended;
        json_t *image_tokens; /* checkpoint -> token, where it is not derived from the seed (store.h) */
        struct snapshots snapshots;
        struct lives lives;
        struct chains chains;
        struct list restores; /* handle_lost.c */
        struct http_server *http;
        int64_t (*now_ns)(void);  /* real time */
        int64_t (*boot_ns)(void); /* a clock that nobody sets */
        uint64_t answer_ms_max;   /* 0: ANSWER_MS_MAX; tests have less time */
};

/* Everything but the listening: with the store open, the engine being connected to, and nothing served yet. */
int control_init(struct control *c, const struct conf *conf, struct loop *loop, int64_t (*now_ns)(void),
                 int64_t (*boot_ns)(void), struct err *err);
int control_listen(struct control *c, struct err *err); /* on the sockets that conf names */
void control_done(struct control *c);                   /* also half-initialised */
