#include "envd/rpc/paths.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

char *path_clean(struct str path)
{
        bool is_absolute = path.n && path.p[0] == '/';
        char *out = malloc(path.n + 3), *floor, *at;
        struct str part;

        if (!out)
                return NULL;
        at = out;
        if (is_absolute)
                *at++ = '/';
        floor = at; /* ".." does not remove anything before this */
        while (path.n) {
                (void)str_cut(&path, '/', &part);
                if (part.n == 0 || str_is(part, "."))
                        continue;
                if (str_is(part, "..") && at > floor) {
                        while (at > floor && at[-1] != '/')
                                at--;
                        if (at > floor)
                                at--;
                        continue;
                }
                if (str_is(part, "..") && is_absolute)
                        continue;
                if (at > out && at[-1] != '/')
                        *at++ = '/';
                memcpy(at, part.p, part.n);
                at += part.n;
                if (str_is(part, ".."))
                        floor = at;
        }
        if (at == out)
                *at++ = '.';
        *at = 0;
        return out;
}

char *path_join(const char *dir, const char *rest)
{
        AUTO_BUF struct buf b = BUF_INIT(SIZE_MAX / 4);

        if (buf_addc(&b, dir) < 0 || buf_addc(&b, "/") < 0 || buf_addc(&b, rest) < 0)
                return NULL;
        return path_clean((struct str){(const char *)buf_at(&b), b.len});
}

struct str path_base(const char *path)
{
        struct str s = str_of(path);
        size_t from;

        if (s.n == 0)
                return STR(".");
        while (s.n > 1 && s.p[s.n - 1] == '/')
                s.n--;
        if (s.n == 1 && s.p[0] == '/')
                return s;
        for (from = s.n; from > 0 && s.p[from - 1] != '/';)
                from--;
        return (struct str){s.p + from, s.n - from};
}

/* The kernel refuses longer paths and names. */
static int path_check_length(const char *path, struct fault *f)
{
        struct str rest = str_of(path), part;

        if (rest.n >= PATH_MAX)
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "path too long: %zu bytes, at most %d", rest.n,
                                 PATH_MAX - 1);
        while (rest.n) {
                (void)str_cut(&rest, '/', &part);
                if (part.n > NAME_MAX)
                        return fault_set(f, CONNECT_INVALID_ARGUMENT,
                                         "path too long: a name in it has %zu bytes, at most %d", part.n, NAME_MAX);
        }
        return 0;
}

int path_expand(const char *path, const struct user *u, const char *workdir, char **ret, struct fault *f)
{
        char *out;

        if (!path || !path[0])
                out = str_dup(str_of(workdir && workdir[0] ? workdir : u->home));
        else if (path[0] == '/')
                out = str_dup(str_of(path));
        else if (path[0] != '~')
                out = path_join(u->home, path);
        else if (path[1] == 0)
                out = str_dup(str_of(u->home));
        else if (path[1] == '/')
                out = path_join(u->home, path + 2);
        else
                return fault_set(f, CONNECT_INVALID_ARGUMENT,
                                 "failed to expand path '' for user '%s': cannot expand user-specific home dir",
                                 u->name);
        if (!out)
                return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
        if (path_check_length(out, f) < 0) {
                free(out);
                return -1;
        }
        *ret = out;
        return 0;
}

/* Make one directory, unless it exists. */
static int ensure_dir(const char *path, const struct user *u, bool keep_owner, struct fault *f)
{
        struct stat st;

        if (stat(path, &st) == 0)
                return S_ISDIR(st.st_mode) ? 0 : fault_set(f, CONNECT_INTERNAL, "path is a file: %s", path);
        if (errno != ENOENT)
                return fault_sys(f, CONNECT_INTERNAL, errno, "stat %s", path);
        if (mkdir(path, 0755) < 0)
                return errno == EEXIST ? 0 : fault_sys(f, CONNECT_INTERNAL, errno, "mkdir %s", path);
        if (!keep_owner && lchown(path, u->uid, u->gid) < 0)
                return fault_sys(f, CONNECT_INTERNAL, errno, "chown %s", path);
        return 0;
}

static int ensure_dirs(char *path, const struct user *u, bool keep_owner, struct fault *f)
{
        struct stat st;
        char *at = path;

        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) /* the usual case */
                return 0;
        while (*at == '/')
                at++;
        while (*at) {
                char *slash = strchrnul(at, '/'), was = *slash;

                *slash = 0;
                if (ensure_dir(path, u, keep_owner, f) < 0)
                        return -1;
                *slash = was;
                for (at = slash; *at == '/';)
                        at++;
        }
        return 0;
}

int dirs_ensure(const char *path, const struct user *u, bool keep_owner, struct fault *f)
{
        AUTO_FREE char *copy = str_dup(str_of(path));

        if (!copy)
                return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
        return ensure_dirs(copy, u, keep_owner, f);
}

int dirs_ensure_parent(const char *path, const struct user *u, bool keep_owner, struct fault *f)
{
        AUTO_FREE char *copy = str_dup(str_of(path));
        char *slash;

        if (!copy)
                return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
        for (slash = copy + strlen(copy); slash > copy + 1 && slash[-1] == '/';)
                *--slash = 0; /* "/a/b/" has the parent "/a" */
        slash = strrchr(copy, '/');
        if (!slash || slash == copy)
                return 0;
        *slash = 0;
        return ensure_dirs(copy, u, keep_owner, f);
}
