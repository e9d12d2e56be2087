#include "gateway/tidy_tool.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"

static bool is_object_schema(const json_t *schema)
{
        const char *type = json_string_value(json_object_get(schema, "type"));

        return type && strcmp(type, "object") == 0;
}

static bool has_nul(const json_t *text)
{
        return strlen(json_string_value(text)) != json_string_length(text);
}

static json_t *tidy_annotations(const json_t *annotations)
{
        json_t *tidy = json_object(), *value;
        const char *name;

        json_object_foreach ((json_t *)(uintptr_t)annotations, name, value) {
                if (strcmp(name, "title") == 0 ? json_is_string(value) : json_is_boolean(value))
                        (void)json_object_set(tidy, name, value);
        }
        return tidy;
}

json_t *tidy_tool(const json_t *tool)
{
        static const struct {
                const char *name;
                json_type type;
        } fields[] = {
                {"name", JSON_STRING}, {"title", JSON_STRING}, {"description", JSON_STRING}, {"_meta", JSON_OBJECT}};
        json_t *tidy = json_object(), *schema = json_object_get(tool, "inputSchema"),
               *output = json_object_get(tool, "outputSchema");

        for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
                json_t *value = json_object_get(tool, fields[i].name);

                if (value && json_typeof(value) == fields[i].type)
                        (void)json_object_set(tidy, fields[i].name, value);
        }
        if (is_object_schema(schema))
                (void)json_object_set(tidy, "inputSchema", schema);
        else
                (void)json_object_set_new(tidy, "inputSchema", json_pack("{s:s}", "type", "object"));
        if (json_is_object(json_object_get(tool, "annotations")))
                (void)json_object_set_new(tidy, "annotations", tidy_annotations(json_object_get(tool, "annotations")));
        if (is_object_schema(output))
                (void)json_object_set(tidy, "outputSchema", output);
        if (json_object_get(tidy, "name") && !has_nul(json_object_get(tidy, "name")))
                return tidy;
        json_decref(tidy);
        return NULL;
}
