/* ENV, ARG, WORKDIR, USER: what the following steps find. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dockerfile/stage.h"

/* ---- ENV ---- */

struct env_steps { /* of one instruction: values that the server may look into, and those that it must not */
        json_t *open, *literal;
};

static void add_variable(struct converter *c, struct stage *s, const struct instruction *i, struct env_steps *to,
                         struct str name, struct str value, json_t *later)
{
        AUTO_BUF struct buf text = BUF_INIT(DOCKERFILE_MAX);
        AUTO_FREE char *key = NULL, *raw = str_dup(name);
        struct expand x = converter_expander(c, s);
        json_t *args;
        int r;

        key = raw ? converter_expand(c, s, i->line, raw) : NULL;
        if (!key)
                return;
        if (!key[0]) {
                problems_error(c->problems, i->line, "ENV: a variable without a name");
                return;
        }
        x.keeps_unknown = true;
        r = expand_word(&x, value, &text);
        if (r == -EINVAL)
                problems_error(c->problems, i->line, "%s", x.fault);
        if (r < 0 && r != -EINVAL)
                (void)problems_take(c->problems, i->line, r);
        if (r < 0)
                return;
        if (x.has_kept && x.has_dollar)
                problems_error(c->problems, i->line,
                               "ENV %s: a $ as text beside a variable of the base image is not supported", key);
        args = x.has_dollar ? to->literal : to->open;
        if (!buf_cstr(&text) || json_array_append_new(args, json_string(key)) < 0 ||
            json_array_append_new(args, json_string(buf_cstr(&text))) < 0 ||
            json_object_set_new(later, key, x.has_kept ? json_null() : json_string(buf_cstr(&text))) < 0)
                converter_out_of_memory(c);
}

/* ENV NAME the rest of the line */
static void add_old_form(struct converter *c, struct stage *s, const struct instruction *i, struct env_steps *to,
                         json_t *later)
{
        struct str rest = str_of(i->text), name;
        size_t n = 0;

        while (n < rest.n && !char_is_blank(rest.p[n]))
                n++;
        name = (struct str){rest.p, n};
        while (n < rest.n && char_is_blank(rest.p[n]))
                n++;
        if (n == rest.n)
                problems_error(c->problems, i->line, "ENV must be ENV NAME=VALUE...");
        else
                add_variable(c, s, i, to, name, (struct str){rest.p + n, rest.n - n}, later);
}

void convert_env(struct converter *c, struct stage *s, const struct instruction *i)
{
        struct env_steps to = {json_array(), json_array()};
        json_t *later = json_object(); /* values of one instruction do not see each other */
        AUTO_WORDS struct words words = {0};

        converter_check_flags(c, i, (const char *const[]){NULL});
        (void)problems_take(c->problems, i->line, words_split_quoted(&words, str_of(i->text), c->escape));
        if (words.count == 0) {
                problems_error(c->problems, i->line, "ENV must be ENV NAME=VALUE...");
        } else if (!strchr(words.at[0], '=')) {
                add_old_form(c, s, i, &to, later);
        } else {
                for (size_t k = 0; k < words.count; k++) {
                        struct str value = str_of(words.at[k]), name;

                        if (str_cut(&value, '=', &name))
                                add_variable(c, s, i, &to, name, value, later);
                        else
                                problems_error(c->problems, i->line, "ENV: '%s' must be NAME=VALUE", words.at[k]);
                }
        }
        (void)json_object_update(s->env, later);
        json_decref(later);
        if (json_array_size(to.open))
                (void)stage_add_step(c, s, "ENV", json_incref(to.open));
        if (json_array_size(to.literal)) {
                json_t *step = stage_add_step(c, s, "ENV", json_incref(to.literal));

                (void)json_object_set_new(step, "literal", json_true());
        }
        json_decref(to.open);
        json_decref(to.literal);
}

/* ---- ARG ---- */

static void add_arg(struct converter *c, struct stage *s, const struct instruction *i, const char *word)
{
        AUTO_FREE char *text = converter_expand(c, s, i->line, word);
        char *equals = text ? strchr(text, '=') : NULL;
        const json_t *given;
        json_t *value;

        if (!text)
                return;
        if (equals)
                *equals = 0;
        if (!text[0]) {
                problems_error(c->problems, i->line, "ARG needs a name");
                return;
        }
        given = json_object_get(c->opt->build_args, text);
        if (given)
                (void)json_object_set_new(c->used_args, text, json_true());
        else if (!equals)
                given = json_object_get(c->global_args, text);
        if (given)
                value = json_string(json_string_value(given));
        else
                value = equals ? json_string(equals + 1) : json_null();
        if (json_object_set_new(s->args, text, value) < 0)
                converter_out_of_memory(c);
}

void convert_arg(struct converter *c, struct stage *s, const struct instruction *i)
{
        AUTO_WORDS struct words words = {0};

        converter_check_flags(c, i, (const char *const[]){NULL});
        (void)problems_take(c->problems, i->line, words_split_quoted(&words, str_of(i->text), c->escape));
        if (words.count == 0)
                problems_error(c->problems, i->line, "ARG needs a name");
        for (size_t k = 0; k < words.count; k++)
                add_arg(c, s, i, words.at[k]);
}

/* ---- WORKDIR, USER ---- */

void convert_workdir(struct converter *c, struct stage *s, const struct instruction *i)
{
        AUTO_FREE char *path = NULL;

        converter_check_flags(c, i, (const char *const[]){NULL});
        path = converter_expand(c, s, i->line, i->text);
        if (path && !path[0])
                problems_error(c->problems, i->line, "WORKDIR needs a path");
        if (!path || !path[0])
                return;
        s->sets_workdir = true;
        (void)stage_add_step(c, s, "WORKDIR", json_pack("[s]", path));
}

void convert_user(struct converter *c, struct stage *s, const struct instruction *i)
{
        AUTO_FREE char *name = NULL;
        char *group;

        converter_check_flags(c, i, (const char *const[]){NULL});
        name = converter_expand(c, s, i->line, i->text);
        if (!name)
                return;
        group = strchr(name, ':');
        if (group)
                *group++ = 0;
        s->is_root = strcmp(name, "root") == 0 || strcmp(name, "0") == 0;
        if (!name[0])
                problems_error(c->problems, i->line, "USER needs a name");
        else if (group && strcmp(group, name) != 0 && !s->is_root)
                problems_error(c->problems, i->line,
                               "USER %s:%s: another group is not supported; make it the user's own group", name, group);
        s->sets_user = true;
        (void)stage_add_step(c, s, "USER", json_pack("[s]", s->is_root ? "root" : name));
}
