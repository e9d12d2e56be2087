#include "engine/storage/writable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/storage/trash.h"
#include "engine/storage/upper_copy.h"
#include "sys/fs.h"
#include "sys/mnt.h"

#define UPPER WRITABLE_UPPER
#define WORK WRITABLE_WORK
#define COPY "copy"
#define NAMES "names"
#define PROBE "probe" /* made for a moment */

static bool is_there(int dir, const char *name)
{
        return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int storage_drop(const struct writable *w, const char *name)
{
        int r = trash_move(w->trash, w->dir, name);

        return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

static int storage_discard(const struct writable *w, const char *name)
{
        int r = storage_drop(w, name);

        if (r < 0)
                log_error("file.left", "name=%s error=\"%s\"", name, strerror(-r));
        return r;
}

/* ------------------------------------------------------------- making, opening */

int writable_make(int dir)
{
        int r = sys_make_dir(dir, UPPER, 0755);

        return r < 0 ? r : sys_make_dir(dir, WORK, 0700);
}

/* A work directory cannot be used again: a volatile mount leaves a mark in it.  An upper directory where a new one is asked for
 * is of a try that failed. */
int writable_prepare(const struct writable *w, enum writable_use use, struct err *err)
{
        struct stat st;
        int r;

        if (use == WRITABLE_AHEAD)
                return 0;
        if (use == WRITABLE_KEPT && fstatat(w->dir, UPPER, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return err_sys(err, -errno, "its files");
        r = storage_drop(w, WORK);
        if (r >= 0 && use == WRITABLE_NEW)
                r = storage_drop(w, UPPER);
        if (r >= 0)
                r = use == WRITABLE_NEW ? writable_make(w->dir) : sys_make_dir(w->dir, WORK, 0700);
        return r < 0 ? err_sys(err, r, "make upper directory") : 0;
}

int writable_open(const struct writable *w, int userns, int *ret_mount, struct err *err)
{
        AUTO_CLOSE int tree = sys_clone_tree(w->dir, "");
        int r = tree < 0 ? tree : sys_mount_idmap(tree, userns);

        if (r < 0)
                return err_sys(err, r, "map owners of upper directory");
        *ret_mount = TAKE_FD(tree);
        return 0;
}

int writable_try_room(const struct writable *w)
{
        int r = sys_make_dir(w->dir, PROBE, 0700);

        if (r == 0)
                (void)unlinkat(w->dir, PROBE, AT_REMOVEDIR);
        return r;
}

struct tree_size writable_measure(const struct writable *w)
{
        return tree_size_of(w->dir, UPPER);
}

int writable_flush(const struct writable *w, struct err *err)
{
        return syncfs(w->dir) < 0 ? err_sys(err, -errno, "flush its files") : 0;
}

void writable_discard(const struct writable *w)
{
        (void)storage_discard(w, UPPER);
        (void)storage_discard(w, WORK);
}

/* ------------------------------------------------------------- becoming a layer */

bool writable_is_sealed(const struct writable *w, const char *layer)
{
        return is_there(w->sealed, layer);
}

bool writable_is_seal_undone(const struct writable *w, const char *layer)
{
        return !writable_is_sealed(w, layer) && is_there(w->dir, UPPER);
}

static int become_layer(const struct writable *w, const char *name, const char *layer)
{
        return renameat2(w->dir, name, w->sealed, layer, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

/* One directory of the storage becomes the layer: never what a link names. */
static int become_layer_below(const struct writable *w, const char *below, const char *layer)
{
        AUTO_CLOSE int upper = sys_open_dir(w->dir, UPPER), dir = upper < 0 ? upper : sys_open_dir(upper, below);

        if (dir < 0)
                return dir;
        if (renameat2(upper, below, w->sealed, layer, RENAME_NOREPLACE) < 0)
                return -errno;
        (void)storage_discard(w, UPPER);
        return 0;
}

int writable_seal(const struct writable *w, const char *below, const char *layer, struct err *err)
{
        int r = below ? become_layer_below(w, below, layer) : become_layer(w, UPPER, layer);

        if (r == 0)
                (void)storage_discard(w, WORK);
        if (r == 0 || (r == -ENOENT && writable_is_sealed(w, layer)))
                return 0;
        if (below && (r == -ENOENT || r == -ENOTDIR || r == -ELOOP))
                return err_set(err, ERR_NOT_FOUND, "it has no directory '%s' of its own", below);
        if (r == -ENOENT)
                return err_set(err, ERR_INTERNAL, "it has no files of its own");
        return err_sys(err, r, "seal layer %s", layer);
}

int writable_copy_measure(const struct writable *w, struct tree_size *ret, struct err *err)
{
        return upper_measure(w->dir, UPPER, ret, err);
}

int writable_copy(const struct writable *w, struct tree_size *ret, struct err *err)
{
        (void)writable_copy_discard(w); /* of one that failed */
        return upper_copy(w->dir, UPPER, COPY, ret, err);
}

int writable_copy_seal(const struct writable *w, const char *layer, struct err *err)
{
        int r = become_layer(w, COPY, layer);

        return r < 0 ? err_sys(err, r, "seal layer %s", layer) : 0;
}

int writable_copy_discard(const struct writable *w)
{
        return storage_discard(w, COPY);
}

/* ------------------------------------------------------------- single files */

int writable_open_files(const struct writable *w)
{
        return sys_open_dir(w->dir, UPPER);
}

int writable_make_names(const struct writable *w)
{
        return mkdirat(w->dir, NAMES, 0700) < 0 ? -errno : writable_open_names(w);
}

int writable_open_names(const struct writable *w)
{
        return sys_open_dir(w->dir, NAMES);
}

int writable_names_discard(const struct writable *w)
{
        return storage_discard(w, NAMES);
}
