#include "engine/trash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/guest.h"
#include "engine/janitor.h"
#include "sys/fs.h"

#define AGAIN_MS 1000

struct left {
        struct list node;
        int dir; /* the engine's */
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
        while (t->left.next && (node = list_pop_front(&t->left)))
                free(LIST_ENTRY(node, struct left, node));
}

static int move(const struct engine *e, int dir, const char *name)
{
        char to[96];

        (void)snprintf(to, sizeof(to), "%.64s-", name);
        random_id(to + strlen(to), 6);
        return renameat(dir, name, e->trash_dir, to) < 0 ? -errno : 0;
}

/* Somebody has begun anew under this name: what lies there is in use. */
static bool is_used_again(const struct engine *e, const struct left *l)
{
        return l->dir == e->sandboxes_dir && guest_find(e, l->name);
}

static void forget(struct engine *e, int dir, const char *name)
{
        LIST_EACH (node, &e->trash.left) {
                struct left *l = LIST_ENTRY(node, struct left, node);

                if (l->dir == dir && strcmp(l->name, name) == 0) {
                        list_remove(&l->node);
                        free(l);
                }
        }
}

static void on_again(struct timer *t)
{
        struct engine *e = CONTAINER_OF(t, struct engine, trash.again);
        int r = 0;

        LIST_EACH (node, &e->trash.left) {
                struct left *l = LIST_ENTRY(node, struct left, node);

                if (!is_used_again(e, l))
                        r = move(e, l->dir, l->name);
                if (sys_is_full(r))
                        break;
                list_remove(&l->node);
                free(l);
        }
        sweeper_call(&e->sweeper);
        if (!list_is_empty(&e->trash.left))
                timer_set(e->loop, &e->trash.again, AGAIN_MS);
}

static void try_later(struct engine *e, int dir, const char *name)
{
        struct left *l = calloc(1, sizeof(*l));

        if (!l || strlen(name) >= sizeof(l->name)) {
                free(l);
                return;
        }
        l->dir = dir;
        memcpy(l->name, name, strlen(name) + 1);
        list_push_back(&e->trash.left, &l->node);
        e->trash.again.on = on_again;
        if (!timer_is_armed(&e->trash.again))
                timer_set(e->loop, &e->trash.again, AGAIN_MS);
}

int trash_throw(struct engine *e, int dir, const char *name)
{
        bool is_lasting = dir == e->sandboxes_dir || dir == e->checkpoints_dir || dir == e->sealed_dir;
        int r = move(e, dir, name);

        forget(e, dir, name);
        if (r == -ENOENT)
                return 0;
        if (r == 0)
                sweeper_call(&e->sweeper);
        else if (sys_is_full(r) && is_lasting) {
                log_warn("file.left", "name=%s error=\"%s\", trying again", name, strerror(-r));
                sweeper_call(&e->sweeper);
                try_later(e, dir, name);
        } else
                log_error("file.left", "name=%s error=\"%s\"", name, strerror(-r));
        return r;
}
