/* standby_wishes.h - which templates the engine is to have standbys of (sandboxes restored ahead): those that begin with a
 * checkpoint and were used a short time ago (model/standby/standby_choice.h).
 *
 * A use is remembered by template and tag, so that a rebuilt template has standbys of its new build.  The engine is told when its
 * list would change, and after each connect.  Whether a create is done by a standby is the engine's affair. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/list.h"
#include "control/engine_link/engine_link.h"
#include "io/loop.h"

struct conf;
struct err;
struct template_row;
struct template_rows;
struct tokens;

struct standby_wishes {
        struct loop *loop; /* borrowed, as the next */
        const struct conf *conf;
        const struct tokens *tokens;
        struct template_rows *rows;
        struct engine_link *engine;
        int64_t (*now_ns)(void);
        struct list uses; /* owned */
        size_t use_count;
        json_t *told;    /* owned: what the engine knows; NULL: nothing */
        json_t *telling; /* owned: what it is being told */
        struct engine_call call;
        struct timer look;
};

/* All borrowed.  Templates that were used a short time before control started count as used. */
void standby_wishes_init(struct standby_wishes *w, const struct standby_wishes *from);
void standby_wishes_done(struct standby_wishes *w);
/* A sandbox is started from what the tag ("": the newest) of the template means. */
void standby_wishes_used(struct standby_wishes *w, const struct template_row *t, const char *tag);
void standby_wishes_connected(struct standby_wishes *w); /* this engine knows of nothing yet */
