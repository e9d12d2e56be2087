#include "client/modes/environment.h"

#include <stdlib.h>
#include <string.h>

#include "sandglass-modes.h"

#define VARIABLES_MAX 4096u

const char *const environment_default_names[] = {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", NULL};

/* What a program needs to find others, its user's files, its terminal, and whom to trust. */
static const char *const usual_names[] = {"PATH",
                                          "HOME",
                                          "USER",
                                          "LOGNAME",
                                          "SHELL",
                                          "TMPDIR",
                                          "TZ",
                                          "TERM",
                                          "LANG",
                                          "LC_ALL",
                                          "LC_CTYPE",
                                          "LANGUAGE",
                                          "XDG_CACHE_HOME",
                                          "XDG_CONFIG_HOME",
                                          "XDG_DATA_HOME",
                                          "XDG_RUNTIME_DIR",
                                          "NODE_EXTRA_CA_CERTS",
                                          "SSL_CERT_FILE",
                                          "SSL_CERT_DIR",
                                          "HTTP_PROXY",
                                          "HTTPS_PROXY",
                                          "NO_PROXY",
                                          "http_proxy",
                                          "https_proxy",
                                          "no_proxy",
                                          NULL};

enum sg_mode environment_mode(void)
{
        return sg_mode_from_name(getenv("SANDBOX_MODE"));
}

void environment_done(struct environment *e)
{
        for (size_t i = 0; i < e->count; i++) {
                free((char *)(uintptr_t)e->pairs[i].name);
                free((char *)(uintptr_t)e->pairs[i].value);
        }
        free(e->pairs);
        *e = (struct environment){0};
}

/* In place of an earlier one of the same name. */
static int put(struct environment *e, const char *name, const char *value, struct sg_error *err)
{
        AUTO_FREE char *own_name = strdup(name);
        AUTO_FREE char *own_value = strdup(value);
        struct sg_pair *pairs;
        size_t i = 0;

        if (!own_name || !own_value)
                return error_no_memory(err);
        while (i < e->count && strcmp(e->pairs[i].name, name) != 0)
                i++;
        if (i < e->count) {
                free((char *)(uintptr_t)e->pairs[i].value);
                e->pairs[i].value = TAKE_PTR(own_value);
                return 0;
        }
        if (e->count >= VARIABLES_MAX)
                return error_set(err, SG_INVALID, "more than %u variables", VARIABLES_MAX);
        pairs = reallocarray(e->pairs, e->count + 2, sizeof(*pairs));
        if (!pairs)
                return error_no_memory(err);
        pairs[e->count++] = (struct sg_pair){TAKE_PTR(own_name), TAKE_PTR(own_value)};
        pairs[e->count] = (struct sg_pair){NULL, NULL};
        e->pairs = pairs;
        return 0;
}

int environment_pass(struct environment *e, const char *const *names, struct sg_error *err)
{
        int r = 0;

        for (; r == 0 && *names; names++) {
                const char *value = getenv(*names);

                if (value)
                        r = put(e, *names, value, err);
        }
        return r;
}

int environment_pass_usual(struct environment *e, struct sg_error *err)
{
        return environment_pass(e, usual_names, err);
}

int environment_add(struct environment *e, const struct sg_pair *pairs, struct sg_error *err)
{
        int r = 0;

        for (; r == 0 && pairs && pairs->name; pairs++) {
                if (!pairs->name[0] || strchr(pairs->name, '=') || !pairs->value)
                        return error_set(err, SG_INVALID, "'%.60s' is no variable with a value", pairs->name);
                r = put(e, pairs->name, pairs->value, err);
        }
        return r;
}

char **environment_strings(const struct environment *e)
{
        size_t bytes = (e->count + 1) * sizeof(char *);
        char **strings, *at;

        for (size_t i = 0; i < e->count; i++)
                bytes += strlen(e->pairs[i].name) + strlen(e->pairs[i].value) + 2;
        strings = malloc(bytes);
        if (!strings)
                return NULL;
        at = (char *)(strings + e->count + 1);
        for (size_t i = 0; i < e->count; i++) {
                strings[i] = at;
                at = stpcpy(at, e->pairs[i].name);
                *at++ = '=';
                at = stpcpy(at, e->pairs[i].value) + 1;
        }
        strings[e->count] = NULL;
        return strings;
}
