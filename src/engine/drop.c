#include "engine/drop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/storage/trash_remover.h"
#include "engine/guest/guest_job.h"
#include "engine/guest/standby.h"

struct drop {
        struct engine *engine;
        struct ask *ask;
        json_t *left;     /* owned */
        unsigned pending; /* and one while requests are made */
};

struct dropping { /* one name */
        struct drop *drop;
        char name[SEALED_ID_MAX];
};

static void release(struct drop *d)
{
        if (--d->pending > 0)
                return;
        trash_remover_call(&d->engine->trash_remover);
        ask_ok(d->ask, json_pack("{s:o}", "left", d->left), -1);
        free(d);
}

static void on_dropped(void *arg, const struct err *err)
{
        struct dropping *one = arg;
        struct drop *d = one->drop;

        if (err->kind != ERR_NONE)
                (void)json_array_append_new(d->left, json_string(one->name));
        free(one);
        release(d);
}

static void drop_one(struct drop *d, enum disk_place place, const char *name)
{
        bool is_being_made = layer_merger_is_making(&d->engine->layer_merger, name) ||
                             guest_job_is_making(d->engine, name) || standbys_let_go_of(d->engine, name);
        struct dropping *one = is_being_made ? NULL : calloc(1, sizeof(*one));

        if (one) {
                *one = (struct dropping){.drop = d};
                memcpy(one->name, name, strlen(name) + 1);
                d->pending++;
                if (disk_throw(&d->engine->disk, place, name, on_dropped, one))
                        return;
                d->pending--;
        }
        free(one);
        (void)json_array_append_new(d->left, json_string(name));
}

static int check_names(const json_t *list, bool (*is_valid)(struct str))
{
        const json_t *v;
        size_t i;

        if (list && !json_is_array(list))
                return -EINVAL;
        json_array_foreach (list, i, v)
                if (!json_is_string(v) || !is_valid((struct str){json_string_value(v), json_string_length(v)}))
                        return -EINVAL;
        return 0;
}

static void drop_ended(struct engine *e, const char *id)
{
        struct guest *s = guest_find(e, id);

        if (s && s->state == GUEST_ENDED)
                guest_end(s);
}

int drop_op(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *checkpoints = json_object_get(msg, "checkpoints"), *layers = json_object_get(msg, "layers");
        const json_t *sandboxes = json_object_get(msg, "sandboxes"), *v;
        struct drop *d;
        size_t i;

        if (check_names(checkpoints, checkpoint_id_is_valid) < 0 || check_names(layers, sealed_id_is_valid) < 0 ||
            check_names(sandboxes, sandbox_id_is_valid) < 0)
                return err_set(err, ERR_INVALID, "checkpoints, layers, sandboxes: not lists of ids");
        d = calloc(1, sizeof(*d));
        if (!d)
                return err_sys(err, -ENOMEM, "drop");
        *d = (struct drop){.engine = e, .ask = a, .left = json_array(), .pending = 1};
        json_array_foreach (checkpoints, i, v)
                drop_one(d, DISK_CHECKPOINTS, json_string_value(v));
        json_array_foreach (layers, i, v)
                drop_one(d, DISK_SEALED, json_string_value(v));
        json_array_foreach (sandboxes, i, v)
                drop_ended(e, json_string_value(v));
        release(d);
        return 0;
}
