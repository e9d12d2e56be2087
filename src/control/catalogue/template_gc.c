#include "control/catalogue/template_gc.h"

#include <sys/statvfs.h>

#include "base/err.h"
#include "base/log.h"
#include "control/catalogue/build_log.h"
#include "control/catalogue/builds.h"
#include "control/catalogue/layer_cache.h"
#include "control/catalogue/uploads.h"

#define FIRST_MS 60000
#define EVERY_MS 600000
#define LOOK_MS 30000
#define S_NS INT64_C(1000000000)
#define DAY_NS (24 * 3600 * S_NS)
#define WAITING_NS DAY_NS  /* a build that was requested and not started */
#define CACHED_MAX 100000u /* steps */
#define NEVER_STARTED "The build was canceled because it was not started within a day."

static bool gc_knows_build(const char *id, void *arg)
{
        return builds_find(arg, id);
}

static void gc_end_waiting_of(struct template_gc *gc, struct template_row *t, int64_t before_ns)
{
        LIST_EACH (node, &t->builds) {
                struct build_entry *e = LIST_ENTRY(node, struct build_entry, node);

                if (e->build.status == BUILD_WAITING && e->build.created_ns < before_ns)
                        (void)build_set_error(gc->o.rows, e, NEVER_STARTED, NULL, NULL);
        }
}

static void gc_end_waiting(struct template_gc *gc, int64_t before_ns)
{
        LIST_EACH (node, &gc->o.rows->all)
                gc_end_waiting_of(gc, LIST_ENTRY(node, struct template_row, node), before_ns);
}

void template_gc_run(struct template_gc *gc)
{
        int64_t now = gc->o.now_ns();
        size_t builds, steps;

        gc_end_waiting(gc, now - WAITING_NS);
        builds = builds_collect(gc->o.rows, gc->o.builds_kept, NULL, NULL);
        build_logs_collect(gc->o.logs, gc_knows_build, gc->o.rows);
        uploads_collect(gc->o.uploads, now / S_NS);
        steps = layer_cache_trim(gc->o.cache, gc->o.cached_days ? now - gc->o.cached_days * DAY_NS : 0, CACHED_MAX);
        if (builds || steps)
                log_info("template.collected", "builds=%zu steps=%zu", builds, steps);
        timer_set(gc->o.loop, &gc->timer, EVERY_MS);
}

/* A quarter of the cache at a time: what is removed has to be deleted before the disk has room again. */
static void gc_look_at_disk(struct timer *t)
{
        struct template_gc *gc = CONTAINER_OF(t, struct template_gc, look);
        size_t most = gc->o.cache->count - (gc->o.cache->count + 3) / 4, n;
        struct statvfs fs;

        timer_set(gc->o.loop, &gc->look, LOOK_MS);
        if (statvfs(gc->o.data_dir, &fs) < 0 || fs.f_bavail * fs.f_frsize >> 20 >= gc->o.free_mb)
                return;
        n = layer_cache_trim(gc->o.cache, 0, most);
        if (n)
                log_warn("build.cache_trimmed", "steps=%zu left=%zu: the disk is nearly full", n, gc->o.cache->count);
}

static void gc_on_timer(struct timer *t)
{
        template_gc_run(CONTAINER_OF(t, struct template_gc, timer));
}

void template_gc_init(struct template_gc *gc, const struct template_gc_options *o)
{
        *gc = (struct template_gc){.o = *o, .timer.on = gc_on_timer};
        timer_set(o->loop, &gc->timer, FIRST_MS);
        gc->look.on = gc_look_at_disk;
        if (o->free_mb > 0)
                timer_set(o->loop, &gc->look, LOOK_MS);
}

void template_gc_done(struct template_gc *gc)
{
        timer_clear(&gc->timer);
        timer_clear(&gc->look);
}
