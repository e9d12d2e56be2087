#include "envd/files/file_entry.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>

#include "envd/files/file_metadata.h"
#include "envd/rpc/fault.h"
#include "envd/rpc/paths.h"

void file_entry_mode_text(mode_t mode, char out[FILE_ENTRY_MODE_MAX])
{
        static const char rwx[] = "rwxrwxrwx";
        char *at = out;

        switch (mode & S_IFMT) {
        case S_IFDIR: *at++ = 'd'; break;
        case S_IFLNK: *at++ = 'L'; break;
        case S_IFBLK:
        case S_IFCHR: *at++ = 'D'; break;
        case S_IFIFO: *at++ = 'p'; break;
        case S_IFSOCK: *at++ = 'S'; break;
        default: break;
        }
        if (mode & S_ISUID)
                *at++ = 'u';
        if (mode & S_ISGID)
                *at++ = 'g';
        if (S_ISCHR(mode))
                *at++ = 'c';
        if (mode & S_ISVTX)
                *at++ = 't';
        if (at == out)
                *at++ = '-';
        for (int i = 0; i < 9; i++)
                *at++ = mode & (0400u >> i) ? rwx[i] : '-';
        *at = 0;
}

void file_entry_time_text(struct timespec t, char out[FILE_ENTRY_TIME_MAX])
{
        struct tm tm;
        long ns = t.tv_nsec;
        int n;

        (void)gmtime_r(&t.tv_sec, &tm);
        n = snprintf(out, FILE_ENTRY_TIME_MAX, "%04d-%02d-%02dT%02d:%02d:%02d", (tm.tm_year + 1900) % 10000,
                     tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        if (ns == 0)
                (void)snprintf(out + n, FILE_ENTRY_TIME_MAX - (size_t)n, "Z");
        else if (ns % 1000000 == 0)
                (void)snprintf(out + n, FILE_ENTRY_TIME_MAX - (size_t)n, ".%03ldZ", ns / 1000000);
        else if (ns % 1000 == 0)
                (void)snprintf(out + n, FILE_ENTRY_TIME_MAX - (size_t)n, ".%06ldZ", ns / 1000);
        else
                (void)snprintf(out + n, FILE_ENTRY_TIME_MAX - (size_t)n, ".%09ldZ", ns);
}

static const char *entry_type_name(mode_t mode) /* NULL: neither, and the field is left out */
{
        return S_ISREG(mode) ? "FILE_TYPE_FILE" : S_ISDIR(mode) ? "FILE_TYPE_DIRECTORY" : NULL;
}

static int entry_put(json_t *obj, const char *name, json_t *v)
{
        return json_object_set_new(obj, name, v) < 0 ? -ENOMEM : 0;
}

static json_t *id_text(struct str name, unsigned id)
{
        char digits[16];

        if (name.n)
                return json_text(name);
        (void)snprintf(digits, sizeof(digits), "%u", id);
        return json_string(digits);
}

static int entry_add_owner(json_t *obj, const struct stat *st, const struct users *us)
{
        int r = entry_put(obj, "owner", id_text(users_name(us, st->st_uid), st->st_uid));

        return r < 0 ? r : entry_put(obj, "group", id_text(users_group_name(us, st->st_gid), st->st_gid));
}

static int entry_add_details(json_t *obj, const char *path, const struct stat *st, mode_t target_mode,
                             const struct file_entry_options *opt)
{
        char mode[FILE_ENTRY_MODE_MAX], at[FILE_ENTRY_TIME_MAX], size[24];
        json_t *metadata;

        if (st->st_size) {
                (void)snprintf(size, sizeof(size), "%lld", (long long)st->st_size);
                if (entry_put(obj, "size", json_string(size)) < 0)
                        return -ENOMEM;
        }
        file_entry_mode_text(st->st_mode, mode);
        file_entry_time_text(st->st_mtim, at);
        if ((target_mode & 0777 && entry_put(obj, "mode", json_integer(target_mode & 0777)) < 0) ||
            entry_put(obj, "permissions", json_string(mode)) < 0 || entry_add_owner(obj, st, opt->users) < 0 ||
            entry_put(obj, "modifiedTime", json_string(at)) < 0)
                return -ENOMEM;
        metadata = file_metadata_read(path);
        return metadata ? entry_put(obj, "metadata", metadata) : 0;
}

/* Where a link leads, and the mode of the file there (0: the link leads nowhere). */
static mode_t entry_follow_link(const char *path, const char *shown, char target[PATH_MAX])
{
        struct stat st;

        if (realpath(path, target) && stat(path, &st) == 0)
                return st.st_mode;
        (void)snprintf(target, PATH_MAX, "%s", shown);
        return 0;
}

static int entry_describe(json_t *obj, const char *path, const char *shown, const struct stat *st,
                          const struct file_entry_options *opt)
{
        mode_t mode = st->st_mode;
        char target[PATH_MAX];
        const char *type;

        if (S_ISLNK(st->st_mode))
                mode = entry_follow_link(path, shown, target);
        type = entry_type_name(mode);
        if (entry_put(obj, "name", json_text(path_base(shown))) < 0 ||
            (type && entry_put(obj, "type", json_string(type)) < 0) ||
            entry_put(obj, "path", json_text(str_of(shown))) < 0)
                return -ENOMEM;
        if (opt->is_legacy)
                return 0;
        if (S_ISLNK(st->st_mode) && entry_put(obj, "symlinkTarget", json_text(str_of(target))) < 0)
                return -ENOMEM;
        return entry_add_details(obj, path, st, mode, opt);
}

int file_entry_read(const char *path, const char *shown, const struct file_entry_options *opt, json_t **ret,
                    bool *ret_is_dir)
{
        struct stat st;
        json_t *obj;
        int r;

        if (lstat(path, &st) < 0)
                return -errno;
        obj = json_object();
        if (!obj)
                return -ENOMEM;
        r = entry_describe(obj, path, shown ? shown : path, &st, opt);
        if (r < 0) {
                json_decref(obj);
                return r;
        }
        if (ret_is_dir)
                *ret_is_dir = S_ISDIR(st.st_mode);
        *ret = obj;
        return 0;
}
