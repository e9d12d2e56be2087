/* dockerfile_rig.h - a Dockerfile in a string, converted; what came of it as compact JSON. */
#pragma once
#include "base/auto.h"
#include "dockerfile/dockerfile.h"

#include "tap.h"

struct rig { /* zeroed: none */
        struct dockerfile_build build;
        struct problems problems;
        json_t *args; /* owned: of --build-arg; NULL: none */
        char *steps;  /* owned: all steps of the last stage, as text */
        int r;
};

static inline void rig_done(struct rig *k)
{
        dockerfile_build_done(&k->build);
        problems_done(&k->problems);
        json_decref(k->args);
        free(k->steps);
}
#define AUTO_RIG AUTO(rig_done)

/* "RUN a b|COPY x y  " */
static inline char *steps_text(const json_t *steps)
{
        size_t i, k, n = 0;
        json_t *step, *arg;
        char *out = NULL;
        FILE *f = open_memstream(&out, &n);

        json_array_foreach ((json_t *)steps, i, step) {
                (void)fprintf(f, "%s%s", i ? "|" : "", json_string_value(json_object_get(step, "type")));
                json_array_foreach (json_object_get(step, "args"), k, arg)
                        (void)fprintf(f, " %s", json_string_value(arg));
        }
        (void)fclose(f);
        return out;
}

static inline const char *text_of(const struct rig *k, const char *key)
{
        const char *text = json_string_value(json_object_get(k->build.request, key));

        return text ? text : "(none)";
}

static inline void convert(struct rig *k, const char *text)
{
        const struct dockerfile_options opt = {.build_args = k->args, .architecture = "amd64"};

        k->r = dockerfile_convert(str_of(text), &opt, &k->build, &k->problems);
        k->steps = steps_text(json_object_get(k->build.request, "steps"));
}

/* The step with this number, from 0, of the last stage. */
static inline json_t *step_at(const struct rig *k, size_t n)
{
        return json_array_get(json_object_get(k->build.request, "steps"), n);
}

/* "2: text\n3: text\n", errors only. */
static inline char *errors_text(const struct problems *p)
{
        size_t n = 0;
        char *out = NULL;
        FILE *f = open_memstream(&out, &n);

        for (size_t i = 0; i < p->count; i++)
                if (p->at[i].level == PROBLEM_ERROR)
                        (void)fprintf(f, "%u: %s\n", p->at[i].line, p->at[i].text);
        (void)fclose(f);
        return out;
}
