#include "dockerfile/instructions.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"

struct reader {
        struct str rest;
        unsigned line; /* number of the line that was read last */
        struct instructions *to;
        struct problems *problems;
};

static struct str trim_left(struct str s)
{
        while (s.n && char_is_blank(s.p[0])) {
                s.p++;
                s.n--;
        }
        return s;
}

static struct str trim(struct str s)
{
        s = trim_left(s);
        while (s.n && char_is_blank(s.p[s.n - 1]))
                s.n--;
        return s;
}

/* The next line without its end; false: there is none. */
static bool next_line(struct reader *r, struct str *ret)
{
        if (r->rest.n == 0)
                return false;
        (void)str_cut(&r->rest, '\n', ret);
        if (ret->n && ret->p[ret->n - 1] == '\r')
                ret->n--;
        r->line++;
        return true;
}

/* ---- directives: "# name=value" before everything else ---- */

static bool directive_parse(struct str line, struct str *name, struct str *value)
{
        line = trim(line);
        if (!str_starts(line, "#"))
                return false;
        line = trim_left((struct str){line.p + 1, line.n - 1});
        if (!str_cut(&line, '=', name))
                return false;
        *name = trim(*name);
        *value = trim(line);
        return value->n > 0 && (str_iis(*name, "escape") || str_iis(*name, "syntax") || str_iis(*name, "check"));
}

static void read_directives(struct reader *r)
{
        struct reader at = *r; /* a line that is no directive is read again */
        struct str line, name, value;
        bool has_escape = false;

        while (next_line(&at, &line) && directive_parse(line, &name, &value)) {
                *r = at;
                if (!str_iis(name, "escape"))
                        continue;
                if (has_escape)
                        problems_error(r->problems, r->line, "a second directive escape");
                else if (value.n == 1 && (value.p[0] == '\\' || value.p[0] == '`'))
                        r->to->escape = value.p[0];
                else
                        problems_error(r->problems, r->line, "directive escape must be \\ or `");
                has_escape = true;
        }
}

/* ---- flags ---- */

/* One flag without its dashes, quotes and escapes; text becomes what follows it. */
static int take_flag(struct reader *r, struct str *text, struct words *flags)
{
        AUTO_BUF struct buf flag = BUF_INIT(DOCKERFILE_MAX);
        char quote = 0;
        size_t i = 2;
        int e = 0;

        for (; e == 0 && i < text->n && (quote || !char_is_blank(text->p[i])); i++) {
                char c = text->p[i];

                if (quote ? c == quote : c == '"' || c == '\'') {
                        quote = quote ? 0 : c;
                        continue;
                }
                if (c == r->to->escape && quote != '\'' && i + 1 < text->n)
                        c = text->p[++i];
                e = buf_add(&flag, &c, 1);
        }
        *text = trim_left((struct str){text->p + i, text->n - i});
        if (e == 0)
                e = words_add(flags, (struct str){(const char *)buf_at(&flag), flag.len});
        return e;
}

static int take_flags(struct reader *r, struct str *text, struct words *flags)
{
        int e = 0;

        while (e == 0 && str_starts(*text, "--")) {
                if (text->n == 2 || char_is_blank(text->p[2])) { /* "--" ends them */
                        *text = trim_left((struct str){text->p + 2, text->n - 2});
                        break;
                }
                e = take_flag(r, text, flags);
        }
        return e;
}

const char *instruction_flag(const struct instruction *i, const char *name)
{
        size_t n = strlen(name);

        for (size_t k = 0; k < i->flags.count; k++) {
                const char *flag = i->flags.at[k];

                if (strncmp(flag, name, n) == 0 && (flag[n] == 0 || flag[n] == '='))
                        return flag[n] ? flag + n + 1 : "";
        }
        return NULL;
}

/* ---- here-documents ---- */

/* A word like 3<<-"NAME".  *ret_name is the caller's. */
static bool document_parse(const char *word, struct here_document *ret)
{
        struct str s = str_of(word);
        char *to;

        while (s.n && s.p[0] >= '0' && s.p[0] <= '9') {
                s.p++;
                s.n--;
        }
        if (!str_starts(s, "<<"))
                return false;
        s = (struct str){s.p + 2, s.n - 2};
        *ret = (struct here_document){.expands = true, .cuts_tabs = str_starts(s, "-")};
        if (ret->cuts_tabs)
                s = (struct str){s.p + 1, s.n - 1};
        if (s.n == 0 || memchr(s.p, '<', s.n) || memchr(s.p, '>', s.n))
                return false;
        ret->name = to = malloc(s.n + 1);
        if (!to)
                return false;
        for (size_t i = 0; i < s.n; i++) {
                if (memchr("\"'\\", s.p[i], 3))
                        ret->expands = false;
                else
                        *to++ = s.p[i];
        }
        *to = 0;
        if (ret->name[0])
                return true;
        free(ret->name);
        return false;
}

/* Lines up to the one that is the document's name. */
static int document_read(struct reader *r, struct here_document *d, unsigned begin)
{
        AUTO_BUF struct buf content = BUF_INIT(DOCKERFILE_MAX + 1);
        struct str line;
        int e = 0;

        while (e == 0 && next_line(r, &line)) {
                while (d->cuts_tabs && line.n && line.p[0] == '\t')
                        line = (struct str){line.p + 1, line.n - 1};
                if (str_is(line, d->name)) {
                        d->content = str_dup((struct str){(const char *)buf_at(&content), content.len});
                        return d->content ? 0 : -ENOMEM;
                }
                e = buf_add(&content, line.p, line.n);
                if (e == 0)
                        e = buf_addc(&content, "\n");
        }
        if (e < 0)
                return e;
        problems_error(r->problems, begin, "here-document '%s' has no end: no line is '%s'", d->name, d->name);
        d->content = strdup("");
        return d->content ? 0 : -ENOMEM;
}

static bool may_have_documents(const struct instruction *i)
{
        return strcmp(i->keyword, "RUN") == 0 || strcmp(i->keyword, "COPY") == 0 || strcmp(i->keyword, "ADD") == 0;
}

static int read_documents(struct reader *r, struct instruction *i)
{
        AUTO_WORDS struct words words = {0}, json = {0};
        int e = words_from_json(&json, str_of(i->text));

        if (e != 0) /* the exec form has none; what is wrong with it is found when it is understood */
                return e == -ENOMEM ? e : 0;
        e = words_split_quoted(&words, str_of(i->text), r->to->escape);
        for (size_t k = 0; e == 0 && k < words.count; k++) {
                struct here_document d, *more;

                if (!document_parse(words.at[k], &d))
                        continue;
                more = reallocarray(i->documents, i->document_count + 1, sizeof(*more));
                if (!more) {
                        free(d.name);
                        return -ENOMEM;
                }
                i->documents = more;
                more[i->document_count++] = d;
                e = document_read(r, &more[i->document_count - 1], i->line);
        }
        return e;
}

/* ---- instructions ---- */

static void instruction_done(struct instruction *i)
{
        for (size_t k = 0; k < i->document_count; k++) {
                free(i->documents[k].name);
                free(i->documents[k].content);
        }
        free(i->documents);
        free(i->keyword);
        free(i->text);
        words_done(&i->flags);
}

static int instruction_parse(struct reader *r, struct str text, struct instruction *i)
{
        size_t n = 0;
        int e;

        text = trim(text);
        while (n < text.n && !char_is_blank(text.p[n]))
                n++;
        i->keyword = str_dup((struct str){text.p, n});
        if (!i->keyword)
                return -ENOMEM;
        for (char *c = i->keyword; *c; c++)
                *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
        text = trim_left((struct str){text.p + n, text.n - n});
        e = take_flags(r, &text, &i->flags);
        if (e < 0)
                return e;
        i->text = str_dup(text);
        if (!i->text)
                return -ENOMEM;
        return may_have_documents(i) ? read_documents(r, i) : 0;
}

/* Does the line end with an escape that is not escaped itself?  *line is cut before it. */
static bool is_continued(const struct reader *r, struct str *line)
{
        size_t n = line->n;

        while (n && (line->p[n - 1] == ' ' || line->p[n - 1] == '\t'))
                n--;
        if (n == 0 || line->p[n - 1] != r->to->escape || (n > 1 && line->p[n - 2] == r->to->escape))
                return false;
        line->n = n - 1;
        return true;
}

/* All lines of the instruction that begins with `line`. */
static int join_lines(struct reader *r, struct str line, struct buf *out)
{
        bool goes_on = is_continued(r, &line);
        int e = buf_add(out, line.p, line.n);

        while (e == 0 && goes_on && next_line(r, &line)) {
                struct str text = trim_left(line);

                if (text.n == 0 || text.p[0] == '#') /* a comment, or nothing */
                        continue;
                goes_on = is_continued(r, &line);
                e = buf_add(out, line.p, line.n);
        }
        return e;
}

static int read_instruction(struct reader *r, struct str line)
{
        AUTO_BUF struct buf text = BUF_INIT(DOCKERFILE_MAX);
        struct instruction i = {.line = r->line}, *more;
        int e = join_lines(r, line, &text);

        if (e == 0 && text.len == 0) /* an escape alone */
                return 0;
        if (e == 0)
                e = instruction_parse(r, (struct str){(const char *)buf_at(&text), text.len}, &i);
        more = e == 0 ? reallocarray(r->to->at, r->to->count + 1, sizeof(*more)) : NULL;
        if (!more) {
                instruction_done(&i);
                return e < 0 ? e : -ENOMEM;
        }
        r->to->at = more;
        more[r->to->count++] = i;
        return 0;
}

static bool text_is_sound(struct str text, struct problems *problems)
{
        struct str rest = text, line;

        if (text.n > DOCKERFILE_MAX) {
                problems_error(problems, 0, "larger than 1 MiB");
                return false;
        }
        for (unsigned n = 1; rest.n; n++) {
                (void)str_cut(&rest, '\n', &line);
                if (str_has_nul(line) || !str_is_utf8(line)) {
                        problems_error(problems, n, "not UTF-8 text");
                        return false;
                }
        }
        return true;
}

void instructions_read(struct str text, struct instructions *ret, struct problems *problems)
{
        struct reader r = {.rest = text, .to = ret, .problems = problems};
        struct str line;
        int e = 0;

        *ret = (struct instructions){.escape = '\\'};
        if (str_starts(r.rest, "\xef\xbb\xbf")) /* a byte order mark */
                r.rest = (struct str){r.rest.p + 3, r.rest.n - 3};
        if (!text_is_sound(r.rest, problems))
                return;
        read_directives(&r);
        while (e == 0 && next_line(&r, &line)) {
                line = trim_left(line);
                if (line.n && line.p[0] != '#')
                        e = problems_take(problems, r.line, read_instruction(&r, line));
        }
}

void instructions_done(struct instructions *i)
{
        for (size_t k = 0; k < i->count; k++)
                instruction_done(&i->at[k]);
        free(i->at);
        *i = (struct instructions){0};
}
