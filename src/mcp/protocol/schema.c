#include "mcp/protocol/schema.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define NAME_MAX_CHARS 128

static bool is_type(const json_t *value, const char *type)
{
        if (strcmp(type, "object") == 0)
                return json_is_object(value);
        if (strcmp(type, "array") == 0)
                return json_is_array(value);
        if (strcmp(type, "string") == 0)
                return json_is_string(value);
        if (strcmp(type, "integer") == 0)
                return json_is_integer(value);
        if (strcmp(type, "number") == 0)
                return json_is_number(value);
        return strcmp(type, "boolean") == 0 && json_is_boolean(value);
}

static int check_text(const json_t *schema, const json_t *value, const char *name, struct err *err)
{
        json_t *one, *least = json_object_get(schema, "minLength"), *most = json_object_get(schema, "maxLength");
        json_t *allowed = json_object_get(schema, "enum");
        json_int_t n = (json_int_t)json_string_length(value);
        size_t i;

        if (strlen(json_string_value(value)) != json_string_length(value))
                return err_set(err, ERR_INVALID, "%s must not have a NUL character", name);
        if (least && n < json_integer_value(least))
                return err_set(err, ERR_INVALID, "%s must not be empty", name);
        if (most && n > json_integer_value(most))
                return err_set(err, ERR_INVALID, "%s is longer than %lld bytes", name,
                               (long long)json_integer_value(most));
        json_array_foreach (allowed, i, one) {
                if (json_equal(one, value))
                        return 0;
        }
        return allowed ? err_set(err, ERR_INVALID, "%s has a value that is not allowed: %.60s", name,
                                 json_string_value(value))
                       : 0;
}

static int check_number(const json_t *schema, const json_t *value, const char *name, struct err *err)
{
        json_t *least = json_object_get(schema, "minimum"), *most = json_object_get(schema, "maximum");
        double n = json_number_value(value);

        if ((least && n < json_number_value(least)) || (most && n > json_number_value(most)))
                return err_set(err, ERR_INVALID, "%s must be from %.0f to %.0f", name, json_number_value(least),
                               json_number_value(most));
        return 0;
}

static int check(const json_t *schema, const json_t *value, const char *name, struct err *err);

static int check_items(const json_t *schema, const json_t *value, const char *name, struct err *err)
{
        json_t *items = json_object_get(schema, "items"), *least = json_object_get(schema, "minItems");
        json_t *most = json_object_get(schema, "maxItems"), *one;
        json_int_t n = (json_int_t)json_array_size(value);
        char inner[NAME_MAX_CHARS];
        size_t i;

        if ((least && n < json_integer_value(least)) || (most && n > json_integer_value(most)))
                return err_set(err, ERR_INVALID, "%s has %lld items: too few or too many", name, (long long)n);
        json_array_foreach (value, i, one) {
                int r;

                (void)snprintf(inner, sizeof(inner), "%.100s[%zu]", name, i);
                r = items ? check(items, one, inner, err) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int check_members(const json_t *schema, const json_t *value, const char *name, struct err *err)
{
        json_t *members = json_object_get(schema, "properties"), *one;
        const char *prefix = name[0] ? name : "", *dot = name[0] ? "." : "", *key;
        char inner[NAME_MAX_CHARS];
        size_t i;

        json_array_foreach (json_object_get(schema, "required"), i, one) {
                if (!json_object_get(value, json_string_value(one)))
                        return err_set(err, ERR_INVALID, "%.60s%s%.60s is missing", prefix, dot,
                                       json_string_value(one));
        }
        json_object_foreach ((json_t *)(uintptr_t)value, key, one) {
                json_t *member = json_object_get(members, key), *more = json_object_get(schema, "additionalProperties");
                int r;

                (void)snprintf(inner, sizeof(inner), "%.60s%s%.60s", prefix, dot, key);
                if (!member && json_is_false(more))
                        return err_set(err, ERR_INVALID, "%s is not an argument of this tool", inner);
                if (!member && json_is_object(more))
                        member = more;
                r = member ? check(member, one, inner, err) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int check(const json_t *schema, const json_t *value, const char *name, struct err *err)
{
        const char *type = json_string_value(json_object_get(schema, "type"));

        if (type && !is_type(value, type))
                return err_set(err, ERR_INVALID, "%s must be of type %s", name[0] ? name : "arguments", type);
        if (json_is_object(value))
                return check_members(schema, value, name, err);
        if (json_is_array(value))
                return check_items(schema, value, name, err);
        if (json_is_string(value))
                return check_text(schema, value, name, err);
        return json_is_number(value) ? check_number(schema, value, name, err) : 0;
}

int schema_check(const json_t *schema, const json_t *value, struct err *err)
{
        return check(schema, value, "", err);
}
