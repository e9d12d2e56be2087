#include "base/err.h"
#include "fuzz.h"
#include "model/credential/credential.h"

/* What is taken is files below the home and variables, and no error is without words. */
static void must_be_sound(const json_t *parts)
{
        const char *key, *path;
        json_t *v;
        size_t i;

        json_object_foreach (json_object_get(parts, "env"), key, v)
                MUST(key[0] && !strchr(key, '=') && json_is_string(v));
        json_array_foreach (json_object_get(parts, "files"), i, v) {
                path = json_string_value(json_object_get(v, "path"));
                MUST(path && path[0] && path[0] != '/' && strlen(path) <= CREDENTIAL_PATH_MAX);
                MUST(!strstr(path, "//") && strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0 &&
                     !strstr(path, "/../"));
                MUST(json_integer_value(json_object_get(v, "mode")) == CREDENTIAL_MODE);
                MUST(json_is_string(json_object_get(v, "content")));
        }
        MUST(json_object_size(json_object_get(parts, "env")) + json_array_size(json_object_get(parts, "files")) > 0);
}

/* The first line is the name, what follows is the value. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
        char name[CREDENTIAL_NAME_MAX + 2];
        size_t n = line ? (size_t)(line - data) : 0;
        struct err err = {0};
        json_t *parts = NULL;

        if (!line || n >= sizeof(name))
                return 0;
        memcpy(name, data, n);
        name[n] = 0;
        if (credential_unfold(name, (struct str){(const char *)line + 1, size - n - 1}, &parts, &err) < 0)
                MUST(!parts && err.kind == ERR_INVALID && err.msg[0]);
        else
                must_be_sound(parts);
        credential_free(parts);
        return 0;
}
