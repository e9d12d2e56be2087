#include "model/recipe/recipe.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "model/recipe/recipe_kinds.h"

static const struct {
        const char *name;
        int (*make)(const struct recipe_tag *tag, struct recipe *r, struct err *err);
} kinds[] = {
        {"debian", recipe_debian},        {"ubuntu", recipe_ubuntu},
        {"python", recipe_python},        {"node", recipe_node},
        {"oven/bun", recipe_bun},         {"denoland/deno", recipe_deno},
        {"e2bdev/base", recipe_e2b_base},
};

/* Known, but made of packages of other archives. */
static const char *const other_distributions[] = {"alpine",     "fedora",    "archlinux",   "centos",
                                                  "rockylinux", "almalinux", "amazonlinux", "opensuse/leap"};

void recipe_use_suite(struct recipe *r, const struct suite *suite)
{
        if (suite->is_base)
                (void)snprintf(r->from, sizeof(r->from), RECIPE_BASE);
        else
                (void)snprintf(r->from, sizeof(r->from), "debian:%s", suite->name);
}

int recipe_add_run(struct recipe *r, struct err *err, const char *fmt, ...)
{
        AUTO_FREE char *command = NULL;
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vasprintf(&command, fmt, ap);
        va_end(ap);
        if (n < 0)
                command = NULL;
        if (!command || json_array_append_new(r->steps, json_pack("{s:s, s:[s, s], s:b}", "type", "RUN", "args",
                                                                  command, "root", "force", 0)) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        return 0;
}

int recipe_add_env(struct recipe *r, const char *name, const char *value, struct err *err)
{
        if (json_object_set_new(r->env, name, json_string(value)) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        return 0;
}

void recipe_note(struct recipe *r, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(r->note, sizeof(r->note), fmt, ap); /* cut: words for people */
        va_end(ap);
}

void recipe_note_more(struct recipe *r, const char *fmt, ...)
{
        size_t n = strlen(r->note);
        va_list ap;

        if (n + 3 > sizeof(r->note))
                return;
        memcpy(r->note + n, "; ", 3);
        va_start(ap, fmt);
        (void)vsnprintf(r->note + n + 2, sizeof(r->note) - n - 2, fmt, ap);
        va_end(ap);
}

void recipe_note_variants(struct recipe *r, const struct recipe_tag *tag, const struct suite *used)
{
        if (tag->is_alpine)
                recipe_note_more(r, "Debian stands in for Alpine: there is no apk");
        else if (tag->suite && tag->suite != used)
                recipe_note_more(r, "Debian %s stands in for %s", used->name, tag->suite->name);
}

static int no_recipe(const struct recipe_tag *tag, struct err *err)
{
        for (size_t i = 0; i < sizeof(other_distributions) / sizeof(other_distributions[0]); i++)
                if (str_is(tag->name, other_distributions[i]))
                        return err_set(err, ERR_NOT_FOUND,
                                       "image '%.*s' needs a registry: without one only images on Debian can be made. "
                                       "Set `registries`, or load the image with `sandglass image load`",
                                       STR_ARG(tag->image));
        return err_set(err, ERR_NOT_FOUND,
                       "image '%.*s' needs a registry: no recipe makes it. "
                       "Set `registries`, or load the image with `sandglass image load`",
                       STR_ARG(tag->image));
}

int recipe_find(const char *image, struct recipe *ret, struct err *err)
{
        struct recipe recipe = {0};
        struct recipe_tag tag;
        int r;

        r = recipe_tag_parse(image, &tag, err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                if (!str_is(tag.name, kinds[i].name))
                        continue;
                recipe.steps = json_array();
                recipe.env = json_object();
                r = recipe.steps && recipe.env ? kinds[i].make(&tag, &recipe, err)
                                               : err_set(err, ERR_LIMIT, "out of memory");
                if (r < 0)
                        recipe_done(&recipe);
                else
                        *ret = recipe;
                return r;
        }
        return no_recipe(&tag, err);
}

void recipe_done(struct recipe *r)
{
        json_decref(r->steps);
        json_decref(r->env);
        *r = (struct recipe){0};
}
