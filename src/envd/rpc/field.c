#include "envd/rpc/field.h"

#include <errno.h>

#include "wire/base64.h"

#define NAME_MAX_LEN 64

static void snake_case_name(const char *camel, char out[NAME_MAX_LEN])
{
        size_t n = 0;

        for (; *camel && n < NAME_MAX_LEN - 2; camel++) {
                if (*camel >= 'A' && *camel <= 'Z') {
                        out[n++] = '_';
                        out[n++] = (char)(*camel + 32);
                } else {
                        out[n++] = *camel;
                }
        }
        out[n] = 0;
}

json_t *field_get(const json_t *obj, const char *name)
{
        json_t *v = json_object_get(obj, name);
        char other[NAME_MAX_LEN];

        if (!v) {
                snake_case_name(name, other);
                v = json_object_get(obj, other);
        }
        return json_is_null(v) ? NULL : v;
}

static int field_wrong_type(struct fault *f, const char *name, const char *what)
{
        return fault_set(f, CONNECT_INVALID_ARGUMENT, "unmarshal message: field %s: %s expected", name, what);
}

int field_text(const json_t *obj, const char *name, const char **ret, struct fault *f)
{
        const json_t *v = field_get(obj, name);

        if (v && !json_is_string(v))
                return field_wrong_type(f, name, "a string");
        *ret = v ? json_string_value(v) : NULL;
        return 0;
}

int field_bool(const json_t *obj, const char *name, bool *ret, struct fault *f)
{
        const json_t *v = field_get(obj, name);

        if (v && !json_is_boolean(v))
                return field_wrong_type(f, name, "true or false");
        if (v)
                *ret = json_is_true(v);
        return 0;
}

int field_u32(const json_t *obj, const char *name, uint32_t *ret, struct fault *f)
{
        const json_t *v = field_get(obj, name);
        double real;

        if (!v) {
                *ret = 0;
                return 0;
        }
        if (json_is_string(v)) {
                struct str s = {json_string_value(v), json_string_length(v)};

                return parse_u32(s, 0, UINT32_MAX, ret) < 0 ? field_wrong_type(f, name, "a number of 32 bits") : 0;
        }
        if (!json_is_number(v))
                return field_wrong_type(f, name, "a number of 32 bits");
        real = json_number_value(v);
        if (!(real >= 0 && real <= UINT32_MAX) || real != (double)(uint32_t)real) /* 1e3 and 3.0 are whole numbers */
                return field_wrong_type(f, name, "a number of 32 bits");
        *ret = (uint32_t)real;
        return 0;
}

int field_object(const json_t *obj, const char *name, json_t **ret, struct fault *f)
{
        json_t *v = field_get(obj, name);

        if (v && !json_is_object(v))
                return field_wrong_type(f, name, "an object");
        *ret = v;
        return 0;
}

int field_text_map(const json_t *obj, const char *name, json_t **ret, struct fault *f)
{
        const char *key;
        json_t *v;

        if (field_object(obj, name, ret, f) < 0)
                return -1;
        json_object_foreach (*ret, key, v) {
                if (!json_is_string(v))
                        return field_wrong_type(f, name, "an object of strings");
        }
        return 0;
}

int field_text_list(const json_t *obj, const char *name, json_t **ret, struct fault *f)
{
        json_t *list = field_get(obj, name), *v;
        size_t i;

        if (list && !json_is_array(list))
                return field_wrong_type(f, name, "an array");
        json_array_foreach (list, i, v) {
                if (!json_is_string(v))
                        return field_wrong_type(f, name, "an array of strings");
        }
        *ret = list;
        return 0;
}

int field_bytes(const json_t *obj, const char *name, struct buf *out, bool *ret_present, struct fault *f)
{
        const json_t *v = field_get(obj, name);
        int r;

        *ret_present = v != NULL;
        if (!v)
                return 0;
        if (!json_is_string(v))
                return field_wrong_type(f, name, "base64 text");
        r = base64_decode((struct str){json_string_value(v), json_string_length(v)}, out);
        if (r == -EINVAL)
                return field_wrong_type(f, name, "base64 text");
        return r < 0 ? fault_sys(f, CONNECT_RESOURCE_EXHAUSTED, -r, "field %s", name) : 0;
}
