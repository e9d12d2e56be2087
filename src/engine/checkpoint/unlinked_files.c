#include "engine/checkpoint/unlinked_files.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "engine/criu/criu_rpc.h"
#include "engine/storage/writable.h"
#include "sys/fs.h"

#define FILES "files.img"
#define HEAD_BYTES 8u /* two magic numbers */
#define ENTRY_BYTES_MAX (64u << 10)
#define PATHS "paths" /* NUL-terminated, in the order of the links 0, 1, ... */
#define PATHS_BYTES_MAX (1u << 20)
#define NAME "link_remap."

/* "tmp/link_remap.7" in its two parts; false: it is no such name.  The path is CRIU's word for what it did itself, but it has
 * looked at a hostile sandbox. */
static bool split(const char *path, char dir[PATH_MAX], const char **ret_name)
{
        const char *slash, *name;

        while (*path == '/')
                path++;
        slash = strrchr(path, '/');
        name = slash ? slash + 1 : path;
        if (strncmp(name, NAME, strlen(NAME)) != 0 || strlen(path) >= PATH_MAX)
                return false;
        (void)snprintf(dir, PATH_MAX, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
        *ret_name = name;
        return true;
}

static int open_among_files(const struct writable *w, const char *path)
{
        AUTO_CLOSE int fd = writable_open_files(w);

        return fd < 0 ? fd : sys_open_dir(fd, path);
}

/* ------------------------------------------------------------- keeping */

struct keeping {
        const struct writable *writable;
        int names; /* the directory that they are kept in; -1: not made yet */
        unsigned count;
        struct buf paths;
};

/* One that is not in the upper directory is in a file system of its own, which is in the image. */
static int keep_one(struct keeping *k, const char *path)
{
        char dir[PATH_MAX], link[16];
        const char *name;
        AUTO_CLOSE int from = -1;

        if (!split(path, dir, &name))
                return 0;
        from = open_among_files(k->writable, dir);
        if (from < 0)
                return from == -ENOENT ? 0 : from;
        if (k->names < 0)
                k->names = writable_make_names(k->writable);
        if (k->names < 0)
                return k->names;
        (void)snprintf(link, sizeof(link), "%u", k->count);
        if (linkat(from, name, k->names, link, 0) < 0)
                return errno == ENOENT ? 0 : -errno;
        k->count++;
        return buf_add(&k->paths, path, strlen(path) + 1);
}

static int look_at(struct keeping *k, const void *entry, size_t n)
{
        char path[PATH_MAX];
        struct str name;
        int r = criu_rpc_file_name((struct str){entry, n}, &name);

        if (r <= 0 || name.n >= sizeof(path) || memchr(name.p, '\0', name.n))
                return r < 0 ? r : 0;
        memcpy(path, name.p, name.n);
        path[name.n] = '\0';
        return keep_one(k, path);
}

static int look_at_all(struct keeping *k, FILE *f)
{
        AUTO_FREE uint8_t *entry = malloc(ENTRY_BYTES_MAX);
        uint32_t size;
        int r = entry ? 0 : -ENOMEM;

        if (r == 0 && fread(entry, HEAD_BYTES, 1, f) != 1)
                return -EBADMSG;
        while (r == 0 && fread(&size, sizeof(size), 1, f) == 1) {
                size = le32toh(size);
                if (size > ENTRY_BYTES_MAX || (size > 0 && fread(entry, size, 1, f) != 1))
                        return -EBADMSG;
                r = look_at(k, entry, size);
        }
        return r;
}

int unlinked_files_keep(int images, const struct writable *w, struct err *err)
{
        struct keeping k = {.writable = w, .names = -1, .paths = BUF_INIT(PATHS_BYTES_MAX)};
        int fd = sys_open_beneath(images, FILES, O_RDONLY, 0);
        FILE *f = fd < 0 ? NULL : fdopen(fd, "re");
        int r = fd < 0 ? fd : !f ? -ENOMEM : look_at_all(&k, f);

        if (f)
                (void)fclose(f);
        else
                close_fd(&fd);
        if (r == 0 && k.count > 0)
                r = sys_replace_at(k.names, PATHS, buf_at(&k.paths), k.paths.len, 0600);
        close_fd(&k.names);
        buf_done(&k.paths);
        return r < 0 ? err_sys(err, r, "keep files that lost their names") : 0;
}

/* ------------------------------------------------------------- putting back */

static int put_back(const struct writable *w, int names, unsigned i, const char *path)
{
        char below[PATH_MAX], link[16];
        const char *name;
        AUTO_CLOSE int to = -1;

        if (!split(path, below, &name))
                return -EBADMSG;
        to = open_among_files(w, below);
        if (to < 0)
                return to;
        (void)snprintf(link, sizeof(link), "%u", i);
        return linkat(names, link, to, name, 0) < 0 && errno != EEXIST ? -errno : 0;
}

int unlinked_files_put_back(const struct writable *w, struct err *err)
{
        AUTO_CLOSE int names = writable_open_names(w);
        AUTO_FREE char *paths = NULL;
        ssize_t n;
        int r = 0;

        if (names < 0)
                return names == -ENOENT ? 0 : err_sys(err, names, "open names of its files");
        paths = malloc(PATHS_BYTES_MAX + 1);
        n = paths ? sys_read_at(names, PATHS, paths, PATHS_BYTES_MAX + 1) : -ENOMEM;
        if (n < 0)
                return n == -ENOENT ? 0 : err_sys(err, (int)n, "read names of its files");
        for (unsigned i = 0, at = 0; r == 0 && at < (size_t)n; i++) {
                r = put_back(w, names, i, paths + at);
                at += (unsigned)strlen(paths + at) + 1;
        }
        return r < 0 ? err_sys(err, r, "put back files that lost their names") : 0;
}
