/* files_write.c - the tools write_file, edit_file, move and delete. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/content/edits.h"
#include "mcp/protocol/mcp.h"
#include "mcp/tools/once.h"
#include "mcp/tools/path.h"
#include "mcp/tools/sandbox_tools.h"

#define PROGRAM_TIMEOUT_S 600

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

/* `/`, the workspace, or a directory that the workspace is in.  `dir` is a whole path without links. */
static bool is_too_much(const struct mcp *m, const char *dir)
{
        char workspace[PATH_MAX];
        size_t n = strlen(dir);

        if (n <= 1)
                return true;
        return realpath(m->opt.workspace, workspace) && strncmp(workspace, dir, n) == 0 &&
               (workspace[n] == '\0' || workspace[n] == '/');
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
        else if (S_ISDIR(st.st_mode) && realpath(path, real) && is_too_much(c->mcp, real))
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
