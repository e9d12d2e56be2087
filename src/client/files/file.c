/* Files by the daemon's calls: looked at, listed, made, removed, renamed. */
#include "client/files/file.h"

#include <string.h>

#include "base/clock.h"
#include "client/block.h"

#define DEPTH_MAX 100u

const struct sg_file_options file_usual_options;

int check_path(const char *path, struct sg_error *err)
{
        return check_text(path, "the path", PATH_BYTES_MAX, err);
}

int check_file_options(const struct sg_file_options *o, struct sg_error *err)
{
        if (o->depth > DEPTH_MAX)
                return error_set(err, SG_INVALID, "depth must not be more than %u", DEPTH_MAX);
        return check_reserved(o->reserved, ARRAY_LEN(o->reserved), err);
}

/* ---- one entry ---- */

static uint64_t read_size(const json_t *value)
{
        uint64_t n = 0;

        if (json_is_string(value))
                (void)parse_u64(str_of(json_string_value(value)), 0, UINT64_MAX, &n);
        else if (json_integer_value(value) > 0)
                n = (uint64_t)json_integer_value(value);
        return n;
}

static enum sg_file_type read_type(const char *name)
{
        return !name                                      ? SG_FILE_OTHER
               : strcmp(name, "FILE_TYPE_FILE") == 0      ? SG_FILE_REGULAR
               : strcmp(name, "FILE_TYPE_DIRECTORY") == 0 ? SG_FILE_DIRECTORY
                                                          : SG_FILE_OTHER;
}

static const char *text_of(const json_t *obj, const char *key, void *block)
{
        const json_t *value = json_object_get(obj, key);

        return block_text(block, (struct str){json_string_value(value), json_string_length(value)});
}

static int read_entry(const json_t *obj, void *block, struct sg_file *ret, struct sg_error *err)
{
        const char *modified = json_string_value(json_object_get(obj, "modifiedTime"));
        int64_t ns;

        if (!json_is_string(json_object_get(obj, "path")) || !json_is_string(json_object_get(obj, "name")))
                return error_set(err, SG_INTERNAL, "the sandbox's answer does not describe a file");
        *ret = (struct sg_file){.name = text_of(obj, "name", block),
                                .path = text_of(obj, "path", block),
                                .type = read_type(json_string_value(json_object_get(obj, "type"))),
                                .size = read_size(json_object_get(obj, "size")),
                                .mode = (uint32_t)json_integer_value(json_object_get(obj, "mode")) & 07777u,
                                .permissions = text_of(obj, "permissions", block),
                                .owner = text_of(obj, "owner", block),
                                .group = text_of(obj, "group", block),
                                .modified_ms = modified && clock_parse(str_of(modified), &ns) == 0 ? ns / 1000000 : 0,
                                .link_target = text_of(obj, "symlinkTarget", block)};
        return ret->name && ret->path && ret->permissions && ret->owner && ret->group && ret->link_target
                       ? 0
                       : error_no_memory(err);
}

/* ---- calls ---- */

/* body stolen; NULL: no memory. */
static int file_call(struct sg_sandbox *box, const char *method, json_t *body, bool repeats,
                     const struct sg_file_options *options, const struct sg_call *call, json_t **ret,
                     struct sg_error *err)
{
        const struct sg_file_options *o = options ? options : &file_usual_options;
        struct limit l;
        int r = check_file_options(o, err);

        if (r == 0)
                r = limit_begin(&l, call, box->client->timeout_ms, err);
        if (r < 0) {
                json_decref(body);
                return r;
        }
        r = envd_call(box, &(struct envd_call){.method = method, .user = o->user, .body = body, .repeats = repeats}, &l,
                      ret, err);
        return box_explain(box, &l, r, err);
}

static json_t *path_body(const char *path)
{
        return json_pack("{s:s}", "path", path);
}

int sg_file_stat(struct sg_sandbox *box, const char *path, const struct sg_file_options *options,
                 const struct sg_call *call, struct sg_file **ret, struct sg_error *err)
{
        AUTO(block_free_p) struct sg_file *file = NULL;
        json_t *got = NULL;
        int r = check_path(path, err);

        if (r == 0)
                r = file_call(box, "/filesystem.Filesystem/Stat", path_body(path), true, options, call, &got, err);
        if (r < 0)
                return r;
        file = block_create(sizeof(*file));
        r = file ? read_entry(json_object_get(got, "entry"), file, file, err) : error_no_memory(err);
        json_decref(got);
        if (r == 0)
                *ret = TAKE_PTR(file);
        return r;
}

static int read_list(const json_t *array, struct sg_file_list **ret, struct sg_error *err)
{
        AUTO(block_free_p) struct sg_file_list *list = block_create(sizeof(*list));
        size_t n = json_array_size(array);
        struct sg_file *items = list ? block_add(list, (n + 1) * sizeof(*items)) : NULL;
        int r = items ? 0 : error_no_memory(err);

        for (size_t i = 0; r == 0 && i < n; i++)
                r = read_entry(json_array_get(array, i), list, &items[i], err);
        if (r < 0)
                return r;
        *list = (struct sg_file_list){.count = n, .items = items};
        *ret = TAKE_PTR(list);
        return 0;
}

int sg_file_list(struct sg_sandbox *box, const char *path, const struct sg_file_options *options,
                 const struct sg_call *call, struct sg_file_list **ret, struct sg_error *err)
{
        uint32_t depth = options && options->depth ? options->depth : 1;
        json_t *got = NULL;
        int r = check_path(path, err);

        if (r == 0)
                r = file_call(box, "/filesystem.Filesystem/ListDir",
                              json_pack("{s:s, s:I}", "path", path, "depth", (json_int_t)depth), true, options, call,
                              &got, err);
        if (r == 0)
                r = read_list(json_object_get(got, "entries"), ret, err);
        json_decref(got);
        return r;
}

int sg_file_mkdir(struct sg_sandbox *box, const char *path, const struct sg_file_options *options,
                  const struct sg_call *call, struct sg_error *err)
{
        int r = check_path(path, err);

        return r < 0 ? r
                     : file_call(box, "/filesystem.Filesystem/MakeDir", path_body(path), false, options, call, NULL,
                                 err);
}

int sg_file_remove(struct sg_sandbox *box, const char *path, const struct sg_file_options *options,
                   const struct sg_call *call, struct sg_error *err)
{
        int r = check_path(path, err);

        return r < 0 ? r
                     : file_call(box, "/filesystem.Filesystem/Remove", path_body(path), true, options, call, NULL, err);
}

int sg_file_rename(struct sg_sandbox *box, const char *from, const char *to, const struct sg_file_options *options,
                   const struct sg_call *call, struct sg_error *err)
{
        int r = check_path(from, err);

        if (r == 0)
                r = check_path(to, err);
        return r < 0 ? r
                     : file_call(box, "/filesystem.Filesystem/Move",
                                 json_pack("{s:s, s:s}", "source", from, "destination", to), false, options, call, NULL,
                                 err);
}
