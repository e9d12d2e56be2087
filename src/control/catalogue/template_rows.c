#include "control/catalogue/template_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/catalogue/refs.h"
#include "model/ids.h"
#include "store/store.h"
#include "store/templates.h"

/* ---- in memory ---- */

static void template_tag_free(struct template_tag *tag)
{
        list_remove(&tag->node);
        free(tag->tag);
        free(tag);
}

void build_entry_free(struct template_rows *ts, struct build_entry *e)
{
        list_remove(&e->node);
        (void)map_remove(&ts->by_build, str_of(e->build.id));
        build_done(&e->build);
        free(e);
        ts->build_count--;
}

static void template_row_free(struct template_rows *ts, struct template_row *t)
{
        LIST_EACH (node, &t->tags)
                template_tag_free(LIST_ENTRY(node, struct template_tag, node));
        LIST_EACH (node, &t->builds)
                build_entry_free(ts, LIST_ENTRY(node, struct build_entry, node));
        list_remove(&t->node);
        (void)map_remove(&ts->by_id, str_of(t->id));
        free(t->alias);
        free(t);
        ts->count--;
}

static int template_row_take(struct template_rows *ts, const struct store_template *from, struct template_row **ret)
{
        struct template_row *t = calloc(1, sizeof(*t));

        if (!t)
                return -ENOMEM;
        memcpy(t->id, from->id, sizeof(t->id));
        t->team = from->team;
        t->is_public = from->is_public;
        t->is_bare = from->is_bare;
        t->created_ns = from->created_ns;
        t->updated_ns = from->updated_ns;
        t->spawn_count = from->spawn_count;
        t->last_spawned_ns = from->last_spawned_ns;
        t->build_count = from->build_count;
        t->alias = from->alias ? strdup(from->alias) : NULL;
        list_init(&t->builds);
        list_init(&t->tags);
        if ((from->alias && !t->alias) || map_put(&ts->by_id, str_of(t->id), t, NULL) < 0) {
                free(t->alias);
                free(t);
                return -ENOMEM;
        }
        list_push_back(&ts->all, &t->node);
        ts->count++;
        *ret = t;
        return 0;
}

int template_row_take_build(struct template_rows *ts, struct template_row *t, struct build *b, struct build_entry **ret)
{
        struct build_entry *e = calloc(1, sizeof(*e));

        if (!e || map_put(&ts->by_build, str_of(b->id), e, NULL) < 0) {
                free(e);
                return -ENOMEM;
        }
        e->template = t;
        e->build = *b;
        *b = (struct build){0};
        list_push_back(&t->builds, &e->node);
        ts->build_count++;
        *ret = e;
        return 0;
}

struct template_tag *template_tag_find(const struct template_row *t, const char *tag)
{
        LIST_EACH (node, &t->tags) {
                struct template_tag *one = LIST_ENTRY(node, struct template_tag, node);

                if (strcmp(one->tag, tag) == 0)
                        return one;
        }
        return NULL;
}

int template_row_take_tag(struct template_row *t, const char *tag, struct build_entry *build, int64_t created_ns)
{
        struct template_tag *one = template_tag_find(t, tag);

        if (!one) {
                one = calloc(1, sizeof(*one));
                if (!one || !(one->tag = strdup(tag))) {
                        free(one);
                        return -ENOMEM;
                }
                list_push_back(&t->tags, &one->node);
        }
        one->build = build;
        one->created_ns = created_ns;
        return 0;
}

/* ---- from the store ---- */

static int template_rows_load_template(const struct store_template *row, void *arg)
{
        struct template_row *t;

        return template_row_take(arg, row, &t);
}

static int template_rows_load_build(struct build *row, void *arg)
{
        struct template_rows *ts = arg;
        struct template_row *t = template_rows_by_id(ts, row->template_id);
        struct build_entry *e;
        int r;

        if (!t)
                return -EBADMSG; /* the store does not allow it */
        r = refs_load_row(ts->refs, row->checkpoint, row->layers);
        return r < 0 ? r : template_row_take_build(ts, t, row, &e);
}

static int template_rows_load_tag(const struct store_tag *row, void *arg)
{
        struct template_rows *ts = arg;
        struct build_entry *e = map_get(&ts->by_build, str_of(row->build_id));

        if (!e || strcmp(e->template->id, row->template_id) != 0)
                return -EBADMSG;
        return template_row_take_tag(e->template, row->tag, e, row->created_ns);
}

int template_rows_init(struct template_rows *ts, struct store *store, struct refs *refs, int64_t (*now_ns)(void),
                       struct err *err)
{
        int r;

        *ts = (struct template_rows){.store = store, .refs = refs, .now_ns = now_ns};
        list_init(&ts->all);
        r = store_template_each(store, template_rows_load_template, ts, err);
        if (r == 0)
                r = store_build_each(store, template_rows_load_build, ts, err);
        return r < 0 ? r : store_tag_each(store, template_rows_load_tag, ts, err);
}

void template_rows_done(struct template_rows *ts)
{
        while (ts->all.next && ts->all.next != &ts->all)
                template_row_free(ts, LIST_ENTRY(ts->all.next, struct template_row, node));
        map_done(&ts->by_id);
        map_done(&ts->by_build);
}

/* ---- finding ---- */

struct template_row *template_rows_by_id(const struct template_rows *ts, const char *id)
{
        return map_get(&ts->by_id, str_of(id));
}

struct template_row *template_rows_by_alias(const struct template_rows *ts, int64_t team, const char *alias)
{
        LIST_EACH (node, &ts->all) {
                struct template_row *t = LIST_ENTRY(node, struct template_row, node);

                if (t->team == team && t->alias && strcmp(t->alias, alias) == 0)
                        return t;
        }
        return NULL;
}

struct template_row *template_rows_by_bare_alias(const struct template_rows *ts, const char *alias)
{
        LIST_EACH (node, &ts->all) {
                struct template_row *t = LIST_ENTRY(node, struct template_row, node);

                if (t->is_public && t->is_bare && t->alias && strcmp(t->alias, alias) == 0)
                        return t;
        }
        return NULL;
}

const char *template_rows_meaning(const struct template_rows *ts, const char *name)
{
        return json_string_value(json_object_get(ts->other_names, name));
}

/* ---- changes ---- */

static struct store_template template_row_stored(const struct template_row *t)
{
        struct store_template s = {
                .team = t->team,
                .alias = t->alias,
                .is_public = t->is_public,
                .is_bare = t->is_bare,
                .created_ns = t->created_ns,
                .updated_ns = t->updated_ns,
                .spawn_count = t->spawn_count,
                .last_spawned_ns = t->last_spawned_ns,
                .build_count = t->build_count,
        };

        memcpy(s.id, t->id, sizeof(s.id));
        return s;
}

int template_row_write(struct template_rows *ts, const struct template_row *t, struct err *err)
{
        const struct store_template s = template_row_stored(t);

        return store_template_update(ts->store, &s, err);
}

int template_rows_add(struct template_rows *ts, int64_t team, const char *alias, struct template_row **ret,
                      struct err *err)
{
        struct store_template s = {.team = team, .alias = alias, .created_ns = ts->now_ns() / 1000 * 1000};
        int r;

        if (ts->count >= TEMPLATE_ROWS_MAX)
                return err_set(err, ERR_LIMIT, "there are %d templates, and no more are kept", TEMPLATE_ROWS_MAX);
        s.updated_ns = s.created_ns;
        random_id(s.id, TEMPLATE_ID_MAX - 1);
        r = template_row_take(ts, &s, ret);
        if (r < 0)
                return err_sys(err, r, "template");
        r = store_template_add(ts->store, &s, err);
        if (r < 0)
                template_row_free(ts, *ret);
        return r;
}

static int template_rows_remove_rows(struct template_rows *ts, struct template_row *t, struct err *err)
{
        struct refs_change change = {0};
        int r = 0;

        LIST_EACH (node, &t->builds) {
                const struct build *b = &LIST_ENTRY(node, struct build_entry, node)->build;

                if (r == 0)
                        r = refs_leave(ts->refs, &change, b->checkpoint, b->layers);
        }
        if (r < 0) {
                refs_cancel(ts->refs, &change);
                return err_sys(err, r, "template");
        }
        r = refs_begin(ts->refs, &change, true, err);
        if (r == 0)
                r = store_tags_remove(ts->store, t->id, err);
        LIST_EACH (node, &t->builds)
                if (r == 0)
                        r = store_build_remove(ts->store, LIST_ENTRY(node, struct build_entry, node)->build.id, err);
        if (r == 0)
                r = store_template_remove(ts->store, t->id, err);
        return refs_end(ts->refs, &change, r, false, err);
}

int template_rows_remove(struct template_rows *ts, struct template_row *t, struct err *err)
{
        int r = template_rows_remove_rows(ts, t, err);

        if (r == 0)
                template_row_free(ts, t);
        return r;
}

int template_row_publish(struct template_rows *ts, struct template_row *t, bool is_public, bool is_bare,
                         struct err *err)
{
        struct store_template s = template_row_stored(t);
        int r;

        s.is_public = is_public;
        s.is_bare = is_public && is_bare;
        s.updated_ns = ts->now_ns() / 1000 * 1000;
        r = store_template_update(ts->store, &s, err);
        if (r < 0)
                return r;
        t->is_public = s.is_public;
        t->is_bare = s.is_bare;
        t->updated_ns = s.updated_ns;
        return 0;
}

void template_row_spawned(struct template_rows *ts, struct template_row *t)
{
        struct err err = {0};

        t->spawn_count++;
        t->last_spawned_ns = ts->now_ns() / 1000 * 1000;
        if (template_row_write(ts, t, &err) < 0) /* the next one writes both */
                log_debug("template.spawned", "template=%s failed=\"%s\"", t->id, err.msg);
}

/* ---- tags ---- */

int template_tag_put(struct template_rows *ts, struct build_entry *build, const char *tag, int64_t created_ns,
                     struct err *err)
{
        struct template_row *t = build->template;
        struct template_tag *old = template_tag_find(t, tag);
        struct store_tag row = {.tag = tag, .created_ns = created_ns};
        size_t count = 0;
        int r;

        LIST_EACH (node, &t->tags)
                count++;
        if (!old && count >= TEMPLATE_TAGS_MAX)
                return err_set(err, ERR_LIMIT, "the template has %d tags, and no more are kept", TEMPLATE_TAGS_MAX);
        memcpy(row.template_id, t->id, sizeof(row.template_id));
        memcpy(row.build_id, build->build.id, sizeof(row.build_id));
        r = store_tag_put(ts->store, &row, err);
        if (r < 0)
                return r;
        r = template_row_take_tag(t, tag, build, created_ns);
        if (r < 0)
                (void)store_tag_remove(ts->store, t->id, tag, NULL);
        return r < 0 ? err_sys(err, r, "tag") : 0;
}

int template_tag_remove(struct template_rows *ts, struct template_row *t, const char *tag, struct err *err)
{
        struct template_tag *one = template_tag_find(t, tag);
        int r;

        if (!one)
                return 0;
        r = store_tag_remove(ts->store, t->id, tag, err);
        if (r == 0)
                template_tag_free(one);
        return r;
}
