#include "engine/saved_items.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/guest/guest.h"
#include "engine/guest/pause.h"
#include "engine/jobs/job_process.h"
#include "sys/fs.h"

static void each_name(int dir, void (*fn)(const char *name, void *arg), void *arg)
{
        AUTO_DIR DIR *d = sys_list(dir);
        struct dirent *e;

        while (d && (e = sys_list_next(d)))
                fn(e->d_name, arg);
}

struct name_list {
        int checkpoints_dir;
        json_t *names;
};

/* ------------------------------------------------------------- in a job process: their names */

static void add_checkpoint(const char *name, void *arg)
{
        struct name_list *l = arg;

        if (checkpoint_id_is_valid(str_of(name)) && checkpoint_is_complete(l->checkpoints_dir, name))
                (void)json_array_append_new(l->names, json_string(name));
}

static void add_layer(const char *name, void *arg)
{
        struct name_list *l = arg;

        if (sealed_id_is_valid(str_of(name)))
                (void)json_array_append_new(l->names, json_string(name));
}

int job_names(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        struct name_list checkpoints = {c->checkpoints_dir, json_array()}, layers = {c->checkpoints_dir, json_array()};

        (void)job;
        each_name(c->checkpoints_dir, add_checkpoint, &checkpoints);
        each_name(c->sealed_dir, add_layer, &layers);
        ret->report = json_pack("{s:o,s:o}", "checkpoints", checkpoints.names, "layers", layers.names);
        return ret->report ? 0 : err_sys(err, -ENOMEM, "list checkpoints and layers");
}

/* ------------------------------------------------------------- tidying */

static bool is_being_written(const struct engine *e, const char *checkpoint)
{
        MAP_EACH (slot, &e->sandboxes) {
                const struct guest *s = slot->value;

                if (s->state == GUEST_BUSY && strcmp(s->paused.checkpoint, checkpoint) == 0)
                        return true;
        }
        return false;
}

/* Without a manifest nobody was ever told of it. */
static void tidy_checkpoint(const char *name, void *arg)
{
        struct engine *e = arg;

        if (!checkpoint_id_is_valid(str_of(name))) {
                log_warn("checkpoint.foreign", "name=%.64s is none of ours, leaving it", name);
                return;
        }
        if (checkpoint_is_complete(e->checkpoints_dir, name) || is_being_written(e, name))
                return;
        log_info("checkpoint.discarded", "name=%.64s", name);
        (void)trash_throw(e, e->checkpoints_dir, name);
}

static void tidy_layer(const char *name, void *arg)
{
        struct engine *e = arg;

        if (strncmp(name, LAYER_MERGER_UNFINISHED, strlen(LAYER_MERGER_UNFINISHED)) == 0)
                (void)trash_throw(e, e->sealed_dir, name);
        else if (!sealed_id_is_valid(str_of(name)))
                log_warn("layer.foreign", "name=%.64s is none of ours, leaving it", name);
}

/* ------------------------------------------------------------- copies of envd */

static bool is_needed(const json_t *needed, const char *hash)
{
        return json_object_get(needed, hash) != NULL;
}

struct needs {
        const struct engine *engine;
        json_t *names;
        int dir;         /* of checkpoints */
        bool is_unknown; /* one of them could not be read: what it needs is not known */
};

static void note_need(const char *name, void *arg)
{
        struct needs *l = arg;
        AUTO_CLOSE int dir = -1;
        struct checkpoint *c = NULL;
        struct err err = {0};

        if (!checkpoint_id_is_valid(str_of(name)))
                return;
        dir = sys_open_dir(l->dir, name);
        if (dir < 0 || checkpoint_open(dir, &c, &err) < 0) {
                l->is_unknown = true;
                return;
        }
        (void)json_object_set_new(l->names, checkpoint_facts(c)->envd, json_true());
        c = checkpoint_free(c);
}

static void tidy_envd(const char *name, void *arg)
{
        struct needs *l = arg;

        if (!is_needed(l->names, name))
                (void)unlinkat(l->engine->envd_dir, name, 0);
}

/* A job process that outlived an engine may be about to refer to one. */
static void tidy_envds(struct engine *e)
{
        struct needs l = {.engine = e, .names = json_object(), .dir = -1};

        MAP_EACH (slot, &e->sandboxes) {
                const struct guest *s = slot->value;

                if (s->state == GUEST_BUSY) {
                        json_decref(l.names);
                        return;
                }
        }
        l.dir = e->checkpoints_dir;
        each_name(e->checkpoints_dir, note_need, &l);
        l.dir = e->lost_dir; /* those may be wanted again */
        each_name(e->lost_dir, note_need, &l);
        if (!l.is_unknown)
                each_name(e->envd_dir, tidy_envd, &l);
        json_decref(l.names);
}

void saved_items_tidy(struct engine *e)
{
        each_name(e->checkpoints_dir, tidy_checkpoint, e);
        each_name(e->sealed_dir, tidy_layer, e);
        tidy_envds(e);
}
