#include "agent/request/text_field.h"

#include <string.h>

#include "base/err.h"
#include "model/json_field.h"

static bool has_nul(const json_t *text)
{
        return memchr(json_string_value(text), 0, json_string_length(text)) != NULL;
}

int text_field(const json_t *body, const char *name, const char **ret, struct err *err)
{
        int r;

        if (!json_field_is_set(body, name))
                return 0;
        r = json_field_text(body, name, ret, err);
        if (r == 0 && has_nul(json_object_get(body, name)))
                return err_set(err, ERR_INVALID, "validation error: field '%s' has a NUL", name);
        return r;
}

int text_field_map(const json_t *body, const char *name, json_t **ret, struct err *err)
{
        json_t *map = NULL, *v;
        const char *key;
        int r = json_field_text_map(body, name, &map, err);

        if (r < 0 || !map)
                return r;
        json_object_foreach (map, key, v)
                if (has_nul(v))
                        return err_set(err, ERR_INVALID, "validation error: field '%s.%.64s' has a NUL", name, key);
        *ret = map;
        return 0;
}

int text_field_list(const json_t *body, const char *name, size_t most, json_t **ret, struct err *err)
{
        json_t *list = NULL, *v;
        size_t i;
        int r = json_field_text_list(body, name, most, &list, err);

        if (r < 0 || !list)
                return r;
        json_array_foreach (list, i, v)
                if (has_nul(v))
                        return err_set(err, ERR_INVALID, "validation error: field '%s[%zu]' has a NUL", name, i);
        *ret = list;
        return 0;
}

int text_field_env(const json_t *body, json_t **ret, struct err *err)
{
        json_t *env = NULL, *v;
        const char *name;
        int r = text_field_map(body, "env", &env, err);

        if (r < 0 || !env)
                return r;
        json_object_foreach (env, name, v)
                if (!name[0] || strchr(name, '='))
                        return err_set(err, ERR_INVALID,
                                       "validation error: field 'env' has the name '%.64s': names are not empty and "
                                       "have no '='",
                                       name);
        *ret = env;
        return 0;
}

int text_field_user(const json_t *body, const char **ret, struct err *err)
{
        const char *user = NULL;
        int r = text_field(body, "user", &user, err);

        if (r < 0 || !user)
                return r;
        if (!user[0] || strchr(user, ':'))
                return err_set(err, ERR_INVALID, "validation error: field 'user' is no name of a user");
        *ret = user;
        return 0;
}
