#include "control/build/build_run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "control/catalogue/builds.h"
#include "control/catalogue/refs.h"
#include "model/conf.h"

#define AGAIN_MS 300 /* before it is begun again: what went away has to come back */
#define INTERNAL_ERROR "An internal error occurred. Please try again or contact support with the build ID."

const struct err build_no_memory = {.kind = ERR_LIMIT, .msg = "out of memory"};

/* ---- saying ---- */

void build_say(struct build_run *b, enum build_log_level level, const char *step, const char *fmt, ...)
{
        AUTO_FREE char *text = NULL;
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vasprintf(&text, fmt, ap);
        va_end(ap);
        if (n < 0)
                text = NULL;
        build_log_add(b->all->o.logs, b->id, b->all->o.now_ns(), level, step, text ? text : "out of memory");
}

/* ---- what it holds ---- */

int build_hold_layers(struct build_run *b, const char *checkpoint, const json_t *layers)
{
        size_t i;
        json_t *v;

        if (refs_hold(b->all->o.refs, checkpoint, layers) < 0)
                return -ENOMEM;
        json_array_foreach ((json_t *)(uintptr_t)layers, i, v)
                (void)json_array_append(b->held, v); /* a name that is not noted is held until the next start */
        return 0;
}

struct box_base build_box_base(const struct build_run *b, const json_t *layers)
{
        return (struct box_base){.team = b->team,
                                 .template_id = b->template_id,
                                 .layers = layers,
                                 .cpu_count = b->cpu_count,
                                 .memory_mb = b->memory_mb,
                                 .disk_mb = b->disk_mb};
}

/* All that this attempt has begun. */
static void build_drop(struct build_run *b)
{
        struct build_frame *f;

        while ((f = b->top)) {
                b->top = f->below;
                frame_free(f);
        }
        finalize_done(b);
        for (size_t i = 0; b->stages && i < b->request.stage_count; i++)
                build_chain_done(&b->stages[i]);
        free(b->stages);
        b->stages = NULL;
        build_request_done(&b->request);
        b->request = (struct build_request){0};
        refs_release(b->all->o.refs, "", b->held);
        json_decref(b->held);
        b->held = NULL;
        timer_clear(&b->overdue);
        timer_clear(&b->again);
        loop_unpost(&b->advance);
}

static void build_free_task(struct task *t)
{
        free(CONTAINER_OF(t, struct build_run, free_task));
}

void build_end(struct build_run *b)
{
        struct builds_run *br = b->all;

        if (b->is_over)
                return;
        b->is_over = true;
        build_drop(b);
        list_remove(&b->node);
        (void)map_remove(&br->by_id, str_of(b->id));
        if (br->o.on_over && !br->is_ending)
                br->o.on_over(b->id, br->o.arg);
        b->free_task.run = build_free_task;
        loop_post(br->o.loop, &b->free_task);
}

/* ---- its ends ---- */

static enum build_progress build_set_failed(struct build_run *b, const char *step, const char *message)
{
        struct build_entry *e = builds_find(b->all->o.rows, b->id);
        struct err err;

        log_info("build.failed", "build=%s step=%s", b->id, step ? step : "none");
        build_say(b, BUILD_LOG_ERROR, step, "Build failed: %s", message);
        if (e && build_set_error(b->all->o.rows, e, message, step, &err) < 0)
                log_error("build.row", "build=%s failed=\"%s\"", b->id, err.msg);
        build_end(b);
        return BUILD_OVER;
}

enum build_progress build_fail(struct build_run *b, const char *step, const char *fmt, ...)
{
        AUTO_FREE char *text = NULL;
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vasprintf(&text, fmt, ap);
        va_end(ap);
        if (n < 0)
                text = NULL;
        return build_set_failed(b, step, text ? text : INTERNAL_ERROR);
}

static void build_run_begin(struct build_run *b);

static void build_begin_again(struct timer *t)
{
        build_run_begin(CONTAINER_OF(t, struct build_run, again));
}

enum build_progress build_trip(struct build_run *b, const char *step, const struct err *err)
{
        char text[16] = "";

        switch (err->kind) {
        case ERR_GONE: /* of the sandbox, or of what it was on */
        case ERR_UNAVAILABLE:
        case ERR_INTERRUPTED: break;
        case ERR_NO_SPACE: return build_fail(b, step, "the disk of the server is full: %s", err->msg);
        case ERR_INTERNAL:
        case ERR_LIMIT:
                log_error("build.trouble", "build=%s failed=\"%s\"", b->id, err->msg);
                return build_fail(b, step, "%s (%s)", INTERNAL_ERROR, err->msg);
        default: return build_fail(b, step, "%s", err->msg);
        }
        log_warn("build.again", "build=%s failed=\"%s\", beginning it again", b->id, err->msg);
        (void)snprintf(text, sizeof(text), "%s", step ? step : ""); /* may be of what is dropped now */
        build_say(b, BUILD_LOG_WARN, text[0] ? text : NULL, "%s: beginning again, with the steps that are done",
                  err->msg);
        build_drop(b);
        b->again.on = build_begin_again;
        timer_set(b->all->o.loop, &b->again, AGAIN_MS);
        return BUILD_OVER;
}

void build_ready(struct build_run *b)
{
        log_info("build.ready", "build=%s template=%s", b->id, b->template_id);
        build_end(b);
}

/* ---- going on ---- */

void build_advance(struct build_run *b)
{
        enum build_progress p;

        do {
                p = b->top ? frame_advance(b->top) : finalize_advance(b);
        } while (p == BUILD_GOES_ON);
}

static void build_advance_task(struct task *t)
{
        build_advance(CONTAINER_OF(t, struct build_run, advance));
}

void build_go_on(struct build_run *b)
{
        b->advance.run = build_advance_task;
        loop_post(b->all->o.loop, &b->advance);
}

static void build_overdue(struct timer *t)
{
        struct build_run *b = CONTAINER_OF(t, struct build_run, overdue);

        (void)build_fail(b, NULL, "build timed out");
}

static void build_run_begin(struct build_run *b)
{
        const struct builds_run_options *o = &b->all->o;
        struct build_entry *e = builds_find(o->rows, b->id);
        struct err err;

        if (!e || e->build.status != BUILD_BUILDING) {
                build_end(b); /* cancelled, or its template is gone */
                return;
        }
        b->held = json_array();
        if (build_note_attempt(o->rows, e, &err) < 0) {
                log_error("build.attempts", "build=%s failed=\"%s\"", b->id, err.msg);
                (void)build_fail(b, NULL, INTERNAL_ERROR);
                return;
        }
        b->began_ns = o->now_ns();
        b->team = e->template->team;
        b->cpu_count = e->build.cpu_count;
        b->memory_mb = e->build.memory_mb;
        b->disk_mb = e->build.disk_mb;
        memcpy(b->template_id, e->template->id, sizeof(b->template_id));
        if (build_load_request(o->rows, e, &b->request, &err) < 0) {
                (void)build_fail(b, NULL, "%s", err.msg);
                return;
        }
        b->stages = calloc(b->request.stage_count, sizeof(*b->stages));
        b->final = FINAL_BEGIN;
        if (!b->held || !b->stages ||
            !frame_push(b, FRAME_STAGE, build_request_final(&b->request), b->request.stage_count - 1)) {
                (void)build_fail(b, NULL, INTERNAL_ERROR);
                return;
        }
        build_say(b, BUILD_LOG_INFO, NULL, "Building template %s/%s", b->template_id, b->id);
        b->overdue.on = build_overdue;
        timer_set(o->loop, &b->overdue, (uint64_t)o->conf->build_timeout_s * 1000);
        build_go_on(b);
}

/* ---- all of them ---- */

void builds_start(struct builds_run *br, const char *build_id)
{
        struct build_run *b;

        if (map_get(&br->by_id, str_of(build_id)))
                return;
        b = calloc(1, sizeof(*b));
        if (!b || strlen(build_id) >= sizeof(b->id) || map_put(&br->by_id, str_of(build_id), b, NULL) < 0) {
                log_error("build.start", "build=%s failed=\"out of memory\": it begins at the next start", build_id);
                free(b);
                return;
        }
        b->all = br;
        memcpy(b->id, build_id, strlen(build_id));
        list_push_back(&br->all, &b->node);
        b->again.on = build_begin_again;
        timer_set(br->o.loop, &b->again, 0);
}

void builds_cancel(struct builds_run *br, const char *build_id)
{
        struct build_run *b = map_get(&br->by_id, str_of(build_id));

        if (!b)
                return;
        log_info("build.cancelled", "build=%s", build_id);
        build_end(b);
}

static void builds_resume_of(struct builds_run *br, const struct template_row *t)
{
        LIST_EACH (node, &t->builds) {
                const struct build_entry *e = LIST_ENTRY(node, struct build_entry, node);

                if (e->build.status == BUILD_BUILDING)
                        builds_start(br, e->build.id);
        }
}

void builds_resume_all(struct builds_run *br)
{
        if (br->has_resumed)
                return;
        br->has_resumed = true;
        LIST_EACH (node, &br->o.rows->all)
                builds_resume_of(br, LIST_ENTRY(node, struct template_row, node));
}

size_t builds_run_count(const struct builds_run *br)
{
        size_t n = 0;

        for (const struct list *node = br->all.next; node && node != &br->all; node = node->next)
                n++;
        return n;
}

static void runner_start(struct build_runner *r, const char *build_id)
{
        builds_start(CONTAINER_OF(r, struct builds_run, runner), build_id);
}

static void runner_cancel(struct build_runner *r, const char *build_id)
{
        builds_cancel(CONTAINER_OF(r, struct builds_run, runner), build_id);
}

int builds_run_init(struct builds_run *br, const struct builds_run_options *o, struct err *err)
{
        AUTO_FREE char *builder = conf_path(o->conf, "run/builder.sock"),
                       *puller = conf_path(o->conf, "run/puller.sock");

        *br = (struct builds_run){.o = *o, .runner = {.start = runner_start, .cancel = runner_cancel}};
        list_init(&br->all);
        build_keep_init(&br->keep, o->loop, o->engine, o->refs, o->cache);
        if (role_link_init(&br->builder, o->loop, "builder", builder) < 0 ||
            role_link_init(&br->puller, o->loop, "puller", puller) < 0)
                return err_sys(err, -ENOMEM, "builds");
        return 0;
}

void builds_run_done(struct builds_run *br)
{
        br->is_ending = true;
        while (br->all.next && !list_is_empty(&br->all)) {
                struct build_run *b = LIST_ENTRY(br->all.next, struct build_run, node);

                build_end(b);
                loop_unpost(&b->free_task);
                free(b);
        }
        map_done(&br->by_id);
        build_keep_done(&br->keep);
        role_link_done(&br->builder);
        role_link_done(&br->puller);
}
