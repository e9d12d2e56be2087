/* Which server `doctor --remote` is about. */
#include "cli/doctor/remote_checks.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/conf.h"
#include "cli/options.h"
#include "model/conf.h"

#define HTTPS_PORT 443

static char *dup_member(const json_t *obj, const char *name)
{
        const char *text = json_string_value(json_object_get(obj, name));

        return text ? strdup(text) : NULL;
}

/* What the server noted when it was ready: not there, it is not on this machine. */
static void take_listening(const char *data_dir, struct remote_env *env)
{
        AUTO_FREE char *path = NULL;
        json_t *obj = NULL;

        if (asprintf(&path, "%s/run/listening", data_dir) > 0)
                obj = json_load_file(path, 0, NULL);
        env->listen = dup_member(obj, "listen");
        env->tls_listen = dup_member(obj, "tls_listen");
        env->tls_cert = dup_member(obj, "tls_cert");
        env->tls_key = dup_member(obj, "tls_key");
        env->domain = dup_member(obj, "domain");
        if (env->listen && !env->tls_cert && asprintf(&env->authority, "%s/ca/ca.pem", data_dir) < 0)
                env->authority = NULL;
        json_decref(obj);
}

static void take_key(const char *data_dir, struct remote_env *env)
{
        AUTO(envfile_done) struct envfile own = {0};
        const char *key = cli_remote_key();
        struct err err = {0};

        if (env->listen && cli_conf(data_dir, &own, &err) == 0)
                env->key = TAKE_PTR(own.api_key);
        else if (key)
                env->key = strdup(key);
}

static int split_domain(struct remote_env *env, struct err *err)
{
        struct str host = str_of(env->domain);

        env->port = HTTPS_PORT;
        if (strchr(env->domain, ':') && conf_split_address(str_of(env->domain), &host, &env->port) < 0)
                return err_set(err, ERR_INVALID, "'%s' is not NAME or NAME:PORT", env->domain);
        env->host = str_dup(host);
        return env->host ? 0 : err_set(err, ERR_LIMIT, "out of memory");
}

static bool is_same_host(const char *a, const char *b)
{
        size_t n = strcspn(a, ":");

        return n == strcspn(b, ":") && strncmp(a, b, n) == 0;
}

/* A domain of the command line or the environment: of the server here, by another port perhaps, or of another server. */
static void take_given(const char *given, struct remote_env *env)
{
        if (env->domain && !is_same_host(given, env->domain))
                remote_env_done(env);
        free(env->domain);
        env->domain = strdup(given);
}

int remote_env_find(const struct cli_options *o, struct remote_env *ret, struct err *err)
{
        const char *data_dir = o->data ? o->data : CLI_DEFAULT_DATA, *given = o->domain;

        *ret = (struct remote_env){0};
        if (!given && !o->data)
                given = cli_remote_domain();
        if (o->data || !given)
                take_listening(data_dir, ret);
        if (given)
                take_given(given, ret);
        if (!ret->domain)
                return err_set(
                        err, ERR_INVALID,
                        "which server? No server has been started in '%s': name its directory with --data, or its "
                        "domain with --domain or E2B_DOMAIN",
                        data_dir);
        take_key(data_dir, ret);
        return split_domain(ret, err);
}

void remote_env_done(struct remote_env *env)
{
        char *all[] = {env->domain,   env->host,    env->listen,    env->tls_listen,
                       env->tls_cert, env->tls_key, env->authority, env->key};

        for (size_t i = 0; i < ARRAY_LEN(all); i++)
                free(all[i]);
        *env = (struct remote_env){0};
}
