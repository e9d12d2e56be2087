#include "model/json_field.h"

#include "base/err.h"

static const json_t *json_field_find(const json_t *obj, const char *name)
{
        const json_t *v = json_object_get(obj, name);

        return v && !json_is_null(v) ? v : NULL;
}

bool json_field_is_set(const json_t *obj, const char *name)
{
        return json_field_find(obj, name);
}

static int json_field_wrong(struct err *err, const char *name, const char *wanted)
{
        return err_set(err, ERR_INVALID, "validation error: field '%s' must be %s", name, wanted);
}

int json_field_bool(const json_t *obj, const char *name, bool *ret, struct err *err)
{
        const json_t *v = json_field_find(obj, name);

        if (!v)
                return 0;
        if (!json_is_boolean(v))
                return json_field_wrong(err, name, "true or false");
        *ret = json_is_true(v);
        return 0;
}

int json_field_int(const json_t *obj, const char *name, int64_t min, int64_t max, int64_t *ret, struct err *err)
{
        const json_t *v = json_field_find(obj, name);
        int64_t n;

        if (!v)
                return 0;
        if (!json_is_integer(v))
                return json_field_wrong(err, name, "an integer");
        n = json_integer_value(v);
        if (n < min || n > max)
                return err_set(err, ERR_INVALID, "validation error: field '%s' must be from %lld to %lld", name,
                               (long long)min, (long long)max);
        *ret = n;
        return 0;
}

int json_field_text(const json_t *obj, const char *name, const char **ret, struct err *err)
{
        const json_t *v = json_field_find(obj, name);

        if (!v)
                return 0;
        if (!json_is_string(v))
                return json_field_wrong(err, name, "a string");
        *ret = json_string_value(v);
        return 0;
}

int json_field_object(const json_t *obj, const char *name, json_t **ret, struct err *err)
{
        const json_t *v = json_field_find(obj, name);

        if (!v)
                return 0;
        if (!json_is_object(v))
                return json_field_wrong(err, name, "an object");
        *ret = (json_t *)v;
        return 0;
}

int json_field_array(const json_t *obj, const char *name, json_t **ret, struct err *err)
{
        const json_t *v = json_field_find(obj, name);

        if (!v)
                return 0;
        if (!json_is_array(v))
                return json_field_wrong(err, name, "an array");
        *ret = (json_t *)v;
        return 0;
}

int json_field_text_map(const json_t *obj, const char *name, json_t **ret, struct err *err)
{
        json_t *map = NULL, *v;
        const char *key;
        int r;

        r = json_field_object(obj, name, &map, err);
        if (r < 0 || !map)
                return r;
        json_object_foreach (map, key, v)
                if (!json_is_string(v))
                        return err_set(err, ERR_INVALID, "validation error: field '%s.%s' must be a string", name, key);
        *ret = map;
        return 0;
}

int json_field_text_list(const json_t *obj, const char *name, size_t most, json_t **ret, struct err *err)
{
        json_t *list = NULL, *v;
        size_t i;
        int r;

        r = json_field_array(obj, name, &list, err);
        if (r < 0 || !list)
                return r;
        if (json_array_size(list) > most)
                return err_set(err, ERR_INVALID, "validation error: field '%s' has more than %zu items", name, most);
        json_array_foreach (list, i, v)
                if (!json_is_string(v))
                        return err_set(err, ERR_INVALID, "validation error: field '%s[%zu]' must be a string", name, i);
        *ret = list;
        return 0;
}

json_t *json_with(json_t *obj, const char *name, json_t *value)
{
        if (json_object_set_new(obj, name, value) == 0)
                return obj;
        json_decref(obj);
        return NULL;
}

json_t *json_with_text(json_t *obj, const char *name, const char *text)
{
        return text ? json_with(obj, name, json_string(text)) : obj;
}

json_t *json_with_ref(json_t *obj, const char *name, json_t *value)
{
        return value ? json_with(obj, name, json_incref(value)) : obj;
}
