/* api.h - the HTTP API: what the handlers of requests can reach, and the server that hands requests to them. */
#pragma once
#include <stdint.h>

#include "base/list.h"
#include "control/catalogue/sources.h"

struct build_logs;
struct build_runner;
struct first_use;
struct conf;
struct credentials;
struct durable;
struct engine_link;
struct err;
struct http_server;
struct keys;
struct layer_chains;
struct lives;
struct loop;
struct refs;
struct snapshots;
struct store;
struct standby_wishes;
struct template_rows;
struct templates;
struct tokens;
struct uploads;
struct builds_run;
struct images;

struct api {
        const struct conf *conf; /* borrowed, as all up to the clock */
        struct loop *loop;
        struct store *store;
        struct keys *keys;
        struct tokens *tokens;
        struct credentials *credentials;
        struct templates *templates;
        struct engine_link *engine;
        struct durable *durable;
        struct refs *refs;
        struct snapshots *snapshots;
        struct lives *lives;
        struct layer_chains *layer_chains;
        struct build_runner *runner; /* NULL: builds cannot be started */
        struct first_use *first_use; /* NULL: ready-made templates are not built by themselves */
        struct builds_run *builds;   /* imports images */
        struct images *images;
        struct template_rows *template_rows;
        struct standby_wishes *standby_wishes;
        struct build_logs *build_logs;
        struct uploads *uploads;
        struct sources sources;
        int64_t (*now_ns)(void); /* real time */
        /* its own: zeroed to begin with */
        struct http_server *http;
        struct list lost_restores; /* handle_lost.c */
        uint64_t answer_ms_max;    /* 0: ANSWER_MS_MAX; tests have less time */
};

int api_init(struct api *api,
             struct err *err); /* the borrowed ones are set, and there are no requests before api_listen() */
int api_listen(struct api *api, int fd, struct err *err); /* takes the listening fd */
void api_done(struct api *api);                           /* also half-initialised: requests are cut off */
