#include "image/registry_auth.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "image/image_ref.h"
#include "model/json_field.h"

#define NAME_MAX_BYTES 1024
#define SECRET_MAX_BYTES (16u << 10)

static int take_text(const json_t *obj, const char *name, size_t most, char **ret, struct err *err)
{
        const char *text = NULL;
        int r = json_field_text(obj, name, &text, err);

        if (r < 0)
                return r;
        if (!text || !text[0])
                return err_set(err, ERR_INVALID, "fromImageRegistry: %s is missing", name);
        if (strlen(text) > most)
                return err_set(err, ERR_INVALID, "fromImageRegistry: %s is longer than %zu bytes", name, most);
        *ret = strdup(text);
        return *ret ? 0 : err_sys(err, -ENOMEM, "credentials");
}

static int decode_password(const json_t *obj, struct registry_auth *a, struct err *err)
{
        int r = take_text(obj, "username", NAME_MAX_BYTES, &a->username, err);

        if (r == 0)
                r = take_text(obj, "password", SECRET_MAX_BYTES, &a->password, err);
        if (r == 0 && strchr(a->username, ':'))
                r = err_set(err, ERR_INVALID, "fromImageRegistry: username has a colon");
        a->kind = REGISTRY_AUTH_PASSWORD;
        return r;
}

static bool has_only(const char *text, const char *chars)
{
        return text[strspn(text, chars)] == 0;
}

static int decode_aws(const json_t *obj, struct registry_auth *a, struct err *err)
{
        int r = take_text(obj, "awsAccessKeyId", 128, &a->key_id, err);

        if (r == 0)
                r = take_text(obj, "awsSecretAccessKey", NAME_MAX_BYTES, &a->secret, err);
        if (r == 0)
                r = take_text(obj, "awsRegion", 40, &a->region, err);
        if (r < 0)
                return r;
        if (!has_only(a->key_id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"))
                return err_set(err, ERR_INVALID,
                               "fromImageRegistry: awsAccessKeyId has other characters than letters and digits");
        if (!has_only(a->region, "abcdefghijklmnopqrstuvwxyz0123456789-")) /* it becomes part of a host's name */
                return err_set(err, ERR_INVALID, "fromImageRegistry: awsRegion is not the name of a region");
        a->kind = REGISTRY_AUTH_AWS;
        return 0;
}

static int decode_gcp(const json_t *obj, struct registry_auth *a, struct err *err)
{
        a->kind = REGISTRY_AUTH_GCP;
        return take_text(obj, "serviceAccountJson", SECRET_MAX_BYTES, &a->service_account, err);
}

int registry_auth_decode(const json_t *obj, struct registry_auth *ret, struct err *err)
{
        struct registry_auth a = {0};
        const char *type = NULL;
        int r;

        if (obj && !json_is_null(obj) && !json_is_object(obj))
                return err_set(err, ERR_INVALID, "fromImageRegistry: is not an object");
        r = json_field_text(obj, "type", &type, err);
        if (r < 0)
                return r;
        if (!obj || json_is_null(obj))
                r = 0;
        else if (!type)
                r = err_set(err, ERR_INVALID, "fromImageRegistry: type is missing");
        else if (strcmp(type, "registry") == 0)
                r = decode_password(obj, &a, err);
        else if (strcmp(type, "aws") == 0)
                r = decode_aws(obj, &a, err);
        else if (strcmp(type, "gcp") == 0)
                r = decode_gcp(obj, &a, err);
        else
                r = err_set(err, ERR_INVALID, "fromImageRegistry: type is none of registry, aws, gcp");
        if (r < 0) {
                registry_auth_done(&a);
                return r;
        }
        *ret = a;
        return 0;
}

static void wipe(char **text)
{
        if (*text)
                explicit_bzero(*text, strlen(*text));
        free(*text);
        *text = NULL;
}

void registry_auth_done(struct registry_auth *a)
{
        char **texts[] = {&a->username, &a->password, &a->key_id, &a->secret, &a->region, &a->service_account};

        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                wipe(texts[i]);
        a->kind = REGISTRY_AUTH_NONE;
}

int registry_auth_check_host(const struct registry_auth *a, const struct image_ref *ref, struct err *err)
{
        struct str host = str_of(ref->host);

        if (a->kind == REGISTRY_AUTH_AWS && !str_ends(host, ".amazonaws.com") && !str_ends(host, ".amazonaws.com.cn"))
                return err_set(err, ERR_DENIED, "credentials of AWS are not for '%s'", ref->host);
        if (a->kind == REGISTRY_AUTH_GCP && !str_is(host, "gcr.io") && !str_ends(host, ".gcr.io") &&
            !str_ends(host, ".pkg.dev"))
                return err_set(err, ERR_DENIED, "credentials of Google are not for '%s'", ref->host);
        return 0;
}

bool registry_token_is_valid(const char *token, size_t most)
{
        size_t n = token ? strlen(token) : 0;

        if (n == 0 || n > most)
                return false;
        for (size_t i = 0; i < n; i++)
                if (token[i] <= ' ' || token[i] > '~')
                        return false;
        return true;
}
