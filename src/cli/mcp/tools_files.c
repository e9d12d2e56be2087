/* tools_files.c - tools that read, write, edit and list files of a sandbox. */
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/mcp/platform.h"
#include "cli/mcp/platform_tools.h"
#include "mcp/content/edits.h"
#include "mcp/protocol/shorten.h"
#include "wire/base64.h"

#define LINES 2000
#define TEXT_BYTES (100u << 10)
#define READ_BYTES_MAX (64u << 20)
#define PICTURE_BYTES_MAX (5u << 20)
#define EDITED_BYTES_MAX (16u << 20)
#define ENTRIES 500

#define SCHEMA_PATH                                                                                                    \
        "\"path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096,\"description\":\"Relative paths begin in "  \
        "the home of the user.\"}"

static const char *path_of(const struct work *w)
{
        return arg_text(w->args, "path", "");
}

static struct sg_file_options options_of(const struct work *w)
{
        return (struct sg_file_options){.user = arg_text(w->args, "user", NULL)};
}

static struct str text_of(const struct buf *b)
{
        return (struct str){b->len ? (const char *)buf_at(b) : "", b->len};
}

/* ---- read_file ---- */

/* The lines from number `first` on, at most `most` of them and TEXT_BYTES; *last: the number of the last one. */
static struct str cut_lines(struct str all, uint64_t first, uint64_t most, uint64_t *last, bool *is_end)
{
        uint64_t at = 1;
        const char *from;
        size_t n = 0;

        while (at < first && all.n) {
                struct str line;

                (void)str_cut(&all, '\n', &line);
                at++;
        }
        from = all.p;
        *last = first - 1;
        while (all.n && *last - first + 1 < most && n < TEXT_BYTES) {
                struct str line;
                size_t before = all.n;

                (void)str_cut(&all, '\n', &line);
                n += before - all.n;
                (*last)++;
        }
        *is_end = all.n == 0;
        if (n > TEXT_BYTES) {
                n = TEXT_BYTES;
                *is_end = false;
        }
        return (struct str){n ? from : "", n};
}

static void answer_text(struct work *w, struct str all)
{
        uint64_t first = (uint64_t)arg_number(w->args, "first_line", 1), last;
        AUTO_BUF struct buf text = BUF_INIT(4 * TEXT_BYTES);
        bool is_end;
        struct str lines = cut_lines(all, first, (uint64_t)arg_number(w->args, "lines", LINES), &last, &is_end);

        (void)text_clean(lines, &text);
        if (all.n == 0)
                (void)buf_addf(&text, "[%s is empty]", path_of(w));
        else if (lines.n == 0)
                (void)buf_addf(&text, "[%s has no line %llu]", path_of(w), (unsigned long long)first);
        else if (!is_end)
                (void)buf_addf(&text, "\n[lines %llu to %llu; the file goes on%s]", (unsigned long long)first,
                               (unsigned long long)last,
                               lines.n == TEXT_BYTES ? ": the text was cut in the last of these lines" : "");
        work_text(w, text_of(&text),
                  json_pack("{s:s,s:I,s:I,s:I,s:b}", "path", path_of(w), "size", (json_int_t)all.n, "first_line",
                            (json_int_t)first, "last_line", (json_int_t)last, "is_complete", is_end && first == 1));
}

static void answer_picture(struct work *w, const char *type, struct str bytes)
{
        AUTO_BUF struct buf caption = BUF_INIT(8192);

        if (bytes.n > PICTURE_BYTES_MAX) {
                work_failed(w, "%s is a picture of %zu bytes: at most %u can be shown", path_of(w), bytes.n,
                            PICTURE_BYTES_MAX);
                return;
        }
        (void)buf_addf(&caption, "%s, %zu bytes", path_of(w), bytes.n);
        json_decref(w->result);
        w->result = tool_result(
                json_pack("[o,o]", tool_image_content(type, bytes), tool_text_content(text_of(&caption))), NULL, false);
}

static void answer_base64(struct work *w, struct str bytes)
{
        AUTO_BUF struct buf text = BUF_INIT(BASE64_LEN(bytes.n) + 1);

        if (bytes.n > PICTURE_BYTES_MAX)
                work_failed(w, "%s has %zu bytes: at most %u can be read as base64", path_of(w), bytes.n,
                            PICTURE_BYTES_MAX);
        else if (base64_add(&text, bytes.p, bytes.n, true) < 0)
                work_failed(w, "out of memory");
        else
                work_text(w, text_of(&text), NULL);
}

static void read_file(struct work *w)
{
        struct sg_file_options opt = options_of(w);
        struct sg_sandbox *box = work_open(w);
        struct sg_error err;
        char *bytes = NULL;
        const char *type;
        size_t n;

        if (!box)
                return;
        opt.max = READ_BYTES_MAX;
        if (sg_file_read(box, path_of(w), &opt, &w->wait, &bytes, &n, &err) < 0) {
                if (err.kind == SG_TOO_LARGE)
                        work_failed(w, "%s has more than %u MiB: use run_command to look into it", path_of(w),
                                    READ_BYTES_MAX >> 20);
                else
                        work_error(w, &err);
        } else if (strcmp(arg_text(w->args, "encoding", "text"), "base64") == 0) {
                answer_base64(w, (struct str){bytes, n});
        } else if ((type = tool_picture_type((struct str){bytes, n}))) {
                answer_picture(w, type, (struct str){bytes, n});
        } else if (memchr(bytes, 0, n < 8192 ? n : 8192)) {
                work_failed(w,
                            "%s is a binary file of %zu bytes: use run_command to look into it, or read it as base64",
                            path_of(w), n);
        } else {
                answer_text(w, (struct str){bytes, n});
        }
        sg_free(bytes);
        sg_sandbox_free(box);
}

const struct platform_tool platform_read_file = {
        .tool = {.name = "read_file",
                 .title = "Read a file of a sandbox",
                 .description = "Return a text file, or some of its lines. Pictures (PNG, JPEG, GIF, WebP) are "
                                "returned as pictures.",
                 .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_PATH
                           ",\"first_line\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":4294967295,"
                           "\"description\":\"Default: 1.\"},"
                           "\"lines\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100000,\"description\":\"How "
                           "many lines. Default: 2000.\"},"
                           "\"encoding\":{\"type\":\"string\",\"enum\":[\"text\",\"base64\"],\"description\":"
                           "\"base64: all bytes of a small file. Default: text.\"}," SCHEMA_USER
                           "},\"required\":[\"sandbox_id\",\"path\"],\"additionalProperties\":false}",
                 .run = work_start},
        .work = read_file,
};

/* ---- write_file, edit_file ---- */

static void put(struct work *w, struct str content)
{
        const struct sg_file_options opt = options_of(w);
        struct sg_sandbox *box = work_open(w);
        struct sg_error err;

        if (!box)
                return;
        if (sg_file_write(box, path_of(w), content.p, content.n, &opt, &w->wait, &err) < 0)
                work_error(w, &err);
        else
                work_textf(w, NULL, "Written %s: %zu bytes.", path_of(w), content.n);
        sg_sandbox_free(box);
}

static void write_file(struct work *w)
{
        const json_t *value = json_object_get(w->args, "content");
        struct str content = {json_string_value(value), json_string_length(value)};
        AUTO_BUF struct buf bytes = BUF_INIT(content.n + 4);

        if (strcmp(arg_text(w->args, "encoding", "text"), "base64") != 0)
                put(w, content);
        else if (base64_decode(content, &bytes) < 0)
                work_failed(w, "content is no base64");
        else
                put(w, text_of(&bytes));
}

const struct platform_tool platform_write_file = {
        .tool = {.name = "write_file",
                 .title = "Write a file of a sandbox",
                 .description = "Create a file or replace all of it. Missing directories are made.",
                 .hints = TOOL_DESTROYS | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_PATH
                           ",\"content\":{\"type\":\"string\",\"maxLength\":16000000},"
                           "\"encoding\":{\"type\":\"string\",\"enum\":[\"text\",\"base64\"],\"description\":\"What "
                           "content is. Default: text.\"}," SCHEMA_USER
                           "},\"required\":[\"sandbox_id\",\"path\",\"content\"],\"additionalProperties\":false}",
                 .run = work_start},
        .work = write_file,
};

static void edit_in(struct work *w, struct sg_sandbox *box)
{
        struct sg_file_options opt = options_of(w);
        AUTO_BUF struct buf now = BUF_INIT(EDITED_BYTES_MAX);
        struct sg_error failed;
        struct err err = {0};
        char *bytes = NULL;
        size_t n, changes = 0;
        int r;

        opt.max = EDITED_BYTES_MAX;
        if (sg_file_read(box, path_of(w), &opt, &w->wait, &bytes, &n, &failed) < 0) {
                work_error(w, &failed);
                return;
        }
        r = buf_add(&now, bytes, n);
        sg_free(bytes);
        if (r < 0)
                (void)err_sys(&err, r, "%s", path_of(w));
        else
                r = edits_apply(json_object_get(w->args, "edits"), &now, &changes, &err);
        if (r < 0)
                work_failed(w, "%s", err.msg);
        else if (sg_file_write(box, path_of(w), text_of(&now).p, now.len, &opt, &w->wait, &failed) < 0)
                work_error(w, &failed);
        else
                work_textf(w, json_pack("{s:I}", "replacements", (json_int_t)changes), "Edited %s: %zu %s.", path_of(w),
                           changes, changes == 1 ? "replacement" : "replacements");
}

static void edit_file(struct work *w)
{
        struct sg_sandbox *box = work_open(w);

        if (box)
                edit_in(w, box);
        sg_sandbox_free(box);
}

const struct platform_tool platform_edit_file = {
        .tool = {.name = "edit_file",
                 .title = "Edit a file of a sandbox",
                 .description = "Replace texts in a file, to the letter, several at once: all edits or none.",
                 .hints = TOOL_DESTROYS,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_PATH
                           ",\"edits\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":200,\"items\":{\"type\":"
                           "\"object\",\"properties\":{"
                           "\"old_text\":{\"type\":\"string\",\"minLength\":1,\"description\":\"Must occur exactly "
                           "once, unless replace_all is set.\"},"
                           "\"new_text\":{\"type\":\"string\"},\"replace_all\":{\"type\":\"boolean\"}},"
                           "\"required\":[\"old_text\",\"new_text\"],\"additionalProperties\":false}}," SCHEMA_USER
                           "},\"required\":[\"sandbox_id\",\"path\",\"edits\"],\"additionalProperties\":false}",
                 .output = "{\"type\":\"object\",\"properties\":{\"replacements\":{\"type\":\"integer\"}},"
                           "\"required\":[\"replacements\"]}",
                 .run = work_start},
        .work = edit_file,
};

/* ---- list_files, move_file, delete_file ---- */

static const char *type_name(const struct sg_file *f)
{
        return f->link_target[0]              ? "link"
               : f->type == SG_FILE_DIRECTORY ? "directory"
               : f->type == SG_FILE_REGULAR   ? "file"
                                              : "other";
}

static void answer_list(struct work *w, const struct sg_file_list *found)
{
        size_t most = (size_t)arg_number(w->args, "limit", ENTRIES), n = found->count < most ? found->count : most;
        AUTO_BUF struct buf text = BUF_INIT(16u << 20);
        json_t *array = json_array();

        for (size_t i = 0; i < n; i++) {
                const struct sg_file *f = &found->items[i];

                if (f->type == SG_FILE_REGULAR && !f->link_target[0])
                        (void)buf_addf(&text, "%s  %llu\n", f->path, (unsigned long long)f->size);
                else
                        (void)buf_addf(&text, "%s%s\n", f->path,
                                       f->link_target[0]              ? "@"
                                       : f->type == SG_FILE_DIRECTORY ? "/"
                                                                      : "?");
                (void)json_array_append_new(array, json_pack("{s:s,s:s,s:I}", "path", f->path, "type", type_name(f),
                                                             "size", (json_int_t)f->size));
        }
        if (found->count == 0)
                (void)buf_addc(&text, "[empty]");
        if (found->count > n)
                (void)buf_addf(&text, "[%zu more entries]", found->count - n);
        work_text(w, text_of(&text),
                  json_pack("{s:o,s:I}", "entries", array, "left_out", (json_int_t)(found->count - n)));
}

static void list_files(struct work *w)
{
        struct sg_file_options opt = options_of(w);
        struct sg_sandbox *box = work_open(w);
        struct sg_file_list *found = NULL;
        struct sg_error err;

        if (!box)
                return;
        opt.depth = (uint32_t)arg_number(w->args, "depth", 1);
        if (sg_file_list(box, arg_text(w->args, "path", "."), &opt, &w->wait, &found, &err) < 0)
                work_error(w, &err);
        else
                answer_list(w, found);
        sg_free(found);
        sg_sandbox_free(box);
}

const struct platform_tool platform_list_files = {
        .tool = {.name = "list_files",
                 .title = "List a directory of a sandbox",
                 .description = "List files with their sizes, directories (/) and links (@).",
                 .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID
                           ",\"path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096,\"description\":"
                           "\"Default: the home of the user.\"},"
                           "\"depth\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":8,\"description\":\"How many "
                           "levels. Default: 1.\"},"
                           "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000,\"description\":\"How "
                           "many entries at most. Default: 500.\"}," SCHEMA_USER
                           "},\"required\":[\"sandbox_id\"],\"additionalProperties\":false}",
                 .output = "{\"type\":\"object\",\"properties\":{\"entries\":{\"type\":\"array\",\"items\":{\"type\":"
                           "\"object\"}},\"left_out\":{\"type\":\"integer\"}},\"required\":[\"entries\","
                           "\"left_out\"]}",
                 .run = work_start},
        .work = list_files,
};

static void move_file(struct work *w)
{
        const char *from = arg_text(w->args, "from", ""), *to = arg_text(w->args, "to", "");
        const struct sg_file_options opt = options_of(w);
        struct sg_sandbox *box = work_open(w);
        struct sg_error err;

        if (!box)
                return;
        if (sg_file_rename(box, from, to, &opt, &w->wait, &err) < 0)
                work_error(w, &err);
        else
                work_textf(w, NULL, "Moved %s to %s.", from, to);
        sg_sandbox_free(box);
}

const struct platform_tool platform_move_file = {
        .tool = {.name = "move_file",
                 .title = "Move a file of a sandbox",
                 .description = "Move or rename a file or directory inside a sandbox.",
                 .hints = TOOL_DESTROYS,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID
                           ",\"from\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096},\"to\":{\"type\":"
                           "\"string\",\"minLength\":1,\"maxLength\":4096}," SCHEMA_USER
                           "},\"required\":[\"sandbox_id\",\"from\",\"to\"],\"additionalProperties\":false}",
                 .run = work_start},
        .work = move_file,
};

static void delete_file(struct work *w)
{
        const struct sg_file_options opt = options_of(w);
        struct sg_sandbox *box = work_open(w);
        struct sg_file *found = NULL;
        struct sg_error err;

        if (!box)
                return;
        if (sg_file_stat(box, path_of(w), &opt, &w->wait, &found, &err) < 0)
                work_error(w, &err);
        else if (found->type == SG_FILE_DIRECTORY && !found->link_target[0] && !arg_flag(w->args, "recursive"))
                work_failed(w, "%s is a directory: set recursive to delete it with all that is in it", path_of(w));
        else if (sg_file_remove(box, path_of(w), &opt, &w->wait, &err) < 0)
                work_error(w, &err);
        else
                work_textf(w, NULL, "Deleted %s.", path_of(w));
        sg_free(found);
        sg_sandbox_free(box);
}

const struct platform_tool platform_delete_file = {
        .tool = {.name = "delete_file",
                 .title = "Delete a file of a sandbox",
                 .description = "Delete a file, or with `recursive` a directory and all that is in it.",
                 .hints = TOOL_DESTROYS,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_PATH
                           ",\"recursive\":{\"type\":\"boolean\"}," SCHEMA_USER
                           "},\"required\":[\"sandbox_id\",\"path\"],\"additionalProperties\":false}",
                 .run = work_start},
        .work = delete_file,
};
