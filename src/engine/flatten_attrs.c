#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/flatten_impl.h"

static bool starts(const char *s, const char *prefix)
{
        return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* A security module's label is its own business: it may refuse, and then it has set what it wants. */
static bool may_refuse(const char *name, int r)
{
        return starts(name, "security.") && strcmp(name, "security.capability") != 0 &&
               (r == -EPERM || r == -EACCES || r == -EOPNOTSUPP);
}

static int copy_one(int from, int to, const char *name, char *value)
{
        ssize_t n = fgetxattr(from, name, value, XATTR_SIZE_MAX);
        int r;

        if (n < 0)
                return errno == ENODATA ? 0 : -errno;
        r = fsetxattr(to, name, value, (size_t)n, 0) < 0 ? -errno : 0;
        return may_refuse(name, r) ? 0 : r;
}

static int copy_xattrs(int from, int to)
{
        AUTO_FREE char *names = NULL, *value = NULL;
        ssize_t n = flistxattr(from, NULL, 0);
        int r = 0;

        if (n <= 0)
                return n == 0 || errno == EOPNOTSUPP ? 0 : -errno;
        names = malloc(XATTR_LIST_MAX + 1);
        value = malloc(XATTR_SIZE_MAX);
        if (!names || !value)
                return -ENOMEM;
        n = flistxattr(from, names, XATTR_LIST_MAX);
        if (n < 0)
                return -errno;
        names[n] = '\0';
        for (const char *name = names; name < names + n && r == 0; name += strlen(name) + 1)
                if (!starts(name, OVERLAY_PREFIX) || starts(name, OVERLAY_ESCAPED))
                        r = copy_one(from, to, name, value);
        return r;
}

int attrs_copy(int from, int to, const struct stat *st)
{
        struct timespec times[2] = {st->st_atim, st->st_mtim};
        int r;

        if (fchown(to, st->st_uid, st->st_gid) < 0)
                return -errno;
        r = copy_xattrs(from, to);
        if (r == 0 && fchmod(to, st->st_mode & 07777) < 0)
                r = -errno;
        if (r == 0 && futimens(to, times) < 0)
                r = -errno;
        return r;
}
