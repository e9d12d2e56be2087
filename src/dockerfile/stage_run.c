/* RUN, SHELL, and what a sandbox starts with: CMD, ENTRYPOINT, HEALTHCHECK. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dockerfile/stage.h"

/* ---- commands as text ---- */

static int add_quoted(struct buf *out, const char *word)
{
        static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
        int r;

        if (word[0] && word[strspn(word, safe)] == 0)
                return buf_addc(out, word);
        r = buf_addc(out, "'");
        for (; r == 0 && *word; word++)
                r = *word == '\'' ? buf_addc(out, "'\\''") : buf_add(out, word, 1);
        return r == 0 ? buf_addc(out, "'") : r;
}

json_t *command_text(const json_t *words)
{
        AUTO_BUF struct buf out = BUF_INIT(8 * DOCKERFILE_MAX);
        json_t *one;
        size_t i;
        int r = 0;

        json_array_foreach ((json_t *)words, i, one) {
                if (i)
                        r |= buf_addc(&out, " ");
                r |= add_quoted(&out, json_string_value(one) ? json_string_value(one) : "");
        }
        return r == 0 && buf_cstr(&out) ? json_string(buf_cstr(&out)) : NULL;
}

/* The exec form as an array, the shell form as text; NULL: a problem was added. */
static json_t *read_command(struct converter *c, const struct instruction *i, const char *text)
{
        AUTO_WORDS struct words words = {0};
        int r = words_from_json(&words, str_of(text));
        json_t *array;

        if (r == 0) {
                if (text[0] == '[')
                        problems_warn(c->problems, i->line,
                                      "begins with [ but is not a JSON array of texts: taken as a shell command");
                return json_string(text);
        }
        if (r < 0) {
                problems_error(c->problems, i->line, "%s: the array must hold texts only", i->keyword);
                return NULL;
        }
        array = json_array();
        for (size_t k = 0; k < words.count; k++)
                (void)json_array_append_new(array, json_string(words.at[k]));
        return array;
}

/* ---- SHELL ---- */

void convert_shell(struct converter *c, struct stage *s, const struct instruction *i)
{
        json_t *shell;

        converter_check_flags(c, i, (const char *const[]){NULL});
        shell = i->text[0] == '[' ? read_command(c, i, i->text) : json_null();
        if (json_array_size(shell) == 0) {
                problems_error(c->problems, i->line, "SHELL must be an array: SHELL [\"/bin/bash\", \"-c\"]");
                json_decref(shell);
                return;
        }
        json_decref(s->shell);
        s->shell = shell;
}

static json_t *stage_shell(const struct stage *s)
{
        return s->shell ? json_copy(s->shell) : json_pack("[s, s]", "/bin/sh", "-c");
}

/* Values of ARG are there while the image is built, and not later: they are given to each command. */
static json_t *run_shell(const struct stage *s)
{
        json_t *shell = json_array(), *usual = stage_shell(s), *value;
        const char *name;

        json_object_foreach (s->args, name, value) {
                AUTO_FREE char *pair = NULL;

                if (!json_is_string(value) || json_object_get(s->env, name) ||
                    asprintf(&pair, "%s=%s", name, json_string_value(value)) < 0)
                        continue;
                if (json_array_size(shell) == 0)
                        (void)json_array_append_new(shell, json_string("/usr/bin/env"));
                (void)json_array_append_new(shell, json_string(pair));
        }
        (void)json_array_extend(shell, usual);
        json_decref(usual);
        return shell;
}

/* ---- RUN ---- */

static void check_mount(struct converter *c, const struct instruction *i, const char *value)
{
        struct str rest = str_of(value), field, type = STR("bind");

        while (rest.n) {
                (void)str_cut(&rest, ',', &field);
                if (str_starts(field, "type="))
                        type = (struct str){field.p + 5, field.n - 5};
        }
        if (str_is(type, "cache"))
                problems_note(c->problems, i->line, "RUN --mount=type=cache: there is no such cache; it starts empty");
        else
                problems_error(c->problems, i->line, "RUN --mount=type=%.*s is not supported", STR_ARG(type));
}

static void check_run_flags(struct converter *c, const struct instruction *i)
{
        const char *network = instruction_flag(i, "network"), *security = instruction_flag(i, "security");

        converter_check_flags(c, i, (const char *const[]){"mount", "network", "security", NULL});
        for (size_t k = 0; k < i->flags.count; k++)
                if (strncmp(i->flags.at[k], "mount=", 6) == 0)
                        check_mount(c, i, i->flags.at[k] + 6);
        if (network && strcmp(network, "default") != 0)
                problems_error(c->problems, i->line, "RUN --network=%s is not supported", network);
        if (security && strcmp(security, "sandbox") != 0)
                problems_error(c->problems, i->line, "RUN --security=%s is not supported", security);
}

/* A script with #! is a program of its own. */
static int add_program(struct buf *out, const char *content)
{
        char end[32] = "SANDGLASS_END";

        for (unsigned n = 0; strstr(content, end); n++)
                (void)snprintf(end, sizeof(end), "SANDGLASS_END_%u", n);
        return buf_addf(out,
                        "f=$(mktemp) && cat >\"$f\" <<'%s' && chmod 0700 \"$f\"\n%s%s\n"
                        "\"$f\"; s=$?; rm -f \"$f\"; exit $s",
                        end, content, end);
}

/* The command with its here-documents, as the shell reads it. */
static int run_text(const struct instruction *i, struct buf *out)
{
        const struct here_document *d = i->documents;
        int r;

        if (i->document_count == 1 && !strpbrk(i->text, " \t")) { /* nothing but the document: a script */
                if (strncmp(d->content, "#!", 2) == 0)
                        return add_program(out, d->content);
                return buf_addc(out, d->content);
        }
        r = buf_addc(out, i->text);
        for (size_t k = 0; r == 0 && k < i->document_count; k++)
                r = buf_addf(out, "\n%s%s", d[k].content, d[k].name);
        return r == 0 && i->document_count ? buf_addc(out, "\n") : r;
}

void convert_run(struct converter *c, struct stage *s, const struct instruction *i)
{
        AUTO_BUF struct buf text = BUF_INIT(2 * DOCKERFILE_MAX);
        json_t *command, *step;

        check_run_flags(c, i);
        if (!i->text[0]) {
                problems_error(c->problems, i->line, "RUN needs a command");
                return;
        }
        if (i->document_count) {
                if (problems_take(c->problems, i->line, run_text(i, &text)) < 0 || !buf_cstr(&text))
                        return;
                command = json_string(buf_cstr(&text));
        } else {
                command = read_command(c, i, i->text);
        }
        if (json_is_array(command)) {
                json_t *joined = command_text(command);

                if (json_array_size(command) == 0)
                        problems_error(c->problems, i->line, "RUN needs a command");
                json_decref(command);
                command = joined;
        }
        if (!command)
                return;
        step = stage_add_step(c, s, "RUN", json_pack("[o]", command));
        (void)json_object_set_new(step, "shell", run_shell(s));
}

/* ---- the start command ---- */

static void replace(json_t **at, json_t *by)
{
        if (!by)
                return;
        json_decref(*at);
        *at = by;
}

void convert_cmd(struct converter *c, struct stage *s, const struct instruction *i)
{
        converter_check_flags(c, i, (const char *const[]){NULL});
        replace(&s->cmd, read_command(c, i, i->text));
}

void convert_entrypoint(struct converter *c, struct stage *s, const struct instruction *i)
{
        converter_check_flags(c, i, (const char *const[]){NULL});
        replace(&s->entry, read_command(c, i, i->text));
}

static bool is_empty(const json_t *command)
{
        return json_is_array(command) ? json_array_size(command) == 0 : json_string_length(command) == 0;
}

/* The shell form: as it is, where the shell is the usual one. */
static json_t *shell_form(const struct stage *s, const json_t *text)
{
        json_t *words, *joined;

        if (!s->shell)
                return json_copy((json_t *)text);
        words = json_copy(s->shell);
        (void)json_array_append(words, (json_t *)text);
        joined = command_text(words);
        json_decref(words);
        return joined;
}

json_t *stage_start_command(const struct stage *s)
{
        json_t *words, *more, *joined;

        if (is_empty(s->entry)) {
                if (is_empty(s->cmd))
                        return NULL;
                return json_is_array(s->cmd) ? command_text(s->cmd) : shell_form(s, s->cmd);
        }
        if (!json_is_array(s->entry))
                return shell_form(s, s->entry); /* takes no arguments from CMD */
        words = json_copy(s->entry);
        if (json_is_array(s->cmd)) {
                (void)json_array_extend(words, s->cmd);
        } else if (!is_empty(s->cmd)) {
                more = stage_shell(s);
                (void)json_array_extend(words, more);
                (void)json_array_append(words, s->cmd);
                json_decref(more);
        }
        joined = command_text(words);
        json_decref(words);
        return joined;
}

/* ---- HEALTHCHECK ---- */

void convert_healthcheck(struct converter *c, struct stage *s, const struct instruction *i)
{
        const char *text = i->text;
        json_t *command, *joined;

        converter_check_flags(
                c, i, (const char *const[]){"interval", "timeout", "start-period", "start-interval", "retries", NULL});
        if (strcasecmp(text, "NONE") == 0) {
                json_decref(s->ready);
                s->ready = NULL;
                return;
        }
        if (strncasecmp(text, "CMD", 3) != 0 || !char_is_blank(text[3])) {
                problems_error(c->problems, i->line,
                               "HEALTHCHECK must be HEALTHCHECK CMD COMMAND, or HEALTHCHECK NONE");
                return;
        }
        text += 3;
        while (char_is_blank(*text))
                text++;
        command = read_command(c, i, text);
        if (!command)
                return;
        joined = json_is_array(command) ? command_text(command) : shell_form(s, command);
        json_decref(command);
        replace(&s->ready, joined);
}
