#include "cli/output.h"

#include <stdio.h>

const char *output_text(const json_t *obj, const char *key)
{
        const char *text = json_string_value(json_object_get(obj, key));

        return text && text[0] ? text : "-";
}

void output_size(json_int_t bytes, char out[16])
{
        static const char units[] = "KMGT";
        double n = (double)bytes / 1024;
        int i = 0;

        for (; n >= 1024 && units[i + 1]; i++)
                n /= 1024;
        (void)snprintf(out, 16, "%.1f %ciB", n, units[i]);
}

void output_json(const json_t *v)
{
        (void)json_dumpf(v, stdout, JSON_INDENT(2));
        (void)puts("");
}

void output_list(const json_t *list, bool as_json, void (*print_table)(const json_t *list))
{
        if (as_json)
                output_json(list);
        else
                print_table(list);
}
