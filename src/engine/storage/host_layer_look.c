#include "engine/storage/host_layer_look.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/storage/host_layer.h"
#include "sys/fs.h"

_Static_assert(HOST_DIRS == HOST_LAYER_DIRS, "each directory has a number");

#define NO_PARENT HOST_DIRS

static const uint8_t parents[HOST_DIRS] = {
        [HOST_ETC] = NO_PARENT,  [HOST_SANDGLASS] = HOST_ETC, [HOST_SSL] = HOST_ETC,
        [HOST_CERTS] = HOST_SSL, [HOST_SUDOERS] = HOST_ETC,   [HOST_USR] = NO_PARENT,
        [HOST_LOCAL] = HOST_USR, [HOST_SHARE] = HOST_LOCAL,   [HOST_AUTHORITIES] = HOST_SHARE,
};

/* ------------------------------------------------------------- one layer */

/* Opaque, or another directory of the layers below shows through (a renamed one): that is too much to follow. */
static int look_at_dir(int layer, const char *path, struct host_entry *e)
{
        AUTO_CLOSE int dir = sys_open_beneath(layer, path, O_RDONLY | O_DIRECTORY, 0);
        char value[2];

        if (dir < 0)
                return dir;
        if (fgetxattr(dir, "trusted.overlay.redirect", NULL, 0) > 0)
                e->kind = HOST_OTHER;
        e->is_opaque = fgetxattr(dir, "trusted.overlay.opaque", value, sizeof(value)) == 1 && value[0] == 'y';
        return 0;
}

/* The directory above is a directory in this very layer. */
static int look_at(int layer, const char *path, struct host_entry *e)
{
        struct stat st;

        *e = (struct host_entry){0};
        if (fstatat(layer, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0)) {
                e->kind = HOST_GONE;
                return 0;
        }
        e->kind = S_ISDIR(st.st_mode) ? HOST_DIR : S_ISREG(st.st_mode) ? HOST_FILE : HOST_OTHER;
        if (e->kind != HOST_DIR)
                return 0;
        e->mode = st.st_mode & 07777;
        e->uid = st.st_uid;
        e->gid = st.st_gid;
        return look_at_dir(layer, path, e);
}

/* Layers of many templates have the same bundle. */
static void sum_up(int layer, struct host_found *f)
{
        AUTO_CLOSE int fd = sys_open_beneath(layer, HOST_BUNDLE_PATH, O_RDONLY | O_NONBLOCK, 0);
        static uint8_t piece[65536];
        struct sha256 sum;
        size_t total = 0;
        ssize_t n = -1;

        sha256_init(&sum);
        while (fd >= 0 && (n = read(fd, piece, sizeof(piece))) > 0 && (total += (size_t)n) <= HOST_BUNDLE_MAX)
                sha256_add(&sum, piece, (size_t)n);
        sha256_end(&sum, f->digest);
        if (n != 0)
                f->bundle.kind = HOST_OTHER;
}

int host_look(int layer, struct host_found *ret)
{
        int r = 0;

        *ret = (struct host_found){0};
        for (unsigned d = 0; d < HOST_DIRS && r == 0; d++)
                if (parents[d] == NO_PARENT || ret->dirs[parents[d]].kind == HOST_DIR)
                        r = look_at(layer, host_layer_dirs[d], &ret->dirs[d]);
        if (r == 0 && ret->dirs[HOST_CERTS].kind == HOST_DIR)
                r = look_at(layer, HOST_BUNDLE_PATH, &ret->bundle);
        if (r == 0 && ret->bundle.kind == HOST_FILE)
                sum_up(layer, ret);
        return r;
}

/* ------------------------------------------------------------- all of them */

/* The lowest layer whose entries in this directory are seen. */
struct host_depth {
        size_t lowest[HOST_DIRS];
};

static const struct host_entry *entry_of(const struct host_found *f, unsigned d)
{
        return d == HOST_DIRS ? &f->bundle : &f->dirs[d];
}

/* The topmost that says something, between the layers `lowest` and count - 1. */
static size_t find_topmost(const struct host_found *const *found, size_t count, size_t lowest, unsigned d)
{
        for (size_t i = count; i-- > lowest;)
                if (entry_of(found[i], d)->kind != HOST_NONE)
                        return i;
        return count;
}

static size_t find_lowest(const struct host_found *const *found, size_t top, size_t lowest, unsigned d)
{
        size_t last = top;

        for (size_t i = top + 1; i-- > lowest;) {
                const struct host_entry *e = entry_of(found[i], d);

                if (e->kind == HOST_NONE)
                        continue;
                if (e->kind != HOST_DIR)
                        break;
                last = i;
                if (e->is_opaque)
                        break;
        }
        return last;
}

static void merge_one(struct host_entry *out, const struct host_entry *e)
{
        if (e->kind == HOST_GONE)
                return;
        *out = *e;
        out->is_opaque = 0;
}

void host_view_merge(struct host_view *v, const struct host_found *const *found, size_t count)
{
        struct host_depth depth = {0};
        size_t top;

        memset(v, 0, sizeof(*v)); /* also between the members: it is hashed as bytes */
        for (unsigned d = 0; d < HOST_DIRS; d++) {
                const bool is_top = parents[d] == NO_PARENT;
                const struct host_entry *above = is_top ? NULL : &v->dirs[parents[d]];

                if (above && above->kind == HOST_OTHER)
                        v->dirs[d].kind = HOST_OTHER;
                if (above && above->kind != HOST_DIR)
                        continue;
                top = find_topmost(found, count, is_top ? 0 : depth.lowest[parents[d]], d);
                if (top == count)
                        continue;
                merge_one(&v->dirs[d], entry_of(found[top], d));
                if (v->dirs[d].kind == HOST_FILE)
                        v->dirs[d].kind = HOST_OTHER;
                depth.lowest[d] = find_lowest(found, top, is_top ? 0 : depth.lowest[parents[d]], d);
        }
        if (v->dirs[HOST_CERTS].kind != HOST_DIR)
                return;
        top = find_topmost(found, count, depth.lowest[HOST_CERTS], HOST_DIRS);
        if (top == count)
                return;
        merge_one(&v->bundle, &found[top]->bundle);
        v->bundle_layer = top;
        memcpy(v->digest, found[top]->digest, sizeof(v->digest));
        if (v->bundle.kind == HOST_DIR)
                v->bundle.kind = HOST_OTHER;
}
