#include "engine/guest/trash_retry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/guest/engine.h"
#include "engine/guest/guest.h"
#include "engine/storage/trash.h"
#include "engine/storage/trash_remover.h"
#include "sys/fs.h"

#define AGAIN_MS 1000

struct left_file {
        struct list node;
        enum disk_place place;
        bool is_wanted; /* trash_retry_forget() came while it was being moved */
        char name[72];
};

/* ------------------------------------------------------------- once more */

static struct left_file *first_left(struct engine *e)
{
        return list_is_empty(&e->trash_retry.left) ? NULL
                                                   : LIST_ENTRY(e->trash_retry.left.next, struct left_file, node);
}

static void forget_first(struct engine *e)
{
        struct left_file *l = first_left(e);

        list_remove(&l->node);
        free(l);
}

/* Something new has begun under this name: what lies there is in use. */
static bool is_used_again(const struct engine *e, const struct left_file *l)
{
        return l->place == DISK_SANDBOXES && guest_find(e, l->name);
}

static void move_first(struct engine *e);

static void on_moved(void *arg, const struct err *err)
{
        struct engine *e = arg;

        e->trash_retry.request = NULL;
        trash_remover_call(&e->trash_remover);
        if (err->kind == ERR_NO_SPACE && !first_left(e)->is_wanted) {
                timer_set(e->loop, &e->trash_retry.again, AGAIN_MS);
                return;
        }
        forget_first(e);
        move_first(e);
}

static void move_first(struct engine *e)
{
        struct left_file *l;

        while ((l = first_left(e)) && is_used_again(e, l))
                forget_first(e);
        if (!l)
                return;
        e->trash_retry.request = disk_throw(&e->disk, l->place, l->name, on_moved, e);
        if (!e->trash_retry.request)
                timer_set(e->loop, &e->trash_retry.again, AGAIN_MS);
}

static void on_again(struct timer *t)
{
        move_first(CONTAINER_OF(t, struct engine, trash_retry.again));
}

static struct left_file *find_left(const struct engine *e, enum disk_place place, const char *name)
{
        LIST_EACH (node, &e->trash_retry.left) {
                struct left_file *l = LIST_ENTRY(node, struct left_file, node);

                if (l->place == place && strcmp(l->name, name) == 0)
                        return l;
        }
        return NULL;
}

void trash_retry_forget(struct engine *e, enum disk_place place, const char *name)
{
        struct left_file *l = find_left(e, place, name);

        if (!l)
                return;
        if (l == first_left(e) && e->trash_retry.request) {
                l->is_wanted = true;
                return;
        }
        list_remove(&l->node);
        free(l);
}

static void retry_later(struct engine *e, enum disk_place place, const char *name)
{
        struct left_file *l = find_left(e, place, name);

        trash_remover_call(&e->trash_remover);
        if (l) {
                l->is_wanted = false;
                return;
        }
        log_warn("file.left", "name=%s, the disk is full, trying again", name);
        l = calloc(1, sizeof(*l));
        if (!l || strlen(name) >= sizeof(l->name)) {
                free(l);
                return;
        }
        l->place = place;
        memcpy(l->name, name, strlen(name) + 1);
        list_push_back(&e->trash_retry.left, &l->node);
        if (!e->trash_retry.request && !timer_is_armed(&e->trash_retry.again))
                timer_set(e->loop, &e->trash_retry.again, AGAIN_MS);
}

/* What was to be removed from lost/ stays there: the caller is told, and asks again if that is still wanted. */
static void on_disk_full(struct disk *d, enum disk_place place, const char *name)
{
        if (place != DISK_LOST)
                retry_later(CONTAINER_OF(d, struct engine, disk), place, name);
}

void trash_retry_start(struct engine *e)
{
        e->trash_retry = (struct trash_retry){.again.on = on_again};
        list_init(&e->trash_retry.left);
        e->disk.on_full = on_disk_full;
}

void trash_retry_stop(struct engine *e)
{
        struct trash_retry *t = &e->trash_retry;
        struct list *node;

        timer_clear(&t->again);
        disk_forget(TAKE_PTR(t->request));
        while (t->left.next && (node = list_pop_front(&t->left)))
                free(LIST_ENTRY(node, struct left_file, node));
}

/* ------------------------------------------------------------- at once */

static bool find_place(const struct engine *e, int dir, enum disk_place *ret)
{
        *ret = dir == e->sandboxes_dir ? DISK_SANDBOXES : dir == e->checkpoints_dir ? DISK_CHECKPOINTS : DISK_SEALED;
        return dir == e->sandboxes_dir || dir == e->checkpoints_dir || dir == e->sealed_dir;
}

int trash_throw(struct engine *e, int dir, const char *name)
{
        int r = trash_move(e->trash_dir, dir, name);
        enum disk_place place;

        if (r == -ENOENT)
                return 0;
        if (r == 0)
                trash_remover_call(&e->trash_remover);
        else if (sys_is_full(r) && find_place(e, dir, &place))
                retry_later(e, place, name);
        else
                log_error("file.left", "name=%s error=\"%s\"", name, strerror(-r));
        return r;
}
