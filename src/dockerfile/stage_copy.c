/* COPY and ADD. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dockerfile/stage.h"

struct copy { /* one instruction */
        struct converter *c;
        struct stage *s;
        const struct instruction *i;
        struct words words; /* variables replaced; the last is the destination */
        char *owner, *mode; /* owned: as steps have them */
        const char *from;   /* --from; NULL: the context */
        size_t document;    /* number of the next here-document */
};

/* "755" -> "0755".  NULL: a problem was added. */
static char *mode_of(struct copy *k, const char *given)
{
        AUTO_FREE char *text = converter_expand(k->c, k->s, k->i->line, given);
        unsigned mode = 0;
        char *out;

        if (!text)
                return NULL;
        if (!text[0] || strlen(text) > 5 || text[strspn(text, "01234567")]) {
                problems_error(k->c->problems, k->i->line, "--chmod=%s: must be octal digits, such as 755", text);
                return NULL;
        }
        for (const char *p = text; *p; p++)
                mode = mode * 8 + (unsigned)(*p - '0');
        if (mode > 07777) {
                problems_error(k->c->problems, k->i->line, "--chmod=%s: too large", text);
                return NULL;
        }
        return asprintf(&out, "%04o", mode) < 0 ? NULL : out;
}

/* Files belong to root, whoever the user is. */
static char *owner_of(struct copy *k)
{
        const char *given = instruction_flag(k->i, "chown");

        if (!given)
                return strdup(k->s->is_root ? "" : "root:root");
        return converter_expand(k->c, k->s, k->i->line, given);
}

static void read_flags(struct copy *k, const char *const *known)
{
        const char *chmod = instruction_flag(k->i, "chmod");

        converter_check_flags(k->c, k->i, known);
        k->from = instruction_flag(k->i, "from");
        k->mode = chmod ? mode_of(k, chmod) : strdup("");
        k->owner = owner_of(k);
        if (k->from && !k->from[0])
                problems_error(k->c->problems, k->i->line, "--from needs the name of a stage or image");
}

static bool is_document(const struct copy *k, const char *word)
{
        const char *start = word + strspn(word, "0123456789");

        return k->document < k->i->document_count && strncmp(start, "<<", 2) == 0;
}

static bool read_words(struct copy *k)
{
        AUTO_WORDS struct words raw = {0};
        int r = words_from_json(&raw, str_of(k->i->text));

        if (r == 0)
                r = words_split(&raw, str_of(k->i->text));
        if (r == -EINVAL)
                problems_error(k->c->problems, k->i->line, "%s: the array must hold texts only", k->i->keyword);
        else if (r < 0)
                (void)problems_take(k->c->problems, k->i->line, r);
        if (r < 0)
                return false;
        if (raw.count < 2) {
                problems_error(k->c->problems, k->i->line, "%s needs a source and a destination", k->i->keyword);
                return false;
        }
        for (size_t n = 0; n < raw.count; n++) {
                AUTO_FREE char *word = is_document(k, raw.at[n]) ? strdup(raw.at[n])
                                                                 : converter_expand(k->c, k->s, k->i->line, raw.at[n]);

                if (!word || problems_take(k->c->problems, k->i->line, words_add(&k->words, str_of(word))) < 0)
                        return false;
        }
        return true;
}

/* Several sources need a directory. */
static bool check_destination(struct copy *k)
{
        char **dest = &k->words.at[k->words.count - 1];
        struct str s = str_of(*dest);
        char *more;

        if (s.n == 0) {
                problems_error(k->c->problems, k->i->line, "%s: the destination is empty", k->i->keyword);
                return false;
        }
        if (k->words.count == 2 || str_ends(s, "/"))
                return true;
        if (!str_is(s, ".") && !str_is(s, "..") && !str_ends(s, "/.") && !str_ends(s, "/..")) {
                problems_error(k->c->problems, k->i->line,
                               "%s has several sources: the destination must be a directory, and end with /",
                               k->i->keyword);
                return false;
        }
        if (asprintf(&more, "%s/", *dest) < 0)
                return false;
        free(*dest);
        *dest = more;
        return true;
}

static json_t *add_step(struct copy *k, const char *src)
{
        return stage_add_step(k->c, k->s, "COPY",
                              json_pack("[s, s, s, s]", src, k->words.at[k->words.count - 1], k->owner ? k->owner : "",
                                        k->mode ? k->mode : ""));
}

static void note_copy(struct copy *k, struct dockerfile_copy copy)
{
        struct dockerfile_build *b = k->c->build;
        struct dockerfile_copy *more = reallocarray(b->copies, b->copy_count + 1, sizeof(*more));

        copy.line = k->i->line;
        copy.stage = k->c->count - 1;
        copy.dest = strdup(k->words.at[k->words.count - 1]);
        copy.step = add_step(k, copy.src ? copy.src : "");
        if (more)
                b->copies = more;
        if (more && copy.src && copy.dest && copy.step) {
                json_incref(copy.step);
                more[b->copy_count++] = copy;
                return;
        }
        free(copy.src);
        free(copy.dest);
        free(copy.content);
        converter_out_of_memory(k->c);
}

static void add_document(struct copy *k)
{
        const struct here_document *d = &k->i->documents[k->document++];
        AUTO_BUF struct buf content = BUF_INIT(DOCKERFILE_MAX);
        struct expand x = converter_expander(k->c, k->s);
        int r;

        x.is_document = true;
        r = d->expands ? expand_word(&x, str_of(d->content), &content) : buf_addc(&content, d->content);
        if (r == -EINVAL)
                problems_error(k->c->problems, k->i->line, "%s", x.fault);
        else if (r < 0)
                (void)problems_take(k->c->problems, k->i->line, r);
        else if (strchr(d->name, '/'))
                problems_error(k->c->problems, k->i->line, "the name of a here-document becomes a file's: no / in it");
        else if (x.unknown[0])
                problems_error(k->c->problems, k->i->line, "variable '%s' is not set by an ARG or ENV", x.unknown);
        else
                note_copy(k, (struct dockerfile_copy){.kind = DOCKERFILE_DOCUMENT,
                                                      .src = strdup(d->name),
                                                      .content = strdup(buf_cstr(&content) ? buf_cstr(&content) : "")});
}

static bool has_wildcard(const char *path)
{
        return strpbrk(path, "*?[") != NULL;
}

/* COPY --from=STAGE or an image. */
static void add_from(struct copy *k, const char *src)
{
        int stage = converter_find_stage(k->c, k->from);
        AUTO_FREE char *path = NULL;
        json_t *step;

        if (has_wildcard(src))
                problems_error(k->c->problems, k->i->line, "COPY --from: wildcards are not supported (%s)", src);
        if (stage >= 0 && (size_t)stage == k->c->count - 1) {
                problems_error(k->c->problems, k->i->line, "--from=%s: a stage cannot copy from itself", k->from);
                return;
        }
        if (asprintf(&path, "%s%s", src[0] == '/' ? "" : "/", src) < 0)
                path = NULL;
        step = path ? add_step(k, path) : NULL;
        if (!step) {
                converter_out_of_memory(k->c);
        } else if (stage >= 0) {
                stage_need(k->s, (size_t)stage);
                (void)json_object_set_new(step, "fromStage", json_string(k->c->stages[stage].name));
        } else if (k->from[strspn(k->from, "0123456789")] == 0) {
                problems_error(k->c->problems, k->i->line, "--from=%s: there is no such stage before this line",
                               k->from);
        } else {
                (void)json_object_set_new(step, "fromImage", json_string(k->from));
        }
}

static bool is_remote(const char *src)
{
        static const char *const schemes[] = {"http://", "https://", "ftp://", "git://", "ssh://", "git@"};

        for (size_t n = 0; n < ARRAY_LEN(schemes); n++)
                if (strncasecmp(src, schemes[n], strlen(schemes[n])) == 0)
                        return true;
        return false;
}

static void add_source(struct copy *k, const char *src, enum dockerfile_copy_kind kind)
{
        if (is_document(k, src))
                add_document(k);
        else if (kind == DOCKERFILE_ADD && is_remote(src))
                problems_error(k->c->problems, k->i->line,
                               "ADD of a URL is not supported: use RUN with curl, or COPY a file (%s)", src);
        else if (k->from)
                add_from(k, src);
        else if (src[0] == 0)
                problems_error(k->c->problems, k->i->line, "%s: a source is empty", k->i->keyword);
        else
                note_copy(k, (struct dockerfile_copy){.kind = kind, .src = strdup(src)});
}

static void convert(struct copy *k, enum dockerfile_copy_kind kind)
{
        if (read_words(k) && check_destination(k))
                for (size_t n = 0; n + 1 < k->words.count; n++)
                        add_source(k, k->words.at[n], kind);
        words_done(&k->words);
        free(k->owner);
        free(k->mode);
}

void convert_copy(struct converter *c, struct stage *s, const struct instruction *i)
{
        struct copy k = {.c = c, .s = s, .i = i};

        read_flags(&k, (const char *const[]){"chown", "chmod", "from", "link", NULL});
        convert(&k, DOCKERFILE_COPY);
}

void convert_add(struct converter *c, struct stage *s, const struct instruction *i)
{
        struct copy k = {.c = c, .s = s, .i = i};

        read_flags(&k, (const char *const[]){"chown", "chmod", "link", NULL});
        convert(&k, DOCKERFILE_ADD);
}
