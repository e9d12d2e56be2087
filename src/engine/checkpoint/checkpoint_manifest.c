#include "engine/checkpoint/checkpoint_manifest.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/err.h"
#include "wire/crc32c.h"

#define SUM "manifest_crc32c" /* of the compact text with sorted keys without this one */
#define DUMP_FLAGS (JSON_COMPACT | JSON_SORT_KEYS)

void manifest_done(struct manifest *m)
{
        free(m->files);
        m->files = NULL;
        m->count = m->room = 0;
}

static bool is_name(struct str s)
{
        if (s.n == 0 || s.n >= MANIFEST_NAME_MAX || s.p[0] == '.')
                return false;
        for (size_t i = 0; i < s.n; i++) {
                char c = s.p[i];

                if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '.' &&
                    c != '_' && c != '-')
                        return false;
        }
        return true;
}

static int by_name(const void *a, const void *b)
{
        return strcmp(((const struct manifest_file *)a)->name, ((const struct manifest_file *)b)->name);
}

static int add(struct manifest *m, struct str name)
{
        if (!is_name(name) || m->count == MANIFEST_FILES_MAX)
                return -EINVAL;
        if (m->count == m->room) {
                size_t room = m->room ? 2 * m->room : 64;
                struct manifest_file *more = reallocarray(m->files, room, sizeof(*more));

                if (!more)
                        return -ENOMEM;
                m->files = more;
                m->room = room;
        }
        m->files[m->count] = (struct manifest_file){0};
        memcpy(m->files[m->count++].name, name.p, name.n);
        return 0;
}

int manifest_add(struct manifest *m, const char *name, struct err *err)
{
        int r = add(m, str_of(name));

        if (r == -EINVAL)
                return err_set(err, ERR_INVALID, "'%.100s' is no name of an image, or there are too many", name);
        return r < 0 ? err_sys(err, r, "list images") : 0;
}

const struct manifest_file *manifest_find(const struct manifest *m, const char *name)
{
        struct manifest_file key = {0};
        size_t n = strlen(name);

        if (n >= sizeof(key.name))
                return NULL;
        memcpy(key.name, name, n);
        return m->count ? bsearch(&key, m->files, m->count, sizeof(key), by_name) : NULL;
}

uint64_t manifest_bytes(const struct manifest *m)
{
        uint64_t bytes = 0;

        for (size_t i = 0; i < m->count; i++)
                bytes += m->files[i].size;
        return bytes;
}

static void machine(char out[sizeof(((struct utsname *)0)->machine)])
{
        struct utsname u;

        out[0] = '\0';
        if (uname(&u) == 0)
                memcpy(out, u.machine, sizeof(u.machine));
}

static int sum_of(const json_t *obj, char out[9])
{
        AUTO_FREE char *text = json_dumps(obj, DUMP_FLAGS);
        uint32_t crc;

        if (!text)
                return -ENOMEM;
        crc = crc32c(0, text, strlen(text));
        (void)snprintf(out, 9, "%08x", crc);
        return 0;
}

/* ------------------------------------------------------------- to text */

static json_t *encode_files(const struct manifest *m)
{
        json_t *list = json_array();

        for (size_t i = 0; list && i < m->count; i++) {
                const struct manifest_file *f = &m->files[i];

                if (json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "name", f->name, "size",
                                                          (json_int_t)f->size, "crc32c", (json_int_t)f->crc)) < 0) {
                        json_decref(list);
                        return NULL;
                }
        }
        return list;
}

int manifest_encode(struct manifest *m, char **ret_text, struct err *err)
{
        const struct checkpoint_facts *f = &m->facts;
        char kind[sizeof(((struct utsname *)0)->machine)], sum[9], *text = NULL;
        json_t *obj;

        machine(kind);
        if (m->count)
                qsort(m->files, m->count, sizeof(*m->files), by_name);
        obj = json_pack("{s:i, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "format", CHECKPOINT_FORMAT, "machine", kind,
                        "sandbox", f->sandbox, "envd", f->envd, "uid_base", (json_int_t)f->uid_base, "address",
                        (json_int_t)f->address, "frozen_us", (json_int_t)f->frozen_us, "bytes",
                        (json_int_t)manifest_bytes(m), "files", encode_files(m));
        if (obj && sum_of(obj, sum) == 0 && json_object_set_new(obj, SUM, json_string(sum)) == 0)
                text = json_dumps(obj, DUMP_FLAGS);
        json_decref(obj);
        if (!text)
                return err_set(err, ERR_LIMIT, "out of memory");
        *ret_text = text;
        return 0;
}

/* ------------------------------------------------------------- and back */

static int bad(const char *what, struct err *err)
{
        return err_set(err, ERR_INVALID, "checkpoint damaged: " CHECKPOINT_MANIFEST ": %s", what);
}

static int check_whole(json_t *obj, struct err *err)
{
        const char *said = json_string_value(json_object_get(obj, SUM));
        char kept[9], sum[9];

        if (!said || strlen(said) != 8)
                return bad("no " SUM, err);
        memcpy(kept, said, sizeof(kept));
        if (json_object_del(obj, SUM) < 0 || sum_of(obj, sum) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        return strcmp(kept, sum) == 0 ? 0 : bad("its own checksum differs", err);
}

static int decode_file(struct manifest *m, json_t *item, struct err *err)
{
        json_int_t size, crc;
        const char *name;
        size_t n;
        int r;

        if (json_unpack_ex(item, NULL, JSON_STRICT, "{s:s%, s:I, s:I}", "name", &name, &n, "size", &size, "crc32c",
                           &crc) < 0)
                return bad("an entry of files is not as it should be", err);
        if (size < 0 || crc < 0 || crc > UINT32_MAX)
                return bad("a number in files is out of range", err);
        r = add(m, (struct str){name, n});
        if (r < 0)
                return r == -ENOMEM ? err_set(err, ERR_LIMIT, "out of memory")
                                    : bad("a file name that no image has", err);
        m->files[m->count - 1].size = (uint64_t)size;
        m->files[m->count - 1].crc = (uint32_t)crc;
        if (m->count > 1 && by_name(&m->files[m->count - 2], &m->files[m->count - 1]) >= 0)
                return bad("files are not in order", err); /* which also finds a second one of a name */
        return 0;
}

static int decode_files(struct manifest *m, const json_t *list, struct err *err)
{
        json_t *item;
        size_t i;
        int r;

        if (!json_is_array(list))
                return bad("files is no list", err);
        json_array_foreach (list, i, item) {
                r = decode_file(m, item, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool is_hash(const char *text)
{
        return strlen(text) == CHECKPOINT_HASH_MAX - 1 && strspn(text, "0123456789abcdef") == CHECKPOINT_HASH_MAX - 1;
}

static int decode_facts(struct manifest *m, json_t *obj, json_t **ret_files, struct err *err)
{
        json_int_t format, uid, address, frozen, bytes;
        const char *kind, *sandbox, *envd;
        char here[sizeof(((struct utsname *)0)->machine)];

        if (json_unpack_ex(obj, NULL, JSON_STRICT, "{s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "format", &format,
                           "machine", &kind, "sandbox", &sandbox, "envd", &envd, "uid_base", &uid, "address", &address,
                           "frozen_us", &frozen, "bytes", &bytes, "files", ret_files) < 0)
                return bad("its members are not as they should be", err);
        machine(here);
        if (strcmp(kind, here) != 0)
                return err_set(err, ERR_INVALID, "the checkpoint is of another machine: %.20s, this is %s", kind, here);
        if (!sandbox_id_is_valid(str_of(sandbox)) || !is_hash(envd) || uid < 0 || uid > UINT32_MAX || address < 0 ||
            address > UINT32_MAX || frozen < 0 || bytes < 0)
                return bad("a value is out of range", err);
        memcpy(m->facts.sandbox, sandbox, strlen(sandbox) + 1);
        memcpy(m->facts.envd, envd, strlen(envd) + 1);
        m->facts.uid_base = (uint32_t)uid;
        m->facts.address = (uint32_t)address;
        m->facts.frozen_us = (uint64_t)frozen;
        return 0;
}

static int decode(json_t *obj, struct manifest *m, struct err *err)
{
        json_int_t bytes = json_integer_value(json_object_get(obj, "bytes"));
        const json_t *format = json_object_get(obj, "format");
        json_t *files = NULL;
        int r;

        if (!json_is_integer(format))
                return bad("no format", err);
        if (json_integer_value(format) != CHECKPOINT_FORMAT)
                return err_set(err, ERR_INVALID, "the checkpoint is of format %lld, this server reads format %d",
                               (long long)json_integer_value(format), CHECKPOINT_FORMAT);
        if ((r = check_whole(obj, err)) < 0 || (r = decode_facts(m, obj, &files, err)) < 0 ||
            (r = decode_files(m, files, err)) < 0)
                return r;
        return (uint64_t)bytes == manifest_bytes(m) ? 0 : bad("sizes do not add up", err);
}

int manifest_decode(struct str text, struct manifest *ret, struct err *err)
{
        struct manifest m = {0};
        json_t *obj = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
        int r = json_is_object(obj) ? decode(obj, &m, err) : bad("no JSON object", err);

        json_decref(obj);
        if (r < 0)
                manifest_done(&m);
        else
                *ret = m;
        return r;
}
