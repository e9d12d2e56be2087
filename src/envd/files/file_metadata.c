#include "envd/files/file_metadata.h"

#include <errno.h>
#include <stdio.h>
#include <sys/xattr.h>

#define PREFIX "user.e2b."
#define PREFIX_LEN (sizeof(PREFIX) - 1)
#define HEADER_PREFIX "x-metadata-"
#define NAMES_MAX (64u << 10) /* XATTR_LIST_MAX */
#define ATTR_NAME_MAX 256

static int metadata_put(json_t **obj, const char *key, struct str value)
{
        if (!*obj)
                *obj = json_object();
        return json_object_set_new(*obj, key, json_stringn(value.p, value.n));
}

static void metadata_read_one(const char *path, const char *name, json_t **ret)
{
        char value[FILE_METADATA_TOTAL_MAX];
        ssize_t n = getxattr(path, name, value, sizeof(value));

        if (n >= 0 && str_is_utf8((struct str){value, (size_t)n}) && str_is_utf8(str_of(name)))
                (void)metadata_put(ret, name + PREFIX_LEN, (struct str){value, (size_t)n});
}

json_t *file_metadata_read(const char *path)
{
        char few[1024], *names = few;
        AUTO_FREE char *many = NULL;
        json_t *ret = NULL;
        ssize_t n = listxattr(path, few, sizeof(few));

        if (n < 0 && errno == ERANGE) {
                names = many = malloc(NAMES_MAX);
                n = many ? listxattr(path, many, NAMES_MAX) : -1;
        }
        for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1)
                if (strncmp(names + at, PREFIX, PREFIX_LEN) == 0 && names[(size_t)at + PREFIX_LEN])
                        metadata_read_one(path, names + at, &ret);
        return ret;
}

static bool is_printable(struct str s)
{
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] < 0x20 || s.p[i] > 0x7e)
                        return false;
        return true;
}

static int metadata_take_header(struct str key, struct str value, json_t **ret, size_t *total, struct fault *f)
{
        char name[FILE_METADATA_KEY_MAX + 1];

        if (key.n < 1 || key.n > FILE_METADATA_KEY_MAX)
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "invalid metadata: a key has 1 to %d bytes",
                                 FILE_METADATA_KEY_MAX);
        for (size_t i = 0; i < key.n; i++)
                name[i] = key.p[i] >= 'A' && key.p[i] <= 'Z' ? (char)(key.p[i] + 32) : key.p[i];
        name[key.n] = 0;
        if (!is_printable(key) || !is_printable(value))
                return fault_set(f, CONNECT_INVALID_ARGUMENT,
                                 "invalid metadata: key and value must be printable ASCII");
        if (*ret && json_object_get(*ret, name))
                return 0; /* the first one wins */
        *total += PREFIX_LEN + key.n + value.n;
        if (*total > FILE_METADATA_TOTAL_MAX)
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "invalid metadata: more than %d bytes in total",
                                 FILE_METADATA_TOTAL_MAX);
        return metadata_put(ret, name, value) < 0 ? fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "out of memory") : 0;
}

int file_metadata_from_headers(const struct http1_head *head, json_t **ret, struct fault *f)
{
        const size_t prefix = sizeof(HEADER_PREFIX) - 1;
        size_t total = 0;

        *ret = NULL;
        for (size_t i = 0; i < head->header_count; i++) {
                struct str name = head->headers[i].name;

                if (name.n < prefix || !str_iis((struct str){name.p, prefix}, HEADER_PREFIX))
                        continue;
                if (metadata_take_header((struct str){name.p + prefix, name.n - prefix}, head->headers[i].value, ret,
                                         &total, f) < 0) {
                        json_decref(*ret);
                        *ret = NULL;
                        return -1;
                }
        }
        return 0;
}

/* Remove the metadata that is not in `want`. */
static int metadata_drop_others(int fd, const json_t *want)
{
        AUTO_FREE char *names = NULL;
        ssize_t n = flistxattr(fd, NULL, 0);

        if (n <= 0)
                return n < 0 && errno != ENOTSUP ? -errno : 0;
        names = malloc(NAMES_MAX);
        if (!names)
                return -ENOMEM;
        n = flistxattr(fd, names, NAMES_MAX);
        for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
                const char *name = names + at;

                if (strncmp(name, PREFIX, PREFIX_LEN) == 0 && !json_object_get(want, name + PREFIX_LEN) &&
                    fremovexattr(fd, name) < 0 && errno != ENODATA)
                        return -errno;
        }
        return 0;
}

int file_metadata_replace(int fd, const json_t *want)
{
        char name[ATTR_NAME_MAX];
        const char *key;
        json_t *v;
        int r = metadata_drop_others(fd, want);

        if (r < 0)
                return r;
        json_object_foreach ((json_t *)want, key, v) {
                (void)snprintf(name, sizeof(name), PREFIX "%s", key); /* fits: FILE_METADATA_KEY_MAX */
                if (fsetxattr(fd, name, json_string_value(v), json_string_length(v), 0) < 0)
                        return errno == ENOTSUP ? 0 : -errno;
        }
        return 0;
}
