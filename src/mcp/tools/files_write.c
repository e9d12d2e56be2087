/* files_write.c - the tools write_file, edit_file, apply_patch, move and delete. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/content/edits.h"
#include "mcp/protocol/mcp.h"
#include "mcp/tools/once.h"
#include "mcp/tools/patch.h"
#include "mcp/tools/path.h"
#include "mcp/tools/sandbox_tools.h"

#define PROGRAM_TIMEOUT_S 600
#define PATCHED_BYTES_MAX (64u << 20)

static struct str text_of(const struct buf *b)
{
        return (struct str){b->len ? (const char *)buf_at(b) : "", b->len};
}

/* ---- write_file ---- */

static void write_file(struct call *c, json_t *args)
{
        const json_t *content = json_object_get(args, "content");
        struct str text = {json_string_value(content), json_string_length(content)};
        char path[PATH_MAX];
        struct err err = {0};
        bool is_new;

        if (path_of(c->mcp, arg_text(args, "path", ""), path, &err) < 0 || file_replace(path, text, &is_new, &err) < 0)
                tool_failed(c, "%s", err.msg);
        else
                tool_textf(c, NULL, "%s %s: %zu bytes.", is_new ? "Created" : "Replaced", path, text.n);
}

/* ---- edit_file ---- */

static void edit_file(struct call *c, json_t *args)
{
        AUTO_BUF struct buf now = BUF_INIT(FILE_BYTES_MAX);
        char path[PATH_MAX];
        struct err err = {0};
        size_t changes = 0;
        bool is_new;
        int r = path_of(c->mcp, arg_text(args, "path", ""), path, &err);

        if (r == 0)
                r = file_read(path, &now, &err);
        if (r == 0)
                r = edits_apply(json_object_get(args, "edits"), &now, &changes, &err);
        if (r == 0)
                r = file_replace(path, text_of(&now), &is_new, &err);
        if (r < 0)
                tool_failed(c, "%s", err.msg);
        else
                tool_textf(c, json_pack("{s:I}", "replacements", (json_int_t)changes), "Edited %s: %zu %s.", path,
                           changes, changes == 1 ? "replacement" : "replacements");
}

/* ---- apply_patch ---- */

struct patched {                           /* a file of the patch, before anything is written */
        char from[PATH_MAX], to[PATH_MAX]; /* empty: none */
        struct buf content;
};

static int patched_make(struct call *c, const struct patch_file *f, struct patched *ret, struct err *err)
{
        AUTO_BUF struct buf old = BUF_INIT(FILE_BYTES_MAX);
        AUTO_FREE char *from = str_dup(f->from), *to = str_dup(f->to);
        int r = 0;

        buf_init(&ret->content, FILE_BYTES_MAX);
        ret->from[0] = ret->to[0] = '\0';
        if (!from || !to)
                return err_sys(err, -ENOMEM, "the patch");
        if (from[0])
                r = path_of(c->mcp, from, ret->from, err);
        if (r == 0 && to[0])
                r = path_of(c->mcp, to, ret->to, err);
        if (r == 0 && from[0])
                r = file_read(ret->from, &old, err);
        else if (r == 0 && access(ret->to, F_OK) == 0)
                r = err_set(err, ERR_CONFLICT, "%s exists already", ret->to);
        if (r == 0)
                r = patch_apply(f, text_of(&old), &ret->content, err);
        return r < 0 ? err_wrap(err, "%s", to[0] ? to : from) : 0;
}

static int patched_write(struct patched *p, struct err *err)
{
        bool is_new;
        int r = 0;

        if (p->to[0])
                r = file_replace(p->to, text_of(&p->content), &is_new, err);
        if (r == 0 && p->from[0] && strcmp(p->from, p->to) != 0 && unlink(p->from) < 0)
                r = err_sys(err, -errno, "delete %s", p->from);
        return r;
}

static int patch_files(struct call *c, const struct patch *patch, struct buf *done, struct err *err)
{
        struct patched *files = calloc(patch->count, sizeof(*files));
        size_t made = 0;
        int r = files ? 0 : err_sys(err, -ENOMEM, "the patch");

        while (r == 0 && made < patch->count) /* all of them first: a patch that does not fit changes nothing */
                r = patched_make(c, &patch->files[made], &files[made], err), made++;
        if (r < 0 && files)
                (void)err_wrap(err, "nothing was changed");
        for (size_t i = 0; r == 0 && i < made; i++) {
                r = patched_write(&files[i], err);
                if (r == 0)
                        (void)buf_addf(done, "%s %s\n",
                                       !files[i].to[0]    ? "deleted"
                                       : files[i].from[0] ? "changed"
                                                          : "created",
                                       files[i].to[0] ? files[i].to : files[i].from);
        }
        for (size_t i = 0; i < made; i++)
                buf_done(&files[i].content);
        free(files);
        return r;
}

static void apply_patch(struct call *c, json_t *args)
{
        const json_t *text = json_object_get(args, "patch");
        AUTO_FREE struct patch *patch = malloc(sizeof(*patch));
        AUTO_BUF struct buf done = BUF_INIT(PATCHED_BYTES_MAX);
        struct err err = {0};
        int r = patch ? patch_parse((struct str){json_string_value(text), json_string_length(text)}, patch, &err)
                      : err_sys(&err, -ENOMEM, "the patch");

        if (r == 0)
                r = patch_files(c, patch, &done, &err);
        if (r < 0)
                tool_failed(c, "%s%s%.*s", err.msg, done.len ? "\nBefore that:\n" : "", STR_ARG(text_of(&done)));
        else
                tool_text(c, text_of(&done), NULL);
}

/* ---- move, delete ---- */

static void on_moved(struct call *c, const struct once_output *o)
{
        if (o->exit_code == 0)
                tool_textf(c, NULL, "Done.");
        else
                tool_failed(c, "%.*s", STR_ARG(o->err.n ? o->err : STR("the program took too long")));
}

static void move_file(struct call *c, json_t *args)
{
        char from[PATH_MAX], to[PATH_MAX];
        const char *argv[] = {"mv", "-T", arg_flag(args, "overwrite") ? "-f" : "-n", "--", from, to, NULL};
        struct once_options opt = {
                .argv = argv, .output_max = 4096, .timeout_s = PROGRAM_TIMEOUT_S, .on_done = on_moved};
        struct err err = {0};
        struct stat st;

        if (path_of(c->mcp, arg_text(args, "from", ""), from, &err) < 0 ||
            path_of(c->mcp, arg_text(args, "to", ""), to, &err) < 0)
                tool_failed(c, "%s", err.msg);
        else if (lstat(from, &st) < 0)
                tool_failed(c, "%s does not exist", from);
        else if (lstat(to, &st) == 0 && !arg_flag(args, "overwrite"))
                tool_failed(c, "%s exists already: set overwrite to replace it", to);
        else
                once_run(c, &opt);
}

static void delete_file(struct call *c, json_t *args)
{
        char path[PATH_MAX], real[PATH_MAX];
        const char *argv[] = {"rm", "-rf", "--one-file-system", "--", path, NULL};
        struct once_options opt = {
                .argv = argv, .output_max = 4096, .timeout_s = PROGRAM_TIMEOUT_S, .on_done = on_moved};
        struct err err = {0};
        struct stat st;

        if (path_of(c->mcp, arg_text(args, "path", ""), path, &err) < 0) {
                tool_failed(c, "%s", err.msg);
                return;
        }
        for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) /* a link, not the directory that it leads to */
                path[n - 1] = '\0';
        if (lstat(path, &st) < 0)
                tool_failed(c, "%s does not exist", path);
        else if (S_ISDIR(st.st_mode) && realpath(path, real) &&
                 (strcmp(real, "/") == 0 || strcmp(real, c->mcp->opt.workspace) == 0))
                tool_failed(c, "%s is not deleted: delete what is in it", real);
        else if (S_ISDIR(st.st_mode) && !arg_flag(args, "recursive") && rmdir(path) < 0)
                tool_failed(c,
                            errno == ENOTEMPTY || errno == EEXIST
                                    ? "%s is a directory with files in it: set recursive to delete all of it"
                                    : "%s cannot be deleted",
                            path);
        else if (lstat(path, &st) < 0)
                tool_textf(c, NULL, "Done.");
        else
                once_run(c, &opt);
}

#define PATH "\"path\":{\"type\":\"string\",\"minLength\":1,\"description\":\"Relative paths begin in the workspace.\"}"

const struct tool tool_write_file = {
        .name = "write_file",
        .title = "Write a file",
        .description = "Create a file, or replace all of it. Directories on the way are made.",
        .hints = TOOL_DESTROYS | TOOL_MAY_REPEAT,
        .schema = "{\"type\":\"object\",\"properties\":{" PATH ",\"content\":{\"type\":\"string\"}},\"required\":["
                  "\"path\",\"content\"],\"additionalProperties\":false}",
        .run = write_file,
};
const struct tool tool_edit_file = {
        .name = "edit_file",
        .title = "Edit a file",
        .description = "Replace texts in a file, one edit after the other. old_text must stand in the file to the "
                       "letter, and only once unless replace_all is set. If one edit "
                       "fails, nothing is changed.",
        .hints = TOOL_DESTROYS,
        .schema = "{\"type\":\"object\",\"properties\":{" PATH
                  ",\"edits\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":1000,\"items\":{\"type\":\"object\","
                  "\"properties\":{"
                  "\"old_text\":{\"type\":\"string\",\"minLength\":1},\"new_text\":{\"type\":\"string\"},\"replace_"
                  "all\":{\"type\":\"boolean\"}},"
                  "\"required\":[\"old_text\",\"new_text\"],\"additionalProperties\":false}}},\"required\":[\"path\","
                  "\"edits\"],\"additionalProperties\":false}",
        .output = "{\"type\":\"object\",\"properties\":{\"replacements\":{\"type\":\"integer\"}},\"required\":["
                  "\"replacements\"]}",
        .run = edit_file,
};
const struct tool tool_apply_patch = {
        .name = "apply_patch",
        .title = "Apply a patch",
        .description = "Apply a unified diff (diff -u, git diff) to files of the workspace: change, create, delete and "
                       "rename. If one hunk does not fit, nothing is changed.",
        .hints = TOOL_DESTROYS,
        .schema = "{\"type\":\"object\",\"properties\":{\"patch\":{\"type\":\"string\",\"minLength\":1,\"description\":"
                  "\"The text of the patch.\"}},"
                  "\"required\":[\"patch\"],\"additionalProperties\":false}",
        .run = apply_patch,
};
const struct tool tool_move = {
        .name = "move",
        .title = "Move or rename",
        .description = "Move or rename a file or a directory. `to` is the new path itself.",
        .hints = TOOL_DESTROYS,
        .schema = "{\"type\":\"object\",\"properties\":{\"from\":{\"type\":\"string\",\"minLength\":1},\"to\":{"
                  "\"type\":\"string\",\"minLength\":1},"
                  "\"overwrite\":{\"type\":\"boolean\",\"description\":\"Replace what is there. Default: "
                  "false.\"}},\"required\":[\"from\",\"to\"],\"additionalProperties\":false}",
        .run = move_file,
};
const struct tool tool_delete = {
        .name = "delete",
        .title = "Delete",
        .description = "Delete a file, a link or a directory.",
        .hints = TOOL_DESTROYS,
        .schema = "{\"type\":\"object\",\"properties\":{" PATH
                  ",\"recursive\":{\"type\":\"boolean\",\"description\":\"Delete a directory with all that is in it. "
                  "Default: false.\"}},"
                  "\"required\":[\"path\"],\"additionalProperties\":false}",
        .run = delete_file,
};
