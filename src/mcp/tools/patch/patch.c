#include "mcp/tools/patch/patch.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "mcp/tools/patch/hunk.h"

/* The next line, with its line end; an empty string at the end. */
struct str hunk_next_line(struct str *rest)
{
        const char *end = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
        size_t n = end ? (size_t)(end - rest->p) + 1 : rest->n;
        struct str line = {rest->p, n};

        *rest = (struct str){rest->p + n, rest->n - n};
        return line;
}

struct str hunk_without_end(struct str line)
{
        if (line.n && line.p[line.n - 1] == '\n')
                line.n--;
        if (line.n && line.p[line.n - 1] == '\r')
                line.n--;
        return line;
}

/* "@@ -10,2 +12,3 @@": a number with an optional length. */
static int take_range(struct str *s, char sign, uint32_t *ret_line, uint32_t *ret_count)
{
        struct str word, first;

        (void)str_cut(s, ' ', &word);
        if (word.n < 2 || word.p[0] != sign)
                return -EINVAL;
        word = (struct str){word.p + 1, word.n - 1};
        *ret_count = 1;
        if (!str_cut(&word, ',', &first))
                return parse_u32(first, 0, INT32_MAX, ret_line);
        return parse_u32(first, 0, INT32_MAX, ret_line) < 0 ? -EINVAL : parse_u32(word, 0, INT32_MAX, ret_count);
}

static int hunk_begin(struct str line, struct hunk *ret)
{
        uint32_t new_line;

        line = hunk_without_end(line);
        if (!str_starts(line, "@@ "))
                return -EINVAL;
        line = (struct str){line.p + 3, line.n - 3};
        if (take_range(&line, '-', &ret->line, &ret->old_count) < 0 ||
            take_range(&line, '+', &new_line, &ret->new_count) < 0)
                return -EINVAL;
        return str_starts(line, "@@") ? 0 : -EINVAL;
}

/* The body of a hunk is as long as its head says. */
int hunk_take(struct str *rest, struct hunk *ret)
{
        struct str line = hunk_next_line(rest);
        uint32_t old = 0, new = 0;
        int r = hunk_begin(line, ret);

        if (r < 0)
                return r;
        ret->body = (struct str){rest->p, 0};
        while (old < ret->old_count || new < ret->new_count || (rest->n && rest->p[0] == '\\')) {
                char kind = rest->n ? rest->p[0] : '\0';

                if (kind == '\n' || kind == '\r') /* an empty line of context whose blank was lost */
                        kind = ' ';
                if (!kind || !strchr(" -+\\", kind))
                        return -EINVAL;
                old += kind == ' ' || kind == '-';
                new += kind == ' ' || kind == '+';
                line = hunk_next_line(rest);
                ret->body.n += line.n;
        }
        return old == ret->old_count && new == ret->new_count ? 0 : -EINVAL;
}

/* ---- applying ---- */

static bool is_no_newline(struct str line)
{
        return line.n && line.p[0] == '\\';
}

/* The text of a line of a hunk; the line end is cut where "\ No newline at end of file" follows. */
static struct str content_of(struct str line, struct str rest)
{
        bool is_bare = line.n && (line.p[0] == '\n' || line.p[0] == '\r');
        struct str text = is_bare ? line : (struct str){line.p + 1, line.n - 1};

        if (is_no_newline(rest) && text.n && text.p[text.n - 1] == '\n')
                text.n--;
        return text;
}

static bool has_kind(struct str line, const char *kinds)
{
        char kind = line.p[0] == '\n' || line.p[0] == '\r' ? ' ' : line.p[0];

        return strchr(kinds, kind) != NULL;
}

/* Do the old lines of the hunk stand at the beginning of text?  The bytes they take, or -1.  *work counts compared lines. */
static ssize_t hunk_fits(const struct hunk *h, struct str text, size_t *work)
{
        struct str rest = h->body, all = text;

        while (rest.n) {
                struct str line = hunk_next_line(&rest), want;

                (*work)++;
                if (is_no_newline(line) || !has_kind(line, " -"))
                        continue;
                want = content_of(line, rest);
                if (all.n < want.n || memcmp(all.p, want.p, want.n) != 0)
                        return -1;
                if (want.n && want.p[want.n - 1] != '\n' && all.n > want.n) /* the last line, and the file goes on */
                        return -1;
                all = (struct str){all.p + want.n, all.n - want.n};
        }
        return (ssize_t)(text.n - all.n);
}

/* The place of the hunk in text: at `line` (from 1), else the nearest one behind or before it.  -1: nowhere, or the search takes too
 * long. */
static ssize_t hunk_find(const struct hunk *h, struct str text, size_t line, size_t *ret_line, size_t *work)
{
        size_t at = 0, number = 1, best_line = 0, far;
        ssize_t best = -1;

        while (*work <= PATCH_WORK_MAX) {
                bool is_nearer = best < 0 || (number > line ? number - line : line - number) <
                                                     (best_line > line ? best_line - line : line - best_line);

                if (is_nearer && hunk_fits(h, (struct str){text.p + at, text.n - at}, work) >= 0) {
                        best = (ssize_t)at;
                        best_line = number;
                }
                far = best_line > line ? best_line - line : line - best_line;
                if (at >= text.n || (best >= 0 && number > line && number - line > far))
                        break; /* what follows is farther away */
                struct str rest = {text.p + at, text.n - at};

                at += hunk_next_line(&rest).n;
                number++;
        }
        *ret_line = best_line;
        return best;
}

static int add_new_lines(const struct hunk *h, struct buf *out)
{
        struct str rest = h->body;
        int r = 0;

        while (rest.n && r == 0) {
                struct str line = hunk_next_line(&rest), text;

                if (is_no_newline(line) || !has_kind(line, " +"))
                        continue;
                text = content_of(line, rest);
                r = buf_add(out, text.p, text.n);
        }
        return r;
}

int patch_apply(const struct patch_file *f, struct str old, struct buf *out, struct err *err)
{
        struct str hunks = f->hunks;
        size_t work = 0, done = 1; /* the number of the first line of `old` */
        struct hunk h;
        int r = 0;

        for (unsigned number = 1; hunks.n && r == 0; number++) {
                struct str line = hunks;
                size_t found_line;
                ssize_t at, taken;

                if (!str_starts(hunk_next_line(&line), "@@ ")) { /* text between hunks */
                        hunks = line;
                        number--;
                        continue;
                }
                if (hunk_take(&hunks, &h) < 0)
                        return err_set(err, ERR_INVALID, "hunk %u is malformed", number);
                if (h.old_count == 0) /* the line it stands behind */
                        h.line++;
                at = hunk_find(&h, old, h.line > done ? h.line - done + 1 : 1, &found_line, &work);
                if (work > PATCH_WORK_MAX)
                        return err_set(err, ERR_LIMIT,
                                       "hunk %u fits nowhere near line %u, and the file is too long to look everywhere",
                                       number, h.line);
                if (at < 0)
                        return err_set(err, ERR_CONFLICT,
                                       "hunk %u does not fit: its lines (line %u of the file) are not there", number,
                                       h.line);
                taken = hunk_fits(&h, (struct str){old.p + at, old.n - (size_t)at}, &work);
                r = buf_add(out, old.p, (size_t)at);
                if (r == 0)
                        r = add_new_lines(&h, out);
                done += found_line - 1 + h.old_count;
                old = (struct str){old.p + at + taken, old.n - (size_t)(at + taken)};
        }
        if (r == 0)
                r = buf_add(out, old.p, old.n);
        return r < 0 ? err_sys(err, r, "the new content") : 0;
}
