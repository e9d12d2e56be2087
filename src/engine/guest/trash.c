#include "engine/guest/trash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/guest/engine.h"
#include "engine/guest/guest.h"
#include "engine/storage/trash_remover.h"
#include "sys/fs.h"

#define AGAIN_MS 1000

struct left {
        struct list node;
        enum disk_place place;
        char name[72];
};

void trash_init(struct trash *t)
{
        *t = (struct trash){0};
        list_init(&t->left);
}

void trash_done(struct trash *t)
{
        struct list *node;

        timer_clear(&t->again);
        disk_forget(TAKE_PTR(t->request));
        while (t->left.next && (node = list_pop_front(&t->left)))
                free(LIST_ENTRY(node, struct left, node));
}

int trash_move(int trash, int dir, const char *name)
{
        char to[96];

        (void)snprintf(to, sizeof(to), "%.64s-", name);
        random_id(to + strlen(to), 6);
        return renameat(dir, name, trash, to) < 0 ? -errno : 0;
}

/* ------------------------------------------------------------- once more */

static struct left *first_left(struct engine *e)
{
        return list_is_empty(&e->trash.left) ? NULL : LIST_ENTRY(e->trash.left.next, struct left, node);
}

static void forget_first(struct engine *e)
{
        struct left *l = first_left(e);

        list_remove(&l->node);
        free(l);
}

/* Somebody has begun anew under this name: what lies there is in use. */
static bool is_used_again(const struct engine *e, const struct left *l)
{
        return l->place == DISK_SANDBOXES && guest_find(e, l->name);
}

static void move_first(struct engine *e);

static void on_moved(void *arg, const struct err *err)
{
        struct engine *e = arg;

        e->trash.request = NULL;
        trash_remover_call(&e->trash_remover);
        if (err->kind == ERR_NO_SPACE) {
                timer_set(e->loop, &e->trash.again, AGAIN_MS);
                return;
        }
        forget_first(e);
        move_first(e);
}

static void move_first(struct engine *e)
{
        struct left *l;

        while ((l = first_left(e)) && is_used_again(e, l))
                forget_first(e);
        if (!l)
                return;
        e->trash.request = disk_throw(&e->disk, l->place, l->name, on_moved, e);
        if (!e->trash.request)
                timer_set(e->loop, &e->trash.again, AGAIN_MS);
}

static void on_again(struct timer *t)
{
        move_first(CONTAINER_OF(t, struct engine, trash.again));
}

static bool is_left(const struct engine *e, enum disk_place place, const char *name)
{
        LIST_EACH (node, &e->trash.left) {
                const struct left *l = LIST_ENTRY(node, struct left, node);

                if (l->place == place && strcmp(l->name, name) == 0)
                        return true;
        }
        return false;
}

void trash_left(struct engine *e, enum disk_place place, const char *name)
{
        struct left *l;

        log_warn("file.left", "name=%s, the disk is full, trying again", name);
        trash_remover_call(&e->trash_remover);
        if (is_left(e, place, name))
                return;
        l = calloc(1, sizeof(*l));
        if (!l || strlen(name) >= sizeof(l->name)) {
                free(l);
                return;
        }
        l->place = place;
        memcpy(l->name, name, strlen(name) + 1);
        list_push_back(&e->trash.left, &l->node);
        e->trash.again.on = on_again;
        if (!e->trash.request && !timer_is_armed(&e->trash.again))
                timer_set(e->loop, &e->trash.again, AGAIN_MS);
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
                trash_left(e, place, name);
        else
                log_error("file.left", "name=%s error=\"%s\"", name, strerror(-r));
        return r;
}
