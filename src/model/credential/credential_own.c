/* Credentials of other kinds: a name in capitals is a variable; any other name has an object that says everything. */
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "model/credential/credential.h"
#include "model/credential/credential_parts.h"
#include "model/json_field.h"

static bool is_variable(struct str name, bool may_have_small_letters)
{
        for (size_t i = 0; i < name.n; i++) {
                char c = name.p[i];

                if (c != '_' && !(c >= 'A' && c <= 'Z') && !(i > 0 && c >= '0' && c <= '9') &&
                    !(may_have_small_letters && c >= 'a' && c <= 'z'))
                        return false;
        }
        return name.n > 0 && name.n <= CREDENTIAL_NAME_MAX;
}

/* "dir/file": relative, without "." and "..", nothing that a terminal or another program might misread. */
static bool is_path(struct str path)
{
        unsigned parts = 0;
        struct str part;
        bool more;

        if (path.n == 0 || path.n > CREDENTIAL_PATH_MAX || !str_is_utf8(path))
                return false;
        for (size_t i = 0; i < path.n; i++)
                if ((unsigned char)path.p[i] < ' ' || path.p[i] == 0x7f || path.p[i] == '\\')
                        return false;
        do {
                more = str_cut(&path, '/', &part);
                if (part.n == 0 || str_is(part, ".") || str_is(part, "..") || str_is(part, "~") ||
                    ++parts > CREDENTIAL_PATH_PARTS_MAX)
                        return false;
        } while (more);
        return true;
}

static struct str text_of(const json_t *v)
{
        return (struct str){json_string_value(v), json_string_length(v)};
}

static int add_variables(const json_t *env, json_t *parts, struct err *err)
{
        const char *name;
        json_t *value;
        int r = 0;

        if (json_object_size(env) > CREDENTIAL_FILES_MAX)
                return err_set(err, ERR_INVALID, "env: at most %u variables", CREDENTIAL_FILES_MAX);
        json_object_foreach ((json_t *)env, name, value) {
                if (!is_variable(str_of(name), true))
                        return err_set(err, ERR_INVALID, "env: a name is not one of a variable");
                if (r == 0)
                        r = parts_add_variable(parts, name, text_of(value), err);
        }
        return r;
}

static int add_files(const json_t *files, json_t *parts, struct err *err)
{
        const char *path;
        json_t *content;
        int r = 0;

        if (json_object_size(files) > CREDENTIAL_FILES_MAX)
                return err_set(err, ERR_INVALID, "files: at most %u files", CREDENTIAL_FILES_MAX);
        json_object_foreach ((json_t *)files, path, content) {
                if (!is_path(str_of(path)))
                        return err_set(err, ERR_INVALID,
                                       "files: a name must be a path below the home directory, without '..', of at "
                                       "most %u bytes and %u parts",
                                       CREDENTIAL_PATH_MAX, CREDENTIAL_PATH_PARTS_MAX);
                if (r == 0)
                        r = parts_add_file(parts, path, text_of(content), err);
        }
        return r;
}

/* Not json_field_text_map(), which names the member that is wrong. */
static int take_texts(const json_t *obj, const char *name, json_t **ret, struct err *err)
{
        const char *key;
        json_t *value;
        int r = json_field_object(obj, name, ret, err);

        json_object_foreach (*ret, key, value)
                if (r == 0 && !json_is_string(value))
                        r = err_set(err, ERR_INVALID, "%s: every value must be text", name);
        return r;
}

static int unfold_object(const json_t *obj, json_t *parts, struct err *err)
{
        json_t *env = NULL, *files = NULL;
        const char *key;
        json_t *value;
        int r = take_texts(obj, "env", &env, err);

        if (r == 0)
                r = take_texts(obj, "files", &files, err);
        if (r < 0)
                return r;
        json_object_foreach ((json_t *)obj, key, value)
                if (strcmp(key, "env") != 0 && strcmp(key, "files") != 0)
                        return err_set(err, ERR_INVALID, "it may have only \"env\" and \"files\"");
        if (json_object_size(env) + json_object_size(files) == 0)
                return err_set(err, ERR_INVALID, "it must have a variable in \"env\" or a file in \"files\"");
        r = add_variables(env, parts, err);
        return r < 0 ? r : add_files(files, parts, err);
}

int unfold_own(const char *name, struct str value, json_t *parts, struct err *err)
{
        struct str word;
        json_t *obj;
        int r;

        if (is_variable(str_of(name), false)) {
                if (!value_is_token(value, &word))
                        return err_set(err, ERR_INVALID, "%s: the value of a variable must be one word", name);
                return parts_add_variable(parts, name, word, err);
        }
        obj = value_is_object(value) ? json_loadb(value.p, value.n, JSON_REJECT_DUPLICATES, NULL) : NULL;
        if (!obj)
                return err_set(
                        err, ERR_INVALID,
                        "%s: this name is not known, so the value must be an object like {\"env\":{\"NAME\":\"text\"},"
                        "\"files\":{\".path/file\":\"content\"}}; or take the name of a variable, in capitals",
                        name);
        r = unfold_object(obj, parts, err);
        credential_free(obj);
        return r < 0 ? err_wrap(err, "%s", name) : 0;
}
