/* search.c - the tools glob and grep, by ripgrep.
 *
 * ripgrep reads the directories and knows what .gitignore names.  Which paths a pattern stands for is decided here (glob.h): for
 * ripgrep, a pattern of the command line is stronger than any .gitignore. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/shorten.h"
#include "mcp/tools/once.h"
#include "mcp/tools/path.h"
#include "mcp/tools/program.h"
#include "mcp/tools/sandbox_tools.h"
#include "mcp/tools/search/glob.h"

#define OUTPUT_BYTES (30u << 10)
#define LINE_BYTES_MAX (64u << 10)
#define COUNTED_MAX 100000u /* beyond the output: more are not waited for */
#define TIMEOUT_S 60
#define ARGS_MAX 32

struct search {
        struct glob glob;
        bool has_glob;
        bool has_paths; /* the output is paths that end with NUL; otherwise lines */
        bool is_file;   /* one file is searched: lines have no path */
        bool is_apart;  /* "--" came: the next line does not follow the one before */
        bool is_full;
        uint64_t left_out;
        struct buf out, line;
};

static bool has_ripgrep(const struct mcp *m)
{
        (void)m;
        return program_is_installed("rg");
}

/* ---- what ripgrep prints ---- */

static void add(struct search *s, struct str path, char after_path, struct str rest)
{
        bool is_apart = s->is_apart && s->out.len;

        s->is_apart = false;
        if (s->is_full || path.n + rest.n + 8 > buf_room(&s->out)) {
                s->is_full = true;
                s->left_out++;
                return;
        }
        if (is_apart)
                (void)buf_addc(&s->out, "--\n");
        (void)buf_add(&s->out, path.p, path.n);
        if (after_path)
                (void)buf_add(&s->out, &after_path, 1);
        (void)buf_add(&s->out, rest.p, rest.n);
        (void)buf_addc(&s->out, "\n");
}

/* "path", "12:text", or "path", NUL, "12:text" with "-" behind the number of a line of context. */
static void take_line(struct search *s)
{
        struct str rest = {s->line.len ? (const char *)buf_at(&s->line) : "", s->line.len}, path = {"", 0};
        size_t digits = 0;

        if (s->has_paths) {
                if (rest.n && (!s->has_glob || glob_matches(&s->glob, rest)))
                        add(s, rest, '\0', path);
        } else if (str_is(rest, "--")) {
                s->is_apart = true;
        } else if (s->is_file) {
                add(s, path, '\0', rest);
        } else if (str_cut(&rest, '\0', &path) && (!s->has_glob || glob_matches(&s->glob, path))) {
                while (digits < rest.n && rest.p[digits] >= '0' && rest.p[digits] <= '9')
                        digits++;
                add(s, path, digits < rest.n ? rest.p[digits] : ':', rest);
        }
        buf_reset(&s->line);
}

static bool take_piece(void *arg, struct str piece)
{
        struct search *s = arg;

        while (piece.n) {
                const char *end = memchr(piece.p, s->has_paths ? '\0' : '\n', piece.n);
                size_t n = end ? (size_t)(end - piece.p) : piece.n;
                size_t room = buf_room(&s->line);

                (void)buf_add(&s->line, piece.p, n < room ? n : room); /* ripgrep shortens lines itself */
                if (end)
                        take_line(s);
                n += end != NULL;
                piece = (struct str){piece.p + n, piece.n - n};
        }
        return s->left_out <= COUNTED_MAX;
}

static void search_free(void *arg)
{
        struct search *s = arg;

        glob_done(&s->glob);
        buf_done(&s->out);
        buf_done(&s->line);
        free(s);
}

/* What ripgrep said about files and directories that it could not read: one line each, as "rg: ./file: Permission denied (os error 13)" or
 * "./dir: IO error for operation on ./dir: Permission denied (os error 13)"; some versions say "rg: " and some do not. */
struct unread {
        size_t count;
        struct str path, why; /* of the first */
        bool has_more;        /* not all of the words are there */
        bool has_other;       /* words that are not about a file: the pattern is wrong, for example */
};

static void note_first(struct unread *u, struct str line)
{
        static const char again[] = ": IO error for operation on ";
        const char *end = line.p + line.n, *why = end, *twice = memmem(line.p, line.n, again, sizeof(again) - 1);

        while (why > line.p && !(why[-1] == ' ' && why - 1 > line.p && why[-2] == ':'))
                why--;
        if (why == line.p)
                why = end;
        u->path = (struct str){line.p, (size_t)((twice ? twice : why == end ? end : why - 2) - line.p)};
        u->why = (struct str){why, (size_t)(end - why)};
}

static struct unread unread_of(struct str words)
{
        struct unread u = {.has_more = words.n && words.p[words.n - 1] != '\n'};
        struct str line;

        while (str_cut(&words, '\n', &line)) {
                const char *tail = memmem(line.p, line.n, " (os error ", 11);

                if (!tail) {
                        u.has_other = u.has_other || line.n;
                        continue;
                }
                if (str_starts(line, "rg: "))
                        line = (struct str){line.p + 4, line.n - 4};
                if (u.count++ == 0)
                        note_first(&u, (struct str){line.p, (size_t)(tail - line.p)});
        }
        return u;
}

static void note_unread(struct buf *text, const struct unread *u)
{
        bool is_one = u->count == 1 && !u->has_more;

        if (u->count)
                (void)buf_addf(text, "[%s%zu %s not be read%s %.*s: %.*s]\n", u->has_more ? "more than " : "", u->count,
                               is_one ? "path could" : "paths could", is_one ? ":" : ", for example", STR_ARG(u->path),
                               STR_ARG(u->why));
}

static void on_found(struct call *c, const struct once_output *o)
{
        AUTO_BUF struct buf text = BUF_INIT(2 * OUTPUT_BYTES);
        struct search *s = o->arg;
        const char *what = s->has_paths ? "paths" : "lines";
        bool is_stopped = o->is_cut || o->is_timed_out;
        struct unread unread = unread_of(o->err);

        if (s->out.len == 0 && o->is_timed_out)
                tool_failed(c, "the search took longer than %d s: search in a smaller directory", TIMEOUT_S);
        else if (s->out.len == 0 && !is_stopped && o->exit_code > 2)
                tool_failed(c, "ripgrep ended with exit code %d: %.*s", o->exit_code, STR_ARG(o->err));
        else if (s->out.len == 0 && !is_stopped && o->exit_code == 2 && (unread.has_other || (s->is_file && o->err.n)))
                tool_failed(c, "%.*s", STR_ARG(o->err)); /* 0: found, 1: found nothing, 2: something went wrong */
        else {
                if (s->out.len == 0 && !s->left_out)
                        (void)buf_addc(&text, unread.count ? "Nothing found.\n" : "Nothing found.");
                else
                        (void)buf_add(&text, buf_at(&s->out), s->out.len);
                if (s->left_out > COUNTED_MAX)
                        (void)buf_addf(&text, "[more than %u %s left out: search for less]\n", COUNTED_MAX, what);
                else if (s->left_out)
                        (void)buf_addf(&text, "[%" PRIu64 " more %s left out: search for less]\n", s->left_out, what);
                if (o->is_timed_out)
                        (void)buf_addf(&text, "[stopped after %d s: there may be more]\n", TIMEOUT_S);
                note_unread(&text, &unread);
                tool_text(c, (struct str){(const char *)buf_at(&text), text.len}, NULL);
        }
}

/* ---- asking ripgrep ---- */

/* Takes s. */
static void search(struct call *c, json_t *args, struct search *s, const char **argv, size_t n)
{
        char path[PATH_MAX];
        struct once_options opt = {.argv = argv,
                                   .cwd = path,
                                   .timeout_s = TIMEOUT_S,
                                   .take = take_piece,
                                   .arg = s,
                                   .release = search_free,
                                   .on_done = on_found};
        struct err err = {0};
        struct stat st;
        int r = path_of(c->mcp, arg_text(args, "path", "."), path, &err);

        if (r == 0 && stat(path, &st) < 0)
                r = err_set(&err, ERR_NOT_FOUND, "%s does not exist", path);
        if (r < 0) {
                search_free(s);
                tool_failed(c, "%s", err.msg);
                return;
        }
        s->is_file = !S_ISDIR(st.st_mode);
        argv[n++] = "--";
        argv[n++] = s->is_file ? path : ".";
        argv[n] = NULL;
        if (s->is_file)
                opt.cwd = "/";
        once_run(c, &opt);
}

/* NULL: the call is answered. */
static struct search *search_create(struct call *c, const char *glob, bool has_paths)
{
        struct search *s = calloc(1, sizeof(*s));
        struct err err = {0};

        if (!s) {
                tool_failed(c, "out of memory");
                return NULL;
        }
        buf_init(&s->out, OUTPUT_BYTES);
        buf_init(&s->line, LINE_BYTES_MAX);
        s->has_glob = glob != NULL;
        s->has_paths = has_paths;
        if (glob && glob_init(&s->glob, glob, &err) < 0) {
                search_free(s);
                tool_failed(c, "%s", err.msg);
                return NULL;
        }
        return s;
}

#define RIPGREP                                                                                                        \
        "rg", "--no-config", "--no-ignore-messages", "--hidden", "--no-require-git", "--glob", "!.git", "--sort",      \
                "path", "--null"
#define RIPGREP_ARGS 10

static void glob_files(struct call *c, json_t *args)
{
        const char *argv[ARGS_MAX] = {RIPGREP, "--files"};
        struct search *s = search_create(c, arg_text(args, "pattern", ""), true);
        size_t n = RIPGREP_ARGS + 1;

        if (arg_flag(args, "include_ignored"))
                argv[n++] = "--no-ignore";
        if (s)
                search(c, args, s, argv, n);
}

/* A pattern for names that ripgrep understands as we do, so that it need not read the other files.  A type of files does not overrule
 * .gitignore. */
static bool is_plain_name(const char *glob)
{
        return glob[strspn(glob, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.*-")] == '\0' &&
               !strstr(glob, "**");
}

static void grep_files(struct call *c, json_t *args)
{
        const char *argv[ARGS_MAX] = {
                RIPGREP,         "--line-number", "--no-heading",          "--color", "never",
                "--max-columns", "400",           "--max-columns-preview", "-e",      arg_text(args, "pattern", "")};
        const char *glob = arg_text(args, "glob", NULL);
        size_t n = RIPGREP_ARGS + 9;
        char context[16], type[64];
        struct search *s = search_create(c, glob, arg_flag(args, "files_only"));

        if (!s)
                return;
        if (arg_flag(args, "include_ignored"))
                argv[n++] = "--no-ignore";
        if (arg_flag(args, "ignore_case"))
                argv[n++] = "--ignore-case";
        if (arg_flag(args, "literal"))
                argv[n++] = "--fixed-strings";
        if (s->has_paths)
                argv[n++] = "--files-with-matches";
        if (json_object_get(args, "context")) {
                (void)snprintf(context, sizeof(context), "-C%d", (int)arg_number(args, "context", 0));
                argv[n++] = context;
        }
        if (glob && is_plain_name(glob) &&
            snprintf(type, sizeof(type), "--type-add=wanted:%s", glob) < (int)sizeof(type)) {
                argv[n++] = type;
                argv[n++] = "--type=wanted";
        }
        search(c, args, s, argv, n);
}

#define WHERE                                                                                                          \
        "\"path\":{\"type\":\"string\",\"minLength\":1,\"description\":\"The directory to search in. Default: the "    \
        "workspace.\"},"                                                                                               \
        "\"include_ignored\":{\"type\":\"boolean\",\"description\":\"Also files that .gitignore names. Default: "      \
        "false.\"}"

const struct tool tool_glob = {
        .name = "glob",
        .title = "Find files by name",
        .description = "List the files whose paths match a pattern, for example **/*.py: * stays in one directory, ** "
                       "does not. A "
                       "pattern without / is for names in any directory.",
        .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
        .schema = "{\"type\":\"object\",\"properties\":{\"pattern\":{\"type\":\"string\",\"minLength\":1}," WHERE
                  "},\"required\":[\"pattern\"],\"additionalProperties\":false}",
        .is_there = has_ripgrep,
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
        .is_there = has_ripgrep,
        .run = grep_files,
};
