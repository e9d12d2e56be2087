#include "wire/tar/tar_pax.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XATTR_PREFIX "SCHILY.xattr."
#define XATTR_VALUE_MAX 65536u

void tar_pax_reset(struct tar_pax *p)
{
        struct tar_pax empty = {.text = p->text};

        free(p->xattrs);
        *p = empty;
        buf_reset(&p->text);
        p->text.max = TAR_HEADER_MAX;
}

void tar_pax_done(struct tar_pax *p)
{
        tar_pax_reset(p);
        buf_done(&p->text);
}

/* ---- values ---- */

/* "1700000000.25", "-3.5": seconds, rounded down, and the rest in nanoseconds. */
static int parse_time(struct str v, int64_t *ret_s, uint32_t *ret_ns)
{
        bool is_negative = v.n && v.p[0] == '-';
        struct str whole;
        uint64_t s;
        uint32_t ns = 0, scale = 100000000;

        if (is_negative)
                v = (struct str){v.p + 1, v.n - 1};
        (void)str_cut(&v, '.', &whole);
        if (parse_u64(whole, 0, INT64_MAX / 2, &s) < 0)
                return -EINVAL;
        for (size_t i = 0; i < v.n; i++, scale /= 10) {
                if (v.p[i] < '0' || v.p[i] > '9')
                        return -EINVAL;
                ns += (uint32_t)(v.p[i] - '0') * scale;
        }
        *ret_s = is_negative ? -(int64_t)s - (ns ? 1 : 0) : (int64_t)s;
        *ret_ns = is_negative && ns ? 1000000000u - ns : ns;
        return 0;
}

static const char *add_xattr(struct tar_pax *p, struct str name, struct str value)
{
        struct tar_xattr *more;

        if (name.n == 0 || name.n > TAR_PART_MAX || str_has_nul(name) || value.n > XATTR_VALUE_MAX)
                return "an extended attribute is not valid";
        if (p->xattr_count == TAR_XATTRS_MAX)
                return "there are too many extended attributes";
        more = realloc(p->xattrs, (p->xattr_count + 1) * sizeof(*more));
        if (!more)
                return "out of memory";
        p->xattrs = more;
        p->xattrs[p->xattr_count++] = (struct tar_xattr){name, value};
        return NULL;
}

/* ---- records ---- */

static const char *take_name(struct str *to, struct str value, bool is_global)
{
        if (is_global)
                return "a global header has a name";
        if (value.n == 0)
                return "a name is empty";
        *to = value;
        return NULL;
}

static const char *take_size(uint64_t *to, bool *has, struct str value, bool is_global)
{
        if (is_global)
                return "a global header has a size";
        *has = true;
        return parse_u64(value, 0, INT64_MAX, to) < 0 ? "a size is not valid" : NULL;
}

static const char *take_id(uint32_t *to, bool *has, struct str value)
{
        *has = true;
        return parse_u32(value, 0, UINT32_MAX - 1, to) < 0 ? "an owner is not valid" : NULL;
}

static const char *take_sparse(struct tar_pax *p, struct str key, struct str value, bool is_global)
{
        if (str_is(key, "GNU.sparse.major")) {
                p->has_sparse_major = true;
                return parse_u32(value, 0, 9, &p->sparse_major) < 0 ? "a version is not valid" : NULL;
        }
        if (str_is(key, "GNU.sparse.minor"))
                return parse_u32(value, 0, 9, &p->sparse_minor) < 0 ? "a version is not valid" : NULL;
        if (str_is(key, "GNU.sparse.name"))
                return take_name(&p->sparse_name, value, is_global);
        if (str_is(key, "GNU.sparse.realsize"))
                return take_size(&p->real_size, &p->has_real_size, value, is_global);
        return "sparse files of pax 0.0 and 0.1 are not supported";
}

static const char *take_record(struct tar_pax *p, struct str key, struct str value, bool is_global)
{
        if (str_is(key, "path"))
                return take_name(&p->path, value, is_global);
        if (str_is(key, "linkpath"))
                return take_name(&p->link, value, is_global);
        if (str_is(key, "size"))
                return take_size(&p->size, &p->has_size, value, is_global);
        if (str_is(key, "uid"))
                return take_id(&p->uid, &p->has_uid, value);
        if (str_is(key, "gid"))
                return take_id(&p->gid, &p->has_gid, value);
        if (str_is(key, "mtime")) {
                p->has_mtime = true;
                return parse_time(value, &p->mtime_s, &p->mtime_ns) < 0 ? "a time is not valid" : NULL;
        }
        if (str_starts(key, XATTR_PREFIX))
                return add_xattr(p, (struct str){key.p + sizeof(XATTR_PREFIX) - 1, key.n - (sizeof(XATTR_PREFIX) - 1)},
                                 value);
        if (str_starts(key, "GNU.sparse."))
                return take_sparse(p, key, value, is_global);
        return NULL; /* atime, uname, comments and what others invented */
}

/* "LENGTH KEY=VALUE\n", LENGTH counting all of it. */
static const char *next_record(struct str *text, struct str *ret_key, struct str *ret_value)
{
        struct str rest = *text, digits, record;
        uint32_t len;

        if (!str_cut(&rest, ' ', &digits) || parse_u32(digits, 5, TAR_HEADER_MAX, &len) < 0 || len > text->n ||
            len <= digits.n + 1 || text->p[len - 1] != '\n')
                return "a record of a pax header is not valid";
        record = (struct str){rest.p, len - digits.n - 2};
        *text = (struct str){text->p + len, text->n - len};
        if (!str_cut(&record, '=', ret_key) || ret_key->n == 0)
                return "a record of a pax header has no key";
        *ret_value = record;
        return NULL;
}

const char *tar_pax_parse(struct tar_pax *p, bool is_global)
{
        struct str text = {(const char *)buf_at(&p->text), p->text.len}, key, value;
        const char *why = NULL;

        while (!why && text.n) {
                why = next_record(&text, &key, &value);
                if (!why)
                        why = take_record(p, key, value, is_global);
        }
        return why;
}
