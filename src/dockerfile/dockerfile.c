#include "dockerfile/dockerfile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dockerfile/stage.h"

/* ---- what all instructions use ---- */

void converter_out_of_memory(struct converter *c)
{
        c->problems->lacks_memory = true;
}

json_t *stage_add_step(struct converter *c, struct stage *s, const char *type, json_t *args)
{
        json_t *step = args ? json_pack("{s:s, s:o, s:b}", "type", type, "args", args, "force", 0) : NULL;

        if (step && json_array_append_new(json_object_get(s->object, "steps"), step) == 0) {
                (void)json_array_append_new(s->lines, json_integer(c->line));
                return step;
        }
        converter_out_of_memory(c);
        return NULL;
}

static enum expand_known look_up_global(void *arg, const char *name, const char **ret)
{
        struct converter *c = arg;

        *ret = json_string_value(json_object_get(c->global_args, name));
        return *ret ? EXPAND_SET : EXPAND_UNSET;
}

static enum expand_known look_up_in_stage(void *arg, const char *name, const char **ret)
{
        struct stage *s = arg;
        const json_t *env = json_object_get(s->env, name), *argument = json_object_get(s->args, name);

        if (json_is_string(env)) {
                *ret = json_string_value(env);
                return EXPAND_SET;
        }
        if (env || (!argument && strcmp(name, "PATH") == 0)) /* every image has a PATH */
                return EXPAND_ELSEWHERE;
        *ret = json_is_string(argument) ? json_string_value(argument) : "";
        return argument ? EXPAND_SET : EXPAND_UNSET;
}

struct expand converter_expander(struct converter *c, struct stage *s)
{
        return (struct expand){
                .escape = c->escape, .look_up = s ? look_up_in_stage : look_up_global, .arg = s ? (void *)s : c};
}

char *converter_expand(struct converter *c, struct stage *s, unsigned line, const char *word)
{
        AUTO_BUF struct buf text = BUF_INIT(DOCKERFILE_MAX);
        struct expand x = converter_expander(c, s);
        int r = expand_word(&x, str_of(word), &text);

        if (r == -EINVAL)
                problems_error(c->problems, line, "%s", x.fault);
        else if (r < 0)
                (void)problems_take(c->problems, line, r);
        else if (x.unknown[0] && s)
                problems_error(c->problems, line,
                               "variable '%s' is not set by an ARG or ENV before this line (what the base image sets "
                               "can be used in ENV and RUN only)",
                               x.unknown);
        else if (x.unknown[0])
                problems_error(c->problems, line, "variable '%s' is not set by an ARG before the first FROM",
                               x.unknown);
        else
                return str_dup((struct str){(const char *)buf_at(&text), text.len});
        return NULL;
}

void converter_check_flags(struct converter *c, const struct instruction *i, const char *const *known)
{
        for (size_t k = 0; k < i->flags.count; k++) {
                const char *flag = i->flags.at[k];
                size_t n = strcspn(flag, "="), at = 0;

                while (known[at] && (strncmp(known[at], flag, n) != 0 || known[at][n]))
                        at++;
                if (!known[at])
                        problems_error(c->problems, i->line, "%s --%.*s is not supported", i->keyword, (int)n, flag);
        }
}

/* ---- instructions ---- */

static void convert_onbuild(struct converter *c, struct stage *s, const struct instruction *i)
{
        (void)s;
        problems_error(c->problems, i->line, "ONBUILD is not supported: a template is no base for Dockerfiles");
}

static void convert_ignored(struct converter *c, struct stage *s, const struct instruction *i)
{
        (void)s;
        problems_note(c->problems, i->line, "%s is ignored", i->keyword);
}

static const struct {
        const char *keyword;
        instruction_fn *convert;
} known[] = {
        {"ADD", convert_add},
        {"ARG", convert_arg},
        {"CMD", convert_cmd},
        {"COPY", convert_copy},
        {"ENTRYPOINT", convert_entrypoint},
        {"ENV", convert_env},
        {"EXPOSE", convert_ignored},
        {"HEALTHCHECK", convert_healthcheck},
        {"LABEL", convert_ignored},
        {"MAINTAINER", convert_ignored},
        {"ONBUILD", convert_onbuild},
        {"RUN", convert_run},
        {"SHELL", convert_shell},
        {"STOPSIGNAL", convert_ignored},
        {"USER", convert_user},
        {"VOLUME", convert_ignored},
        {"WORKDIR", convert_workdir},
};

static void convert_in_stage(struct converter *c, const struct instruction *i)
{
        for (size_t k = 0; k < ARRAY_LEN(known); k++) {
                if (strcmp(known[k].keyword, i->keyword) != 0)
                        continue;
                if (c->count)
                        known[k].convert(c, &c->stages[c->count - 1], i);
                else
                        problems_error(c->problems, i->line, "%s before FROM", i->keyword);
                return;
        }
        problems_error(c->problems, i->line, "unknown instruction '%.64s'", i->keyword);
}

static void convert_all(struct converter *c, const struct instructions *list)
{
        for (size_t k = 0; k < list->count; k++) {
                const struct instruction *i = &list->at[k];

                c->line = i->line;
                if (strcmp(i->keyword, "FROM") == 0)
                        convert_from(c, i);
                else if (strcmp(i->keyword, "ARG") == 0 && c->count == 0)
                        convert_global_arg(c, i);
                else
                        convert_in_stage(c, i);
        }
        if (c->count == 0 && !problems_has_errors(c->problems))
                problems_error(c->problems, 0, "there is no FROM");
}

/* ---- the request ---- */

/* What the last stage needs; a stage needs earlier ones only. */
static void mark_needed(struct converter *c)
{
        c->stages[c->count - 1].is_needed = true;
        for (size_t i = c->count; i > 0; i--) {
                json_t *other;
                size_t k;

                if (!c->stages[i - 1].is_needed)
                        continue;
                json_array_foreach (c->stages[i - 1].needs, k, other)
                        c->stages[json_integer_value(other)].is_needed = true;
        }
}

static void drop_copies(struct converter *c)
{
        struct dockerfile_build *b = c->build;
        size_t kept = 0;

        for (size_t i = 0; i < b->copy_count; i++) {
                struct dockerfile_copy *copy = &b->copies[i];

                if (c->stages[copy->stage].is_needed) {
                        b->copies[kept++] = *copy;
                        continue;
                }
                json_decref(copy->step);
                free(copy->src);
                free(copy->dest);
                free(copy->content);
        }
        b->copy_count = kept;
}

static void finish_last(struct converter *c, struct stage *last)
{
        c->line = 0;
        if (!last->sets_user && !last->is_from_template)
                (void)stage_add_step(c, last, "USER", json_pack("[s]", "user"));
        if (!last->sets_workdir && !last->is_from_template)
                (void)stage_add_step(c, last, "WORKDIR", json_pack("[s]", "/home/user"));
}

static json_t *make_request(struct converter *c)
{
        struct stage *last = &c->stages[c->count - 1];
        json_t *request, *stages = json_array(), *start;

        mark_needed(c);
        drop_copies(c);
        finish_last(c, last);
        for (size_t i = 0; i + 1 < c->count; i++)
                if (c->stages[i].is_needed)
                        (void)json_array_append(stages, c->stages[i].object);
        request = json_copy(last->object);
        (void)json_object_del(request, "name");
        if (json_array_size(stages))
                (void)json_object_set(request, "stages", stages);
        json_decref(stages);
        start = stage_start_command(last);
        if (start)
                (void)json_object_set_new(request, "startCmd", start);
        if (last->ready)
                (void)json_object_set(request, "readyCmd", last->ready);
        return request;
}

/* ---- from text to request ---- */

static void give_platform(struct converter *c)
{
        static const char *const sides[] = {"TARGET", "BUILD"};
        const char *arch = c->opt->architecture;

        for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
                char name[32], platform[64];

                (void)snprintf(platform, sizeof(platform), "linux/%s", arch);
                (void)snprintf(name, sizeof(name), "%sPLATFORM", sides[i]);
                (void)json_object_set_new(c->global_args, name, json_string(platform));
                (void)snprintf(name, sizeof(name), "%sOS", sides[i]);
                (void)json_object_set_new(c->global_args, name, json_string("linux"));
                (void)snprintf(name, sizeof(name), "%sARCH", sides[i]);
                (void)json_object_set_new(c->global_args, name, json_string(arch));
                (void)snprintf(name, sizeof(name), "%sVARIANT", sides[i]);
                (void)json_object_set_new(c->global_args, name, json_string(""));
        }
}

static void report_unused_args(struct converter *c)
{
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)c->opt->build_args, name, value)
                if (!json_object_get(c->used_args, name))
                        problems_warn(c->problems, 0, "no ARG takes the build argument '%s'", name);
}

int dockerfile_convert(struct str text, const struct dockerfile_options *opt, struct dockerfile_build *ret,
                       struct problems *problems)
{
        AUTO_INSTRUCTIONS struct instructions list = {0};
        struct dockerfile_build build = {0};
        struct converter c = {.opt = opt,
                              .problems = problems,
                              .global_args = json_object(),
                              .used_args = json_object(),
                              .build = &build};

        instructions_read(text, &list, problems);
        c.escape = list.escape;
        give_platform(&c);
        convert_all(&c, &list);
        report_unused_args(&c);
        if (!problems_has_errors(problems)) {
                build.request = make_request(&c);
                build.lines = json_incref(c.stages[c.count - 1].lines);
        }
        for (size_t i = 0; i < c.count; i++)
                stage_done(&c.stages[i]);
        free(c.stages);
        json_decref(c.global_args);
        json_decref(c.used_args);
        problems_sort(problems);
        if (!build.request || problems->lacks_memory) {
                dockerfile_build_done(&build);
                return -EINVAL;
        }
        *ret = build;
        return 0;
}

void dockerfile_build_done(struct dockerfile_build *b)
{
        json_decref(b->request);
        json_decref(b->lines);
        for (size_t i = 0; i < b->copy_count; i++) {
                json_decref(b->copies[i].step);
                free(b->copies[i].src);
                free(b->copies[i].dest);
                free(b->copies[i].content);
        }
        free(b->copies);
        *b = (struct dockerfile_build){0};
}
