#include "control/build/build_chain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void build_chain_done(struct build_chain *c)
{
        json_decref(c->layers);
        json_decref(c->env);
        free(c->user);
        free(c->workdir);
        free(c->start_cmd);
        free(c->ready_cmd);
        *c = (struct build_chain){0};
}

int build_chain_set_text(char **to, const char *text)
{
        char *copy = text ? strdup(text) : NULL;

        if (text && !copy)
                return -ENOMEM;
        free(*to);
        *to = copy;
        return 0;
}

int build_chain_copy(const struct build_chain *from, struct build_chain *ret)
{
        struct build_chain c = {.layers = json_copy(from->layers),
                                .env = from->env ? json_copy(from->env) : json_object(),
                                .key = from->key,
                                .is_forced = from->is_forced};

        if (!c.layers || !c.env || build_chain_set_text(&c.user, from->user) < 0 ||
            build_chain_set_text(&c.workdir, from->workdir) < 0 ||
            build_chain_set_text(&c.start_cmd, from->start_cmd) < 0 ||
            build_chain_set_text(&c.ready_cmd, from->ready_cmd) < 0) {
                build_chain_done(&c);
                return -ENOMEM;
        }
        *ret = c;
        return 0;
}

int build_chain_add_layer(struct build_chain *c, const char *layer)
{
        return json_array_append_new(c->layers, json_string(layer)) < 0 ? -ENOMEM : 0;
}

const char *build_chain_user(const struct build_chain *c)
{
        return c->user ? c->user : "root";
}

json_t *build_chain_context(const struct build_chain *c)
{
        return json_pack("{s:O,s:s,s:o}", "env", c->env, "user", build_chain_user(c), "workdir",
                         c->workdir ? json_string(c->workdir) : json_null());
}

int build_chain_set_context(struct build_chain *c, const json_t *context)
{
        json_t *env = json_object_get(context, "env");
        const char *user = json_string_value(json_object_get(context, "user"));

        if (!json_is_object(env) || !user)
                return -EINVAL;
        env = json_copy(env);
        if (!env || build_chain_set_text(&c->user, user) < 0 ||
            build_chain_set_text(&c->workdir, json_string_value(json_object_get(context, "workdir"))) < 0) {
                json_decref(env);
                return -ENOMEM;
        }
        json_decref(c->env);
        c->env = env;
        return 0;
}

char *build_chain_path(const struct build_chain *c, const char *path)
{
        const char *below = c->workdir ? c->workdir : "/";
        char *out;

        if (path[0] == '/')
                return strdup(path);
        return asprintf(&out, "%s%s%s", below, below[strlen(below) - 1] == '/' ? "" : "/", path) < 0 ? NULL : out;
}
