#include "agent/request/file_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/request/command_request.h"
#include "agent/request/text_field.h"
#include "base/auto.h"
#include "base/err.h"
#include "model/json_field.h"
#include "wire/base64.h"

#define CONTENT_MAX (32u << 20)

int file_path_decode(const json_t *body, const char *field, const char **ret, struct err *err)
{
        int r;

        *ret = NULL;
        r = text_field(body, field, ret, err);
        if (r < 0)
                return r;
        return *ret && **ret ? 0 : err_set(err, ERR_INVALID, "validation error: field '%s' is required", field);
}

static int take_content(const json_t *body, struct file_request *f, struct err *err)
{
        const char *text = NULL;
        bool is_base64;
        int r;

        if ((r = json_field_text(body, "content", &text, err)) < 0 || (r = encoding_decode(body, &is_base64, err)) < 0)
                return r;
        if (!text)
                return err_set(err, ERR_INVALID, "validation error: field 'content' is required");
        f->content = (struct str){text, json_string_length(json_object_get(body, "content"))};
        if (!is_base64)
                return 0;
        r = base64_decode(f->content, &f->bytes);
        if (r == -EINVAL)
                return err_set(err, ERR_INVALID, "validation error: field 'content' is no base64");
        if (r < 0)
                return err_sys(err, r, "content");
        f->content = (struct str){f->bytes.len ? (const char *)buf_at(&f->bytes) : "", f->bytes.len};
        return 0;
}

int file_request_decode(const json_t *body, struct file_request *ret, struct err *err)
{
        struct file_request f = {.bytes = BUF_INIT(CONTENT_MAX)};
        int r;

        if ((r = file_path_decode(body, "path", &f.path, err)) < 0 || (r = take_content(body, &f, err)) < 0) {
                file_request_done(&f);
                return r;
        }
        *ret = f;
        return 0;
}

void file_request_done(struct file_request *f)
{
        buf_done(&f->bytes);
}

json_t *file_show(const char *path, struct str content)
{
        AUTO_BUF struct buf text = BUF_INIT(2 * CONTENT_MAX);

        if (str_is_utf8(content) && !str_has_nul(content))
                return json_with(json_pack("{s:s}", "path", path), "content",
                                 json_stringn_nocheck(content.p, content.n));
        if (base64_add(&text, content.p, content.n, true) < 0)
                return NULL;
        return json_with(json_pack("{s:s,s:s}", "path", path, "encoding", "base64"), "content",
                         json_stringn_nocheck((const char *)buf_at(&text), text.len));
}

static json_t *with_field(json_t *obj, const char *name, const json_t *entry, const char *from)
{
        return json_with_ref(obj, name, json_object_get(entry, from));
}

json_t *file_entry_show(const json_t *entry)
{
        const char *type = json_string_value(json_object_get(entry, "type"));
        const char *size = json_string_value(json_object_get(entry, "size"));
        uint64_t bytes = 0;
        json_t *obj = json_object();

        if (size)
                (void)parse_u64(str_of(size), 0, INT64_MAX, &bytes);
        obj = with_field(obj, "name", entry, "name");
        obj = with_field(obj, "path", entry, "path");
        obj = json_with(obj, "type",
                        json_string(!type                                      ? "other"
                                    : strcmp(type, "FILE_TYPE_FILE") == 0      ? "file"
                                    : strcmp(type, "FILE_TYPE_DIRECTORY") == 0 ? "directory"
                                                                               : "other"));
        obj = json_with(obj, "size", json_integer((json_int_t)bytes));
        obj = with_field(obj, "mode", entry, "mode");
        obj = with_field(obj, "permissions", entry, "permissions");
        obj = with_field(obj, "owner", entry, "owner");
        obj = with_field(obj, "group", entry, "group");
        obj = with_field(obj, "modified_at", entry, "modifiedTime");
        return with_field(obj, "symlink_target", entry, "symlinkTarget");
}
