#include "engine/storage/writable_ahead.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/auto.h"
#include "base/log.h"
#include "engine/storage/writable.h"
#include "sys/fs.h"

#define AHEAD_MAX 16u
#define AHEAD_ROOM_BYTES (64u << 20) /* and inodes: on a disk with less, others need them more */
#define AHEAD_ROOM_INODES 4096u
#define AHEAD_NAME_MAX 32

static void name_ahead(unsigned number, char out[AHEAD_NAME_MAX])
{
        (void)snprintf(out, AHEAD_NAME_MAX, "%u", number);
}

static bool has_room_ahead(const struct writable_ahead *a)
{
        struct statvfs st;

        return fstatvfs(a->dir, &st) == 0 && (uint64_t)st.f_bavail * st.f_frsize >= AHEAD_ROOM_BYTES &&
               (st.f_files == 0 || st.f_favail >= AHEAD_ROOM_INODES); /* 0: they are not counted */
}

static void remove_ahead(const struct writable_ahead *a)
{
        AUTO_DIR DIR *d = sys_list(a->dir);
        struct dirent *e;

        while (d && (e = sys_list_next(d)))
                if (sys_remove_tree(a->dir, e->d_name) < 0)
                        log_warn("file.left", "name=ahead/%.32s", e->d_name);
}

void writable_ahead_init(struct writable_ahead *a, int dir)
{
        *a = (struct writable_ahead){.dir = dir};
        remove_ahead(a);
}

bool writable_ahead_wants_more(const struct writable_ahead *a)
{
        return a->count < AHEAD_MAX && !a->is_refused;
}

static int make_one_ahead(const struct writable_ahead *a, const char *name)
{
        AUTO_CLOSE int dir = -1;

        if (!has_room_ahead(a))
                return -ENOSPC;
        if (mkdirat(a->dir, name, 0700) < 0)
                return -errno;
        dir = sys_open_dir(a->dir, name);
        return dir < 0 ? dir : writable_make(dir);
}

void writable_ahead_make(struct writable_ahead *a)
{
        char name[AHEAD_NAME_MAX];

        name_ahead(a->last + 1, name);
        a->is_refused = make_one_ahead(a, name) < 0;
        if (a->is_refused) {
                (void)sys_remove_tree(a->dir, name);
                return;
        }
        a->last++;
        a->count++;
}

/* The newest is surely in memory. */
bool writable_ahead_take(struct writable_ahead *a, int sandboxes, const char *id)
{
        char name[AHEAD_NAME_MAX];

        if (a->count == 0)
                return false;
        name_ahead(a->last, name);
        if (renameat2(a->dir, name, sandboxes, id, RENAME_NOREPLACE) < 0)
                return false;
        a->last--;
        a->count--;
        return true;
}

void writable_ahead_give_up(struct writable_ahead *a)
{
        if (a->count > 0)
                remove_ahead(a);
        a->count = a->last = 0;
}
