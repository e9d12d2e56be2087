/* search.c - the tools glob and grep, by ripgrep. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/tools/once.h"
#include "mcp/tools/path.h"
#include "mcp/tools/sandbox_tools.h"

#define OUTPUT_BYTES (30u << 10)
#define TIMEOUT_S 60
#define ARGS_MAX 24

/* ripgrep: 0 found, 1 found nothing, 2 something went wrong. */
static void on_found(struct call *c, const struct once_output *o)
{
        struct str out = o->out;

        if (o->is_timed_out) {
                tool_failed(c, "the search took longer than %d s: search in a smaller directory", TIMEOUT_S);
                return;
        }
        if (!o->is_cut && o->exit_code == 2 && out.n == 0) {
                tool_failed(c, "%.*s", STR_ARG(o->err));
                return;
        }
        if (out.n == 0) {
                tool_textf(c, NULL, "Nothing found.");
                return;
        }
        if (o->is_cut) { /* whole lines only */
                AUTO_BUF struct buf text = BUF_INIT(OUTPUT_BYTES + 128);
                const char *end = memrchr(out.p, '\n', out.n);

                (void)buf_add(&text, out.p, end ? (size_t)(end - out.p) + 1 : out.n);
                (void)buf_addc(&text, "[there is more: search for less]");
                tool_text(c, (struct str){(const char *)buf_at(&text), text.len}, NULL);
        } else {
                tool_text(c, out, NULL);
        }
}

static void search(struct call *c, json_t *args, const char **argv, size_t n)
{
        char path[PATH_MAX];
        struct once_options opt = {
                .argv = argv, .cwd = path, .output_max = OUTPUT_BYTES, .timeout_s = TIMEOUT_S, .on_done = on_found};
        struct err err = {0};
        struct stat st;

        if (path_of(c->mcp, arg_text(args, "path", "."), path, &err) < 0) {
                tool_failed(c, "%s", err.msg);
                return;
        }
        if (stat(path, &st) < 0) {
                tool_failed(c, "%s does not exist", path);
                return;
        }
        if (!S_ISDIR(st.st_mode)) { /* one file */
                argv[n++] = path;
                opt.cwd = "/";
        } else {
                argv[n++] = ".";
        }
        argv[n] = NULL;
        once_run(c, &opt);
}

static void glob_files(struct call *c, json_t *args)
{
        const char *argv[ARGS_MAX] = {"rg",
                                      "--files",
                                      "--no-config",
                                      "--no-messages",
                                      "--hidden",
                                      "--sort",
                                      "path",
                                      "--glob",
                                      arg_text(args, "pattern", ""),
                                      "--glob",
                                      "!.git"};
        size_t n = 11;

        if (arg_flag(args, "include_ignored"))
                argv[n++] = "--no-ignore";
        argv[n++] = "--";
        search(c, args, argv, n);
}

static void grep_files(struct call *c, json_t *args)
{
        const char *argv[ARGS_MAX] = {"rg",
                                      "--no-config",
                                      "--no-messages",
                                      "--hidden",
                                      "--glob",
                                      "!.git",
                                      "--line-number",
                                      "--no-heading",
                                      "--color",
                                      "never",
                                      "--max-columns",
                                      "400",
                                      "--max-columns-preview",
                                      "--sort",
                                      "path"};
        size_t n = 15;
        char context[16];

        if (arg_flag(args, "include_ignored"))
                argv[n++] = "--no-ignore";
        if (arg_flag(args, "ignore_case"))
                argv[n++] = "--ignore-case";
        if (arg_flag(args, "literal"))
                argv[n++] = "--fixed-strings";
        if (arg_flag(args, "files_only"))
                argv[n++] = "--files-with-matches";
        if (json_object_get(args, "context")) {
                (void)snprintf(context, sizeof(context), "-C%d", (int)arg_number(args, "context", 0));
                argv[n++] = context;
        }
        if (json_object_get(args, "glob")) {
                argv[n++] = "--glob";
                argv[n++] = arg_text(args, "glob", "");
        }
        argv[n++] = "-e";
        argv[n++] = arg_text(args, "pattern", "");
        argv[n++] = "--";
        search(c, args, argv, n);
}

#define WHERE                                                                                                          \
        "\"path\":{\"type\":\"string\",\"minLength\":1,\"description\":\"The directory to search in. Default: the "    \
        "workspace.\"},"                                                                                               \
        "\"include_ignored\":{\"type\":\"boolean\",\"description\":\"Also files that .gitignore names. Default: "      \
        "false.\"}"

const struct tool tool_glob = {
        .name = "glob",
        .title = "Find files by name",
        .description = "List the files whose paths match a pattern, for example **/*.py.",
        .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
        .schema = "{\"type\":\"object\",\"properties\":{\"pattern\":{\"type\":\"string\",\"minLength\":1}," WHERE
                  "},\"required\":[\"pattern\"],\"additionalProperties\":false}",
        .run = glob_files,
};
const struct tool tool_grep = {
        .name = "grep",
        .title = "Search in files",
        .description = "Search for a regular expression in files, with ripgrep. Returns path, line number and line.",
        .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
        .schema = "{\"type\":\"object\",\"properties\":{\"pattern\":{\"type\":\"string\",\"minLength\":1}," WHERE
                  ",\"glob\":{\"type\":\"string\",\"minLength\":1,\"description\":\"Only files whose "
                  "names match, for example "
                  "*.c.\"},\"ignore_case\":{\"type\":\"boolean\"},\"literal\":{\"type\":\"boolean\",\"description\":"
                  "\"The pattern is a text, not an expression.\"},"
                  "\"files_only\":{\"type\":\"boolean\",\"description\":\"Only the names of the "
                  "files.\"},\"context\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":20,\"description\":\"Lines "
                  "before "
                  "and after.\"}},\"required\":[\"pattern\"],\"additionalProperties\":false}",
        .run = grep_files,
};
