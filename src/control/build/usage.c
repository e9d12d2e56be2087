#include "control/build/usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "control/build/builds_run.h"
#include "control/catalogue/images.h"
#include "control/catalogue/layer_cache.h"
#include "control/catalogue/snapshots.h"
#include "control/catalogue/template_rows.h"
#include "control/life/lives.h"
#include "model/conf.h"
#include "sys/fs.h"

struct usage {
        const json_t *sizes[3]; /* borrowed: of layers, checkpoints, sandboxes: name -> bytes */
        json_t *holders;        /* owned: what is reported */
        json_t *names;          /* owned: for each holder an object name -> true */
        json_t *counts;         /* owned: name -> by how many it is held */
};

static json_int_t size_of(const struct usage *u, const char *name)
{
        const json_t *n = NULL;

        for (size_t i = 0; i < ARRAY_LEN(u->sizes) && !n; i++)
                n = json_object_get(u->sizes[i], name);
        return json_integer_value(n);
}

static void hold(struct usage *u, json_t *names, const char *name)
{
        if (!name || !name[0] || json_object_get(names, name))
                return;
        (void)json_object_set_new(names, name, json_true());
        (void)json_object_set_new(u->counts, name,
                                  json_integer(json_integer_value(json_object_get(u->counts, name)) + 1));
}

static void hold_image(struct usage *u, json_t *names, const char *checkpoint, const json_t *layers)
{
        size_t i;
        json_t *v;

        hold(u, names, checkpoint);
        json_array_foreach ((json_t *)(uintptr_t)layers, i, v)
                hold(u, names, json_string_value(v));
}

/* The set of its names, to be filled; borrowed. */
static json_t *add_holder(struct usage *u, const char *kind, const char *id, const char *name)
{
        json_t *names = json_object();

        if (json_array_append_new(u->holders, json_pack("{s:s,s:s,s:s*}", "kind", kind, "id", id, "name", name)) < 0 ||
            json_array_append_new(u->names, names) < 0)
                return NULL;
        return names;
}

static void add_templates(struct usage *u, const struct template_rows *ts)
{
        LIST_EACH (node, &ts->all) {
                const struct template_row *t = LIST_ENTRY(node, struct template_row, node);
                json_t *names = add_holder(u, "template", t->id, t->alias);

                for (const struct list *at = t->builds.next; names && at != &t->builds; at = at->next) {
                        const struct build *b =
                                &LIST_ENTRY((struct list *)(uintptr_t)at, struct build_entry, node)->build;

                        hold_image(u, names, b->checkpoint, b->layers);
                }
        }
}

static void add_snapshots(struct usage *u, const struct snapshots *ss)
{
        LIST_EACH (node, &ss->all) {
                const struct snapshot *sn = &LIST_ENTRY(node, struct snapshot_entry, node)->snapshot;
                json_t *names = add_holder(u, "snapshot", sn->id, sn->name);

                if (names)
                        hold_image(u, names, sn->checkpoint, sn->layers);
        }
}

static void add_images(struct usage *u, const struct images *is)
{
        LIST_EACH (node, &is->all) {
                const struct image_row *row = LIST_ENTRY(node, struct image_row, node);
                json_t *names = add_holder(u, "image", row->digest, row->name);

                if (names)
                        hold_image(u, names, "", row->layers);
        }
}

static void add_sandboxes(struct usage *u, const struct lives *ls)
{
        LIST_EACH (node, &ls->all) {
                const struct sandbox *s = &LIST_ENTRY(node, struct life, node)->sandbox;
                json_t *names = add_holder(u, s->purpose == SANDBOX_FOR_BUILD ? "build" : "sandbox", s->id, s->alias);

                if (!names)
                        continue;
                hold(u, names, s->id); /* its own directory */
                hold_image(u, names, s->checkpoint, s->layers);
        }
}

struct cache_walk {
        struct usage *usage;
        json_t *names;
};

static int add_cached(int64_t team, const char *key, const char *layer, int64_t used_ns, void *arg)
{
        struct cache_walk *w = arg;

        (void)team, (void)key, (void)used_ns;
        hold(w->usage, w->names, layer);
        return 0;
}

static void set_sums(const struct usage *u, json_t *to, const json_t *names)
{
        json_int_t bytes = 0, alone = 0;
        const char *name;
        json_t *v;

        json_object_foreach ((json_t *)(uintptr_t)names, name, v) {
                bytes += size_of(u, name);
                if (json_integer_value(json_object_get(u->counts, name)) == 1)
                        alone += size_of(u, name);
        }
        (void)json_object_set_new(to, "bytes", json_integer(bytes));
        (void)json_object_set_new(to, "alone", json_integer(alone));
}

/* ---- files of control's own ---- */

static json_int_t bytes_below(int dir, const char *name, unsigned depth)
{
        AUTO_CLOSE int fd = sys_open_dir(dir, name);
        AUTO_DIR DIR *d = fd < 0 ? NULL : sys_list(fd);
        const struct dirent *e;
        json_int_t sum = 0;
        struct stat st;

        while (d && (e = sys_list_next(d)))
                if (e->d_type == DT_DIR && depth > 0)
                        sum += bytes_below(fd, e->d_name, depth - 1);
                else if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                        sum += (json_int_t)st.st_blocks * 512;
        return sum;
}

static json_int_t bases_of(const json_t *sizes)
{
        json_int_t sum = 0;
        const char *name;
        json_t *v;

        json_object_foreach ((json_t *)(uintptr_t)sizes, name, v)
                sum += json_integer_value(v);
        return sum;
}

json_t *usage_report(const struct builds_run_options *o, const json_t *answer)
{
        AUTO_CLOSE int data = open(o->conf->data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct usage u = {.sizes = {json_object_get(answer, "layers"), json_object_get(answer, "checkpoints"),
                                    json_object_get(answer, "sandboxes")},
                          .holders = json_array(),
                          .names = json_array(),
                          .counts = json_object()};
        json_t *cached = json_object(), *cache = json_pack("{s:I}", "steps", (json_int_t)o->cache->count), *report;
        struct err err;
        json_t *v;
        size_t i;

        add_templates(&u, o->rows);
        add_snapshots(&u, o->snapshots);
        add_images(&u, o->images);
        add_sandboxes(&u, o->lives);
        (void)layer_cache_each(o->cache, add_cached, &(struct cache_walk){.usage = &u, .names = cached}, &err);
        json_array_foreach (u.holders, i, v)
                set_sums(&u, v, json_array_get(u.names, i));
        set_sums(&u, cache, cached);
        report = json_pack("{s:O,s:O,s:I,s:O,s:O,s:I,s:o,s:o}", "free", json_object_get(answer, "free"), "total",
                           json_object_get(answer, "total"), "bases", bases_of(json_object_get(answer, "bases")),
                           "lost", json_object_get(answer, "lost"), "trash", json_object_get(answer, "trash"),
                           "uploads", data < 0 ? (json_int_t)0 : bytes_below(data, "uploads", 2), "cache", cache,
                           "holders", u.holders);
        json_decref(cached);
        json_decref(u.names);
        json_decref(u.counts);
        return report;
}
