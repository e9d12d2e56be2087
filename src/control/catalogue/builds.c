#include "control/catalogue/builds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/catalogue/refs.h"
#include "model/build/build_names.h"
#include "model/build/build_request.h"
#include "store/store.h"
#include "store/templates.h"

/* ---- finding ---- */

struct build_entry *builds_find(const struct template_rows *ts, const char *id)
{
        return map_get(&ts->by_build, str_of(id));
}

struct build_entry *builds_newest(const struct template_row *t)
{
        return list_is_empty(&t->builds) ? NULL : LIST_ENTRY(t->builds.prev, struct build_entry, node);
}

struct build_entry *builds_find_of(const struct template_row *t, uint32_t number, const char *id)
{
        LIST_EACH (node, &t->builds) {
                struct build_entry *e = LIST_ENTRY(node, struct build_entry, node);

                if (id ? strcmp(e->build.id, id) == 0 : e->build.number == number)
                        return e;
        }
        return NULL;
}

static int builds_no_tag(const struct template_row *t, const char *tag, const char *shown, struct err *err)
{
        const struct build_entry *newest = builds_newest(t);
        const char *hint = "";

        if (newest && !build_is_over(&newest->build) && build_has_tag(&newest->build, tag))
                hint = newest->build.status == BUILD_WAITING ? ": its build has not been started"
                                                             : ": its build is not finished";
        else if (newest && newest->build.status == BUILD_ERROR && build_has_tag(&newest->build, tag))
                hint = ": its build failed";
        return err_set(err, ERR_NOT_FOUND, "tag '%.60s' does not exist for template '%.100s'%s", tag, shown, hint);
}

int builds_ready_of(const struct template_row *t, const char *tag, const char *shown, struct build_entry **ret,
                    struct err *err)
{
        struct template_tag *found;
        struct build_entry *e;

        if (!tag[0])
                tag = TAG_DEFAULT;
        if (uuid_is_valid(tag)) {
                e = builds_find_of(t, 0, tag);
                if (!e || e->build.status != BUILD_READY)
                        return err_set(err, ERR_NOT_FOUND,
                                       e ? "build '%.60s' of template '%.100s' is not ready"
                                         : "build '%.60s' does not exist for template '%.100s'",
                                       tag, shown);
                *ret = e;
                return 0;
        }
        found = template_tag_find(t, tag);
        if (!found && strcmp(tag, "latest") == 0)
                found = template_tag_find(t, TAG_DEFAULT);
        if (!found)
                return builds_no_tag(t, tag, shown, err);
        *ret = found->build;
        return 0;
}

static size_t builds_running_of(const struct template_row *t)
{
        size_t n = 0;

        LIST_EACH (node, &t->builds)
                n += LIST_ENTRY(node, struct build_entry, node)->build.status == BUILD_BUILDING;
        return n;
}

size_t builds_running(const struct template_rows *ts, int64_t team)
{
        size_t n = 0;

        LIST_EACH (node, &ts->all) {
                const struct template_row *t = LIST_ENTRY(node, struct template_row, node);

                if (t->team == team)
                        n += builds_running_of(t);
        }
        return n;
}

/* ---- adding ---- */

/* The build and its template's number, in one transaction. */
static int builds_write_new(struct template_rows *ts, const struct template_row *t, const struct build *b,
                            struct err *err)
{
        int r = store_begin(ts->store, err);

        if (r == 0)
                r = store_build_add(ts->store, b, err);
        if (r == 0)
                r = template_row_write(ts, t, err);
        if (r == 0)
                r = store_commit(ts->store, err);
        if (r < 0)
                store_rollback(ts->store);
        return r;
}

int builds_add(struct template_rows *ts, struct template_row *t, struct build *b, struct build_entry **ret,
               struct err *err)
{
        int64_t now = ts->now_ns() / 1000 * 1000, before = t->updated_ns;
        int r;

        if (ts->build_count >= TEMPLATE_BUILDS_MAX)
                return err_set(err, ERR_LIMIT, "there are %d builds, and no more are kept", TEMPLATE_BUILDS_MAX);
        uuid_make(b->id);
        memcpy(b->template_id, t->id, sizeof(b->template_id));
        b->number = t->build_count + 1;
        b->status = BUILD_WAITING;
        b->created_ns = b->updated_ns = now;
        r = template_row_take_build(ts, t, b, ret);
        if (r < 0)
                return err_sys(err, r, "build");
        t->build_count++;
        t->updated_ns = now;
        r = builds_write_new(ts, t, &(*ret)->build, err);
        if (r < 0) {
                t->build_count--;
                t->updated_ns = before;
                build_entry_free(ts, *ret);
        }
        return r;
}

/* ---- beginning ---- */

static int build_write_begun(struct template_rows *ts, const struct build *b, const json_t *request, struct err *err)
{
        int r = store_begin(ts->store, err);

        if (r == 0)
                r = store_build_update(ts->store, b, err);
        if (r == 0)
                r = store_build_set_request(ts->store, b->id, request, err);
        if (r == 0)
                r = store_commit(ts->store, err);
        if (r < 0)
                store_rollback(ts->store);
        return r;
}

int build_begin(struct template_rows *ts, struct build_entry *e, const struct build_request *request, struct err *err)
{
        struct build now = e->build; /* what it owns stays e's */
        int r;

        if (e->build.status != BUILD_WAITING)
                return err_set(err, ERR_INVALID, "build is not in waiting state");
        now.status = BUILD_BUILDING;
        now.updated_ns = ts->now_ns() / 1000 * 1000;
        if (request->cpu_count)
                now.cpu_count = request->cpu_count;
        if (request->memory_mb)
                now.memory_mb = request->memory_mb;
        r = build_write_begun(ts, &now, request->json, err);
        if (r == 0)
                e->build = now;
        return r;
}

int build_load_request(const struct template_rows *ts, const struct build_entry *e, struct build_request *ret,
                       struct err *err)
{
        json_t *json = NULL;
        int r = store_build_request(ts->store, e->build.id, &json, err);

        if (r == 0 && !json)
                r = err_set(err, ERR_NOT_FOUND, "build '%s' has no request", e->build.id);
        if (r == 0)
                r = build_request_decode(json, ret, err);
        json_decref(json);
        return r;
}

int build_note_attempt(struct template_rows *ts, struct build_entry *e, struct err *err)
{
        struct build now = e->build;
        int r;

        if (now.attempts >= BUILD_ATTEMPTS_MAX)
                return err_set(err, ERR_LIMIT, "the build was begun %d times", BUILD_ATTEMPTS_MAX);
        now.attempts++;
        r = store_build_update(ts->store, &now, err);
        if (r == 0)
                e->build = now;
        return r;
}

/* ---- the end ---- */

static int build_check_open(const struct build *b, struct err *err)
{
        return build_is_over(b) ? err_set(err, ERR_CONFLICT, "build '%s' is over", b->id) : 0;
}

static char *build_dup(const char *s, bool *ok)
{
        char *copy = s && s[0] ? strdup(s) : NULL;

        *ok = *ok && (!s || !s[0] || copy);
        return copy;
}

/* A READY copy of b; the caller's. */
static int build_fill_ready(const struct build *b, const struct build_result *res, int64_t now_ns, struct build *ret)
{
        bool ok = true;

        *ret = *b;
        ret->status = BUILD_READY;
        ret->updated_ns = ret->finished_ns = now_ns;
        (void)stpncpy(ret->checkpoint, res->checkpoint, sizeof(ret->checkpoint) - 1);
        (void)stpncpy(ret->image_of, res->image_of, sizeof(ret->image_of) - 1);
        ret->image_secured = res->image_secured;
        ret->tags = json_incref(b->tags);
        ret->reason = NULL;
        ret->layers = json_incref(res->layers);
        ret->env = json_incref(res->env);
        ret->default_user = build_dup(res->default_user, &ok);
        ret->default_workdir = build_dup(res->default_workdir, &ok);
        ret->start_cmd = build_dup(res->start_cmd, &ok);
        ret->ready_cmd = build_dup(res->ready_cmd, &ok);
        return ok ? 0 : -ENOMEM;
}

/* Is the tag this build's?  Not when it was given to another build after this one was requested. */
static bool build_gets_tag(const struct build_entry *e, const char *tag)
{
        const struct template_tag *old = template_tag_find(e->template, tag);

        return !old || old->created_ns <= e->build.created_ns;
}

static int build_write_ready(struct template_rows *ts, const struct build_entry *e, const struct build *now,
                             struct err *err)
{
        struct store_tag row = {.created_ns = now->created_ns};
        size_t i;
        json_t *v;
        int r = store_build_update(ts->store, now, err);

        if (r == 0)
                r = store_build_set_request(ts->store, now->id, NULL, err); /* may have credentials in it */
        memcpy(row.template_id, now->template_id, sizeof(row.template_id));
        memcpy(row.build_id, now->id, sizeof(row.build_id));
        json_array_foreach (now->tags, i, v) {
                row.tag = json_string_value(v);
                if (r == 0 && build_gets_tag(e, row.tag))
                        r = store_tag_put(ts->store, &row, err);
        }
        return r;
}

static int build_take_tags(struct build_entry *e)
{
        size_t i;
        json_t *v;
        int r = 0;

        json_array_foreach (e->build.tags, i, v)
                if (r == 0 && build_gets_tag(e, json_string_value(v)))
                        r = template_row_take_tag(e->template, json_string_value(v), e, e->build.created_ns);
        return r;
}

int build_set_ready(struct template_rows *ts, struct build_entry *e, const struct build_result *result, struct err *err)
{
        struct refs_change change = {0};
        struct build now = {0};
        int r = build_check_open(&e->build, err);

        if (r < 0)
                return r;
        if (build_fill_ready(&e->build, result, ts->now_ns() / 1000 * 1000, &now) < 0 ||
            refs_take(ts->refs, &change, now.checkpoint, now.layers) < 0) {
                refs_cancel(ts->refs, &change);
                build_done(&now);
                return err_sys(err, -ENOMEM, "build");
        }
        r = refs_begin(ts->refs, &change, true, err);
        if (r == 0)
                r = build_write_ready(ts, e, &now, err);
        r = refs_end(ts->refs, &change, r, false, err);
        if (r < 0) {
                build_done(&now);
                return r;
        }
        build_done(&e->build);
        e->build = now;
        if (build_take_tags(e) < 0) /* the store has them: the next start has, too */
                log_warn("build.tags", "build=%s failed=\"out of memory\"", e->build.id);
        return 0;
}

int build_set_error(struct template_rows *ts, struct build_entry *e, const char *message, const char *step,
                    struct err *err)
{
        struct build now = e->build;
        int r = build_check_open(&e->build, err);

        if (r < 0)
                return r;
        now.status = BUILD_ERROR;
        now.updated_ns = now.finished_ns = ts->now_ns() / 1000 * 1000;
        now.reason = json_pack("{s:s,s:s*}", "message", message, "step", step);
        if (!now.reason) /* not UTF-8 */
                now.reason = json_pack("{s:s,s:s*}", "message", "the build failed", "step", step);
        r = now.reason ? build_write_begun(ts, &now, NULL, err) : err_sys(err, -ENOMEM, "build");
        if (r < 0) {
                json_decref(now.reason);
                return r;
        }
        e->build = now;
        return 0;
}

int build_set_layers(struct template_rows *ts, struct build_entry *e, json_t *layers, struct err *err)
{
        struct refs_change change = {0};
        struct build now = e->build;
        int r;

        if (refs_take(ts->refs, &change, "", layers) < 0 || refs_leave(ts->refs, &change, "", e->build.layers) < 0) {
                refs_cancel(ts->refs, &change);
                return err_sys(err, -ENOMEM, "build");
        }
        now.layers = layers;
        r = refs_begin(ts->refs, &change, false, err);
        if (r == 0)
                r = store_build_update(ts->store, &now, err);
        r = refs_end(ts->refs, &change, r, false, err);
        if (r < 0)
                return r;
        json_decref(e->build.layers);
        e->build.layers = json_incref(layers);
        return 0;
}

/* ---- collecting ---- */

static bool build_is_tagged(const struct build_entry *e)
{
        LIST_EACH (node, &e->template->tags)
                if (LIST_ENTRY(node, struct template_tag, node)->build == e)
                        return true;
        return false;
}

static int builds_remove(struct template_rows *ts, struct build_entry *e, struct err *err)
{
        struct refs_change change = {0};
        int r;

        if (refs_leave(ts->refs, &change, e->build.checkpoint, e->build.layers) < 0) {
                refs_cancel(ts->refs, &change);
                return err_sys(err, -ENOMEM, "build");
        }
        r = refs_begin(ts->refs, &change, true, err);
        if (r == 0)
                r = store_build_remove(ts->store, e->build.id, err);
        return refs_end(ts->refs, &change, r, false, err);
}

size_t builds_collect(struct template_rows *ts, size_t kept, void (*on_removed)(const char *id, void *arg), void *arg)
{
        size_t removed = 0;

        LIST_EACH (node, &ts->all) {
                struct template_row *t = LIST_ENTRY(node, struct template_row, node);
                size_t seen[BUILD_ERROR + 1] = {0};

                for (struct list *at = t->builds.prev, *older; at != &t->builds; at = older) { /* newest first */
                        struct build_entry *e = LIST_ENTRY(at, struct build_entry, node);
                        struct err err = {0};

                        older = at->prev;
                        if (!build_is_over(&e->build) || build_is_tagged(e) || ++seen[e->build.status] <= kept)
                                continue;
                        if (builds_remove(ts, e, &err) < 0) {
                                log_warn("build.collect", "build=%s failed=\"%s\"", e->build.id, err.msg);
                                return removed;
                        }
                        if (on_removed)
                                on_removed(e->build.id, arg);
                        build_entry_free(ts, e);
                        removed++;
                }
        }
        return removed;
}
