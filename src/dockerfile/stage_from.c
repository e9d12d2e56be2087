/* FROM, and ARG before it: where stages begin. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dockerfile/stage.h"

static const char *const proxy_args[] = {"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "FTP_PROXY",
                                         "ftp_proxy",  "NO_PROXY",   "no_proxy",    "ALL_PROXY",   "all_proxy"};

void stage_done(struct stage *s)
{
        free(s->name);
        json_decref(s->object);
        json_decref(s->lines);
        json_decref(s->env);
        json_decref(s->args);
        json_decref(s->shell);
        json_decref(s->entry);
        json_decref(s->cmd);
        json_decref(s->ready);
        json_decref(s->needs);
}

int converter_find_stage(const struct converter *c, const char *name)
{
        uint32_t number;

        if (c->count && parse_u32(str_of(name), 0, (uint32_t)c->count - 1, &number) == 0)
                return (int)number;
        for (size_t i = c->count; i > 0; i--)
                if (strcasecmp(c->stages[i - 1].name, name) == 0)
                        return (int)(i - 1);
        return -1;
}

void stage_need(struct stage *s, size_t other)
{
        (void)json_array_append_new(s->needs, json_integer((json_int_t)other));
}

/* ---- ARG before FROM ---- */

void convert_global_arg(struct converter *c, const struct instruction *i)
{
        AUTO_WORDS struct words words = {0};

        converter_check_flags(c, i, (const char *const[]){NULL});
        if (problems_take(c->problems, i->line, words_split_quoted(&words, str_of(i->text), c->escape)) < 0)
                return;
        if (words.count == 0)
                problems_error(c->problems, i->line, "ARG needs a name");
        for (size_t k = 0; k < words.count; k++) {
                AUTO_FREE char *text = converter_expand(c, NULL, i->line, words.at[k]);
                char *equals = text ? strchr(text, '=') : NULL;
                const char *given;

                if (!text)
                        return;
                if (equals)
                        *equals = 0;
                given = json_string_value(json_object_get(c->opt->build_args, text));
                if (given)
                        (void)json_object_set_new(c->used_args, text, json_true());
                if (!given && equals)
                        given = equals + 1;
                if (!text[0])
                        problems_error(c->problems, i->line, "ARG needs a name");
                else if (given && json_object_set_new(c->global_args, text, json_string(given)) < 0)
                        converter_out_of_memory(c);
        }
}

/* ---- FROM ---- */

static bool name_is_valid(const char *name)
{
        if (!isalpha((unsigned char)name[0]))
                return false;
        for (; *name; name++)
                if (!isalnum((unsigned char)*name) && !strchr("-_.", *name))
                        return false;
        return true;
}

static void check_platform(struct converter *c, const struct instruction *i)
{
        const char *flag = instruction_flag(i, "platform");
        AUTO_FREE char *given = flag ? converter_expand(c, NULL, i->line, flag) : NULL;
        char own[64];
        size_t n;

        if (!given)
                return;
        (void)snprintf(own, sizeof(own), "linux/%s", c->opt->architecture);
        n = strlen(own);
        if (strncmp(given, own, n) != 0 || (given[n] && given[n] != '/'))
                problems_error(c->problems, i->line, "platform '%s' is not supported: sandboxes are %s", given, own);
}

/* The name after AS, lower-case, or the number of the stage. */
static char *stage_name(struct converter *c, const struct instruction *i, const char *given)
{
        char *name;

        if (!given)
                return asprintf(&name, "%zu", c->count) < 0 ? NULL : name;
        if (!name_is_valid(given))
                problems_error(c->problems, i->line, "'%s' is no name for a stage: letters, digits, - _ . only", given);
        else if (converter_find_stage(c, given) >= 0)
                problems_error(c->problems, i->line, "there is a stage '%s' already", given);
        name = strdup(given);
        for (char *p = name; p && *p; p++)
                *p = (char)tolower((unsigned char)*p);
        return name;
}

/* A stage from another one goes on where that one is. */
static void inherit(struct stage *s, const struct stage *from)
{
        s->env = json_copy(from->env);
        s->args = json_copy(from->args);
        s->shell = json_incref(from->shell);
        s->entry = json_incref(from->entry);
        s->cmd = json_incref(from->cmd);
        s->ready = json_incref(from->ready);
        s->is_root = from->is_root;
        s->sets_user = from->sets_user;
        s->sets_workdir = from->sets_workdir;
        s->is_from_template = from->is_from_template;
}

static void begin_from(struct converter *c, struct stage *s, const char *image)
{
        int parent = converter_find_stage(c, image);

        if (parent >= 0 && isalpha((unsigned char)image[0])) {
                inherit(s, &c->stages[parent]);
                stage_need(s, (size_t)parent);
                (void)json_object_set_new(s->object, "fromStage", json_string(c->stages[parent].name));
                return;
        }
        s->env = json_object();
        s->args = json_object();
        s->is_from_template = str_starts(str_of(image), "template:");
        if (s->is_from_template) {
                (void)json_object_set_new(s->object, "fromTemplate", json_string(image + strlen("template:")));
                return;
        }
        (void)json_object_set_new(s->object, "fromImage", json_string(image));
        s->is_root = true;
        (void)stage_add_step(c, s, "USER", json_pack("[s]", "root"));
        (void)stage_add_step(c, s, "WORKDIR", json_pack("[s]", "/"));
}

static void give_proxy_args(struct converter *c, struct stage *s)
{
        for (size_t i = 0; i < ARRAY_LEN(proxy_args); i++) {
                json_t *given = json_object_get(c->opt->build_args, proxy_args[i]);

                if (given) {
                        (void)json_object_set(s->args, proxy_args[i], given);
                        (void)json_object_set_new(c->used_args, proxy_args[i], json_true());
                }
        }
}

void convert_from(struct converter *c, const struct instruction *i)
{
        AUTO_WORDS struct words words = {0};
        AUTO_FREE char *image = NULL;
        struct stage *more, s = {.line = i->line};
        bool has_name;

        converter_check_flags(c, i, (const char *const[]){"platform", NULL});
        check_platform(c, i);
        if (problems_take(c->problems, i->line, words_split(&words, str_of(i->text))) < 0)
                return;
        has_name = words.count == 3 && strcasecmp(words.at[1], "AS") == 0;
        if (words.count != 1 && !has_name)
                problems_error(c->problems, i->line, "FROM must be FROM IMAGE or FROM IMAGE AS NAME");
        image = converter_expand(c, NULL, i->line, words.count ? words.at[0] : "");
        if (image && !image[0] && words.count)
                problems_error(c->problems, i->line, "FROM: the name of the image is empty");
        if (image && strcmp(image, "scratch") == 0)
                problems_error(c->problems, i->line,
                               "FROM scratch is not supported: a sandbox needs a system with a shell");
        s.name = stage_name(c, i, has_name ? words.at[2] : NULL);
        s.needs = json_array();
        s.lines = json_array();
        s.object = s.name ? json_pack("{s:s, s:[]}", "name", s.name, "steps") : NULL;
        more = s.object ? reallocarray(c->stages, c->count + 1, sizeof(*more)) : NULL;
        if (!more) {
                stage_done(&s);
                converter_out_of_memory(c);
                return;
        }
        c->stages = more;
        begin_from(c, &s, image ? image : "");
        give_proxy_args(c, &s);
        more[c->count++] = s;
}
