/* builds_run.h - carries out the builds of templates.
 *
 * A build is known by its id; its row (catalogue/builds.h) says what became of it.  Any number of builds run at once.  A build
 * that control, builder, engine or puller died under is begun again from its start, at most BUILD_ATTEMPTS_MAX times, and finds
 * finished steps in the cache. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "control/build/build_keep.h"
#include "control/build/role_link.h"
#include "control/catalogue/build_runner.h"

struct build_logs;
struct build_run;
struct conf;
struct durable;
struct images;
struct keys;
struct lives;
struct loop;
struct snapshots;
struct template_rows;
struct templates;
struct tokens;
struct uploads;

struct builds_run_options { /* all borrowed */
        struct loop *loop;
        const struct conf *conf;
        struct keys *keys;
        const struct tokens *tokens;
        struct engine_link *engine;
        struct durable *durable;
        struct refs *refs;
        struct lives *lives;
        struct templates *templates;
        struct snapshots *snapshots;
        struct template_rows *rows;
        struct layer_cache *cache;
        struct images *images;
        struct build_logs *logs;
        struct uploads *uploads;
        int64_t (*now_ns)(void);
        void (*on_over)(const char *build_id, void *arg); /* READY, ERROR or cancelled; NULL: not told */
        void *arg;
};

struct builds_run {
        struct build_runner runner; /* for the handlers of the API */
        struct builds_run_options o;
        struct role_link builder, puller;
        struct build_keep keep;
        struct map by_id; /* -> struct build_run, borrowed from `all` */
        struct list all;  /* of struct build_run, owned */
        bool has_resumed, is_ending;
};

int builds_run_init(struct builds_run *br, const struct builds_run_options *o, struct err *err);
void builds_run_done(struct builds_run *br); /* builds stay BUILDING, for the next control; also zeroed */

/* The row is BUILDING.  Returns at once. */
void builds_start(struct builds_run *br, const char *build_id);
/* The build is not wanted any more: everything that runs for it is ended.  Its row is not touched. */
void builds_cancel(struct builds_run *br, const char *build_id);
/* After the engine's first list: every row that is BUILDING goes on. */
void builds_resume_all(struct builds_run *br);
size_t builds_run_count(const struct builds_run *br);
