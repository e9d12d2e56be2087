/* parse.c - the sections of a patch: which files, and what happens to them besides their hunks. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "mcp/tools/patch/hunk.h"
#include "mcp/tools/patch/patch.h"

struct parser {
        struct patch *patch;
        struct patch_file *f; /* the section under way; NULL: none */
        bool in_head;         /* of a section of git: between "diff --git" and the names or hunks */
        bool has_names;       /* hunks may follow */
};

static struct str rest_of(struct str line, size_t n)
{
        return (struct str){line.p + n, line.n - n};
}

/* ---- names ---- */

static char escaped(char c)
{
        static const char from[] = "abtnvfr\"\\", to[] = "\a\b\t\n\v\f\r\"\\";
        const char *at = c ? strchr(from, c) : NULL;

        return at ? to[at - from] : '\0';
}

/* A byte of a quoted name: "\303", "\t" or the byte itself.  0: malformed, or a NUL. */
static char take_byte(struct str *s)
{
        unsigned value = 0;
        char c = s->p[0];

        *s = rest_of(*s, 1);
        if (c != '\\')
                return c;
        if (s->n == 0)
                return '\0';
        if (s->p[0] < '0' || s->p[0] > '3') {
                c = escaped(s->p[0]);
                *s = rest_of(*s, 1);
                return c;
        }
        for (int i = 0; i < 3; i++) {
                if (s->n == 0 || s->p[0] < '0' || s->p[0] > '7')
                        return '\0';
                value = value * 8 + (unsigned)(s->p[0] - '0');
                *s = rest_of(*s, 1);
        }
        return (char)value;
}

/* git quotes names with bytes that are no plain ASCII. */
static int unquote(struct patch *p, struct str quoted, struct str *ret)
{
        char *begin = p->names + p->names_used;

        quoted = rest_of(quoted, 1);
        while (quoted.n && quoted.p[0] != '"') {
                char c = take_byte(&quoted);

                if (!c || p->names_used == sizeof(p->names))
                        return -EINVAL;
                p->names[p->names_used++] = c;
        }
        *ret = (struct str){begin, (size_t)(p->names + p->names_used - begin)};
        return quoted.n == 1 || (quoted.n > 1 && quoted.p[1] == '\t') ? 0 : -EINVAL;
}

/* "a/src/x.c\t2026-01-01" -> "src/x.c"; /dev/null -> "".  prefix NULL: the name has none. */
static int name_of(struct patch *p, struct str text, const char *prefix, struct str *ret)
{
        struct str name;

        if (str_starts(text, "\"")) {
                if (unquote(p, text, &name) < 0)
                        return -EINVAL;
        } else {
                (void)str_cut(&text, '\t', &name);
        }
        if (prefix && str_is(name, "/dev/null"))
                name = (struct str){"", 0};
        *ret = prefix && str_starts(name, prefix) ? rest_of(name, 2) : name;
        return 0;
}

/* "a/x b/x": the same name twice, which may have blanks.  Where the two differ, other lines have them. */
static int name_of_git(struct patch *p, struct str text, struct str *ret)
{
        size_t half = text.n / 2;
        struct str a = {text.p, half}, b = {text.p + half + 1, text.n - half - (text.n > half)}, to;

        *ret = (struct str){"", 0};
        if (text.n % 2 == 0 || text.p[half] != ' ')
                return 0;
        if (name_of(p, a, "a/", ret) < 0 || name_of(p, b, "b/", &to) < 0)
                return -EINVAL;
        if (!str_eq(*ret, to))
                *ret = (struct str){"", 0};
        return 0;
}

/* ---- sections ---- */

static int malformed_name(struct str line, struct err *err)
{
        return err_set(err, ERR_INVALID, "the name in \"%.*s\" is malformed", STR_ARG(line));
}

static int section_end(const struct parser *ps, struct err *err)
{
        const struct patch_file *f = ps->f;
        bool is_same = f && f->to.n && str_eq(f->from, f->to);

        if (!f)
                return 0;
        if (f->from.n == 0 && f->to.n == 0)
                return err_set(err, ERR_INVALID, "the patch has a file without a name");
        if (is_same && f->hunks.n == 0 && f->mode == PATCH_MODE_KEPT)
                return err_set(err, ERR_INVALID, "the patch has no hunk for %.*s", STR_ARG(f->to));
        return 0;
}

static int section_begin(struct parser *ps, struct err *err)
{
        struct patch *p = ps->patch;
        int r = section_end(ps, err);

        if (r < 0)
                return r;
        if (p->count == PATCH_FILES_MAX)
                return err_set(err, ERR_INVALID, "the patch has more than %u files", PATCH_FILES_MAX);
        ps->f = &p->files[p->count++];
        *ps->f = (struct patch_file){.from = {"", 0}, .to = {"", 0}, .hunks = {"", 0}};
        ps->in_head = ps->has_names = false;
        return 0;
}

static int git_begin(struct parser *ps, struct str line, struct err *err)
{
        int r = section_begin(ps, err);

        if (r < 0)
                return r;
        ps->in_head = true;
        if (name_of_git(ps->patch, rest_of(line, strlen("diff --git ")), &ps->f->from) < 0)
                return malformed_name(line, err);
        ps->f->to = ps->f->from;
        return 0;
}

/* The lines --- and +++. */
static int take_names(struct parser *ps, struct str from, struct str to, struct err *err)
{
        int r = ps->in_head ? 0 : section_begin(ps, err);

        if (r < 0)
                return r;
        ps->in_head = false;
        ps->has_names = true;
        if (name_of(ps->patch, rest_of(from, 4), "a/", &ps->f->from) < 0)
                return malformed_name(from, err);
        return name_of(ps->patch, rest_of(to, 4), "b/", &ps->f->to) < 0 ? malformed_name(to, err) : 0;
}

static int take_mode(struct str mode, struct patch_file *f, bool is_new, struct err *err)
{
        if (str_starts(mode, "12"))
                return err_set(err, ERR_INVALID, "the patch changes a symbolic link: do that with run_command");
        if (str_starts(mode, "16"))
                return err_set(err, ERR_INVALID, "the patch changes a submodule: do that with run_command");
        if (mode.n != 6 || !str_starts(mode, "100"))
                return err_set(err, ERR_INVALID, "the patch has the unknown mode %.*s", STR_ARG(mode));
        if (is_new)
                f->mode = strchr("1357", mode.p[3]) ? PATCH_MODE_PROGRAM : PATCH_MODE_PLAIN;
        return 0;
}

/* A line of the head of a section of git. */
static int take_git_line(struct parser *ps, struct str line, struct err *err)
{
        static const struct {
                const char *begin;
                enum { OLD_MODE, NEW_MODE, CREATED, DELETED, FROM, TO, COPY_FROM } what;
        } lines[] = {{"old mode ", OLD_MODE},         {"new mode ", NEW_MODE}, {"new file mode ", CREATED},
                     {"deleted file mode ", DELETED}, {"rename from ", FROM},  {"rename to ", TO},
                     {"copy from ", COPY_FROM},       {"copy to ", TO}};
        struct patch_file *f = ps->f;
        struct str word;

        if (str_starts(line, "index ") && (str_cut(&line, ' ', &word), str_cut(&line, ' ', &word)))
                return take_mode(line, f, false, err);
        for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
                struct str value;

                if (!str_starts(line, lines[i].begin))
                        continue;
                value = rest_of(line, strlen(lines[i].begin));
                switch (lines[i].what) {
                case OLD_MODE: return take_mode(value, f, false, err);
                case NEW_MODE: return take_mode(value, f, true, err);
                case CREATED: f->from = (struct str){"", 0}; return take_mode(value, f, true, err);
                case DELETED: f->to = (struct str){"", 0}; return take_mode(value, f, false, err);
                case COPY_FROM: f->is_copy = true; /* fallthrough */
                case FROM: return name_of(ps->patch, value, NULL, &f->from) < 0 ? malformed_name(line, err) : 0;
                case TO: return name_of(ps->patch, value, NULL, &f->to) < 0 ? malformed_name(line, err) : 0;
                }
        }
        return 0;
}

static bool is_binary(struct str line)
{
        return str_is(line, "GIT binary patch") || (str_starts(line, "Binary files ") && str_ends(line, " differ"));
}

/* `before` begins with the line @@; *rest becomes what follows the hunk. */
static int take_hunk(struct parser *ps, struct str before, struct str *rest, struct err *err)
{
        struct str all = before, line = before;
        struct hunk h;

        if (!ps->has_names)
                return err_set(err, ERR_INVALID, "the patch has a hunk before the lines --- and +++");
        if (hunk_take(&all, &h) < 0)
                return err_set(err, ERR_INVALID, "the hunk \"%.*s\" is malformed, or shorter than its head says",
                               STR_ARG(hunk_without_end(hunk_next_line(&line))));
        if (ps->f->hunks.n == 0)
                ps->f->hunks.p = before.p;
        *rest = all;
        ps->f->hunks.n = (size_t)(rest->p - ps->f->hunks.p);
        return 0;
}

int patch_parse(struct str text, struct patch *ret, struct err *err)
{
        struct parser ps = {.patch = ret};
        struct str rest = text;
        int r = 0;

        ret->count = ret->names_used = 0;
        while (rest.n && r == 0) {
                struct str before = rest, line = hunk_without_end(hunk_next_line(&rest));

                if (str_starts(line, "--- ") && str_starts(rest, "+++ "))
                        r = take_names(&ps, line, hunk_without_end(hunk_next_line(&rest)), err);
                else if (str_starts(line, "diff --git "))
                        r = git_begin(&ps, line, err);
                else if (str_starts(line, "@@ "))
                        r = take_hunk(&ps, before, &rest, err);
                else if (is_binary(line))
                        r = err_set(err, ERR_INVALID,
                                    "the patch has a binary file, which cannot be applied: \"%.*s\". Leave it out, and "
                                    "bring that file in another way",
                                    STR_ARG(line));
                else if (ps.in_head)
                        r = take_git_line(&ps, line, err);
        }
        if (r == 0)
                r = section_end(&ps, err);
        if (r < 0)
                return r;
        return ret->count ? 0 : err_set(err, ERR_INVALID, "the patch has no file: it needs lines with --- and +++");
}
