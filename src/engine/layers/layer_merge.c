#include "engine/layers/layer_merge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "engine/layers/layer_merge_impl.h"
#include "engine/layers/layer_merge_lookup.h"
#include "engine/layers/disk_stack.h"
#include "sys/fs.h"
#include "sys/handle.h"

#define REDIRECT_FITS 512u /* into any directory's extended attributes */
#define LIST_BYTES (64u << 10)
#define PIECE_BYTES_MAX ((PLAN_LAYERS_MAX + 1) * (SYS_HANDLE_MAX + 8u) + 8u)
_Static_assert(PIECE_BYTES_MAX <= DISK_STACK_PIECE_MAX, "a directory is one piece");

struct merge_dir {           /* one directory of the result, made and still empty */
        int out;             /* owned */
        bool is_closed;      /* nothing below the group is looked at: needs no whiteouts */
        struct dir_stack of; /* what it is made from */
};

struct merge {
        int roots[PLAN_LAYERS_MAX]; /* owned */
        size_t n;
        struct disk_stack todo; /* directories to be filled, by file handle: there may be millions */
        struct layer_lookup lookup;
        struct merged_entries entries;
        uint8_t piece[PIECE_BYTES_MAX]; /* one of them as bytes */
        char list[LIST_BYTES] __attribute__((aligned(8)));
        struct layer_merge_count count;
};

/* ------------------------------------------------------------- directories to be filled, as bytes */

static int put_handle(struct merge *m, size_t *at, int fd, uint8_t layer)
{
        struct sys_handle h;
        int r = sys_handle_of(fd, &h);

        if (r < 0)
                return r;
        m->piece[(*at)++] = layer;
        m->piece[(*at)++] = (uint8_t)h.bytes;
        memcpy(m->piece + *at, &h.type, sizeof(h.type));
        *at += sizeof(h.type);
        memcpy(m->piece + *at, h.data, h.bytes);
        *at += h.bytes;
        return 0;
}

static int get_handle(struct merge *m, size_t *at, int *ret_fd, uint8_t *ret_layer)
{
        struct sys_handle h;
        int fd;

        *ret_layer = m->piece[(*at)++];
        h.bytes = m->piece[(*at)++];
        memcpy(&h.type, m->piece + *at, sizeof(h.type));
        *at += sizeof(h.type);
        memcpy(h.data, m->piece + *at, h.bytes);
        *at += h.bytes;
        fd = sys_handle_open(m->roots[0], &h, O_RDONLY | O_DIRECTORY | O_NOATIME);
        if (fd < 0)
                return fd;
        *ret_fd = fd;
        return 0;
}

static int push_dir(struct merge *m, int out, bool is_closed, const struct dir_stack *of)
{
        uint16_t len;
        size_t at = 0;
        int r;

        m->piece[at++] = is_closed;
        m->piece[at++] = (uint8_t)of->n;
        r = put_handle(m, &at, out, 0);
        for (size_t i = 0; i < of->n && r == 0; i++)
                r = put_handle(m, &at, of->dirs[i].fd, of->dirs[i].layer);
        if (r < 0)
                return r;
        len = (uint16_t)at;
        r = disk_stack_push(&m->todo, m->piece, at);
        return r < 0 ? r : disk_stack_push(&m->todo, &len, sizeof(len));
}

static void merge_dir_close(struct merge_dir *t)
{
        close_fd(&t->out);
        dir_stack_close(&t->of);
}

static int pop_dir(struct merge *m, struct merge_dir *ret)
{
        struct merge_dir t = {.out = -1};
        uint16_t len;
        uint8_t layer;
        size_t at = 2;
        int r = disk_stack_pop(&m->todo, &len, sizeof(len));

        if (r == 0)
                r = disk_stack_pop(&m->todo, m->piece, len);
        if (r == 0)
                r = get_handle(m, &at, &t.out, &layer);
        for (size_t i = 0; r == 0 && i < m->piece[1]; i++) {
                r = get_handle(m, &at, &t.of.dirs[i].fd, &t.of.dirs[i].layer);
                if (r == 0)
                        t.of.n++;
        }
        t.is_closed = m->piece[0];
        if (r < 0) {
                merge_dir_close(&t);
                return r;
        }
        *ret = t;
        return 0;
}

/* ------------------------------------------------------------- entries */

/* Mark in which directory below overlayfs goes on.  *ret_closed: in none. */
static int mark_directory(struct merge *m, const struct merge_dir *parent, const char *name, int out,
                          enum lookup_end end, bool *ret_closed)
{
        const char *to = lookup_path(&m->lookup);
        size_t len = strlen(to);
        int r = 0;

        *ret_closed = end == LOOKUP_STOPS || (end == LOOKUP_NAME && parent->is_closed);
        if (end == LOOKUP_STOPS && !parent->is_closed)
                r = fsetxattr(out, OVERLAY_OPAQUE, "y", 1, 0);
        else if (end == LOOKUP_PATH || (end == LOOKUP_NAME && !parent->is_closed && strcmp(to, name) != 0))
                r = fsetxattr(out, OVERLAY_REDIRECT, to, len, 0);
        if (r < 0 && errno == ENOSPC && len > REDIRECT_FITS) /* no space in the inode, not on the disk */
                return -ENAMETOOLONG;
        return r < 0 ? -errno : 0;
}

static int add_directory(struct merge *m, const struct merge_dir *t, size_t first, const char *name)
{
        AUTO_CLOSE int out = -1;
        struct dir_stack of;
        enum lookup_end end;
        bool is_closed;
        int r = lookup_directory(&m->lookup, &t->of, first, name, &of, &end);

        if (r < 0)
                return r;
        if (mkdirat(t->out, name, 0700) < 0 ||
            (out = openat(t->out, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
                r = -errno;
        if (r == 0)
                r = mark_directory(m, t, name, out, end, &is_closed);
        if (r == 0)
                r = push_dir(m, out, is_closed, &of);
        dir_stack_close(&of);
        m->count.directories++;
        return r;
}

static bool is_covered(const struct merge_dir *t, size_t i, const char *name)
{
        struct stat st;

        while (i-- > 0)
                if (fstatat(t->of.dirs[i].fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                        return true;
        return false;
}

static int add_entry(struct merge *m, const struct merge_dir *t, size_t i, const char *name)
{
        int src = t->of.dirs[i].fd, r;
        struct stat st;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || is_covered(t, i, name))
                return 0;
        if (fstatat(src, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return add_directory(m, t, i, name);
        r = is_whiteout(src, name, &st);
        if (r == 0)
                return entries_link(&m->entries, src, t->out, name, &st);
        if (r > 0)
                r = t->is_closed ? 0 : entries_whiteout(&m->entries, t->out, name);
        return r;
}

static int add_entries_of(struct merge *m, const struct merge_dir *t, size_t i)
{
        ssize_t n;
        int r;

        while ((n = getdents64(t->of.dirs[i].fd, m->list, sizeof(m->list))) > 0)
                for (ssize_t at = 0; at < n;) {
                        const struct dirent64 *e = (const void *)(m->list + at);

                        r = add_entry(m, t, i, e->d_name);
                        at += e->d_reclen;
                        if (r < 0)
                                return r;
                }
        return n < 0 ? -errno : 0;
}

/* Overlayfs hides whiteouts only in directories that were copied up, and it may find nothing below this one.  So the directory is
 * marked as copied up; from where may stay empty. */
static int admit_whiteouts(int out)
{
        return fsetxattr(out, OVERLAY_ORIGIN, "", 0, 0) < 0 ? -errno : 0;
}

/* Attributes come last: new entries would inherit a default ACL, and change the times. */
static int fill_directory(struct merge *m, const struct merge_dir *t)
{
        uint64_t whiteouts = m->count.whiteouts;
        struct stat st;
        int r = 0;

        for (size_t i = 0; i < t->of.n && r == 0; i++)
                r = add_entries_of(m, t, i);
        if (r == 0 && m->count.whiteouts != whiteouts)
                r = admit_whiteouts(t->out);
        if (r == 0 && fstat(t->of.dirs[0].fd, &st) < 0)
                r = -errno;
        return r < 0 ? r : entry_copy_attrs(t->of.dirs[0].fd, t->out, &st, false);
}

/* ------------------------------------------------------------- the whole */

static int open_layers(struct merge *m, int dir, const char *const *layers, size_t n, dev_t dev, struct err *err)
{
        for (m->n = 0; m->n < n; m->n++) {
                int fd = sys_open_beneath(dir, layers[m->n], O_RDONLY | O_DIRECTORY | O_NOATIME, 0);
                struct stat st;

                if (fd < 0)
                        return err_sys(err, fd, "layer '%s'", layers[m->n]);
                m->roots[m->n] = fd;
                if (fstat(fd, &st) < 0 || st.st_dev != dev) {
                        m->n++;
                        return err_set(err, ERR_INVALID, "layer '%s': on another file system", layers[m->n - 1]);
                }
        }
        return 0;
}

static int push_root(struct merge *m, int out)
{
        struct dir_stack of = {.n = 0};

        while (of.n < m->n) {
                size_t layer = m->n - 1 - of.n;

                of.dirs[of.n++] = (struct stack_dir){.fd = m->roots[layer], .layer = (uint8_t)layer};
        }
        return push_dir(m, out, false, &of); /* the fds stay with m */
}

static int merge_all(struct merge *m, int out, struct err *err)
{
        int r = push_root(m, out);

        while (r == 0 && disk_stack_len(&m->todo) > 0) {
                struct merge_dir t;

                r = pop_dir(m, &t);
                if (r < 0)
                        break;
                r = fill_directory(m, &t);
                merge_dir_close(&t);
        }
        if (r == -ENAMETOOLONG || r == -E2BIG)
                return err_set(err, ERR_LIMIT, "merge layers: a renamed directory's way below is too long to be noted");
        if (r == -EBADMSG)
                return err_set(err, ERR_INVALID, "merge layers: a directory's redirect is damaged");
        return r < 0 ? err_sys(err, r, "merge layers") : 0;
}

static void merge_free(struct merge *m)
{
        while (m->n > 0)
                close_fd(&m->roots[--m->n]);
        disk_stack_done(&m->todo);
        lookup_done(&m->lookup);
        entries_done(&m->entries);
        free(m);
}

int layer_merge(int dir, const char *const *layers, size_t n, const char *out, struct layer_merge_count *ret,
                struct err *err)
{
        AUTO_CLOSE int fd = sys_open_beneath(dir, out, O_RDONLY | O_DIRECTORY, 0);
        struct merge *m;
        struct stat st;
        int r;

        if (n < 1 || n > PLAN_LAYERS_MAX)
                return err_set(err, ERR_INVALID, "layers: not 1 to %d", PLAN_LAYERS_MAX);
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_sys(err, fd < 0 ? fd : -errno, "open new layer");
        m = calloc(1, sizeof(*m));
        if (!m)
                return err_sys(err, -ENOMEM, "merge layers");
        entries_init(&m->entries, &m->count);
        r = disk_stack_init(&m->todo, dir);
        if (r == 0)
                r = lookup_init(&m->lookup, m->roots);
        r = r < 0 ? err_sys(err, r, "merge layers") : open_layers(m, dir, layers, n, st.st_dev, err);
        if (r == 0)
                r = merge_all(m, fd, err);
        if (r == 0)
                *ret = m->count;
        merge_free(m);
        return r;
}
