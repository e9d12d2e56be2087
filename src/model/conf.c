#include "model/conf.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/str.h"

enum conf_type { CONF_TEXT, CONF_BOOL, CONF_U32, CONF_MAP, CONF_LIST };

#define CONF_ITEMS_MAX 256 /* in a map or a list */
#define SANDBOX_ENV_MAX (64u << 10)
#define SANDBOX_DNS_MAX 3u /* as many as resolv.conf(5) takes */

/* Every key, its type and its range, in one place.  `is_internal` keys are for roles only, never from a file. */
static const struct conf_key {
        const char *name;
        enum conf_type type;
        size_t at;
        uint32_t min, max;
        bool is_internal;
} keys[] = {
#define TEXT(member)                                                                                                   \
        {                                                                                                              \
#member, CONF_TEXT, offsetof(struct conf, member)                                                      \
        }
#define BOOL(member)                                                                                                   \
        {                                                                                                              \
#member, CONF_BOOL, offsetof(struct conf, member)                                                      \
        }
#define U32(member, min, max)                                                                                          \
        {                                                                                                              \
#member, CONF_U32, offsetof(struct conf, member), min, max                                             \
        }
#define MAP(member)                                                                                                    \
        {                                                                                                              \
#member, CONF_MAP, offsetof(struct conf, member)                                                       \
        }
#define LIST(member)                                                                                                   \
        {                                                                                                              \
#member, CONF_LIST, offsetof(struct conf, member)                                                      \
        }
        {"data_dir", CONF_TEXT, offsetof(struct conf, data_dir), .is_internal = true},
        {"envd", CONF_TEXT, offsetof(struct conf, envd), .is_internal = true},
        {"make_key", CONF_BOOL, offsetof(struct conf, make_key), .is_internal = true},
        {"exports", CONF_TEXT, offsetof(struct conf, exports), .is_internal = true},
        TEXT(images_dir),
        TEXT(criu_dir),
        TEXT(listen),
        TEXT(tls_listen),
        BOOL(insecure_listen),
        TEXT(domain),
        TEXT(tls_cert),
        TEXT(tls_key),
        TEXT(group),
        TEXT(log_level),
        BOOL(stop_sandboxes),
        U32(edge_count, 0, CONF_EDGES_MAX),
        U32(control_uid, 1, UINT32_MAX - 1),
        U32(edge_uid, 1, UINT32_MAX - 1),
        U32(builder_uid, 1, UINT32_MAX - 1),
        U32(puller_uid, 1, UINT32_MAX - 1),
        U32(agent_uid, 1, UINT32_MAX - 1),
        U32(pool_size, 0, 1024),
        U32(warm_mb, 0, 16 * 1024 * 1024),
        U32(warm_stall_ms, 1, 2000),
        U32(standbys, 0, 64),
        U32(standby_memory_mb, 0, 16 * 1024 * 1024),
        U32(sandboxes_max, 1, 100000),
        U32(builds_max, 1, 1000),
        U32(builds_kept, 0, 10000),
        U32(build_cache_days, 0, 36500),
        U32(template_cpus_max, 1, 32),
        U32(template_memory_max_mb, 128, 1024 * 1024),
        U32(upload_max_mb, 1, 1024 * 1024),
        U32(lost_days, 0, 36500),
        U32(timeout_max_s, 1, 30 * 24 * 3600),
        U32(sandbox_connections_max, 0, 1000000),
        BOOL(access_log),
        U32(default_memory_mb, 32, 1024 * 1024),
        U32(default_cpus, 1, 1024),
        U32(default_pids, 16, 1000000),
        U32(build_timeout_s, 1, 7 * 24 * 3600),
        U32(build_ready_timeout_s, 1, 24 * 3600),
        U32(build_cache_free_mb, 0, UINT32_MAX - 1),
        TEXT(first_use),
        TEXT(image_source),
        TEXT(sandbox_ca),
        MAP(sandbox_env),
        LIST(sandbox_dns),
        MAP(registries),
        LIST(insecure_registries),
        TEXT(registry_proxy),
        TEXT(registry_aws_url),
        TEXT(registry_gcp_url),
#undef TEXT
#undef BOOL
#undef U32
#undef MAP
#undef LIST
};

static const struct {
        const char *name;
        size_t at;
} fd_keys[] = {
#define FD(member)                                                                                                     \
        {                                                                                                              \
#member, offsetof(struct conf_fds, member)                                                             \
        }
        FD(http),         FD(https), FD(api),     FD(routes), FD(engine), FD(dial),    FD(tls_cert),    FD(tls_key),
        FD(tls_renewals), FD(users), FD(builder), FD(puller), FD(agent),  FD(clients), FD(credentials), FD(secret_key),
#undef FD
};

static void *conf_field(const struct conf *c, size_t at)
{
        return (char *)c + at; /* the table's offset says which member, and its type which pointer */
}

static int conf_set_text(char **to, const char *text)
{
        char *copy = text ? strdup(text) : NULL;

        if (text && !copy)
                return -1;
        free(*to);
        *to = copy;
        return 0;
}

int conf_defaults(struct conf *ret, const char *data_dir, struct err *err)
{
        struct conf c = {
                .control_uid = CONF_CONTROL_UID,
                .edge_uid = CONF_EDGE_UID,
                .builder_uid = CONF_BUILDER_UID,
                .puller_uid = CONF_PULLER_UID,
                .agent_uid = CONF_AGENT_UID,
                .pool_size = 16,
                .warm_mb = 1024,
                .warm_stall_ms = 200,
                .standbys = 2,
                .standby_memory_mb = 1024,
                .sandboxes_max = 10000,
                .builds_max = 20,
                .builds_kept = 10,
                .build_cache_days = 30,
                .template_cpus_max = 32,
                .template_memory_max_mb = 65536,
                .upload_max_mb = 8192,
                .lost_days = 30,
                .timeout_max_s = 24 * 3600,
                .default_memory_mb = 1024,
                .default_cpus = 2,
                .default_pids = 4096,
                .build_timeout_s = 3600,
                .build_ready_timeout_s = 600,
                .build_cache_free_mb = 2048,
        };

        for (size_t i = 0; i < ARRAY_LEN(fd_keys); i++)
                *(int *)(void *)((char *)&c.fds + fd_keys[i].at) = -1;
        if (data_dir[0] != '/')
                return err_set(err, ERR_INVALID, "data_dir: '%s' is not an absolute path", data_dir);
        if (asprintf(&c.images_dir, "%s/images", data_dir) < 0)
                c.images_dir = NULL;
        if (asprintf(&c.criu_dir, "%s/criu", data_dir) < 0)
                c.criu_dir = NULL;
        if (!c.images_dir || !c.criu_dir || conf_set_text(&c.data_dir, data_dir) < 0 ||
            conf_set_text(&c.listen, "127.0.0.1:3000") < 0 || conf_set_text(&c.tls_listen, "127.0.0.1:3443") < 0 ||
            conf_set_text(&c.domain, CONF_DEFAULT_DOMAIN) < 0 || conf_set_text(&c.log_level, "info") < 0 ||
            conf_set_text(&c.image_source, "auto") < 0 || conf_set_text(&c.first_use, "wait") < 0) {
                conf_done(&c);
                return err_set(err, ERR_LIMIT, "out of memory");
        }
        *ret = c;
        return 0;
}

static int apply_text(char **to, const char *name, const json_t *value, struct err *err)
{
        const char *text = json_string_value(value);

        if (!text)
                return err_set(err, ERR_INVALID, "%s: must be text", name);
        if (!text[0] || strlen(text) != json_string_length(value))
                return err_set(err, ERR_INVALID, "%s: must not be empty or hold a NUL", name);
        if (conf_set_text(to, text) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        return 0;
}

static bool is_plain_text(const json_t *value)
{
        const char *text = json_string_value(value);

        return text && text[0] && strlen(text) == json_string_length(value);
}

static int apply_map(json_t **to, const char *name, const json_t *value, struct err *err)
{
        const char *key;
        json_t *item;

        if (!json_is_object(value))
                return err_set(err, ERR_INVALID, "%s: must be an object", name);
        if (json_object_size(value) > CONF_ITEMS_MAX)
                return err_set(err, ERR_INVALID, "%s: has more than %d members", name, CONF_ITEMS_MAX);
        json_object_foreach ((json_t *)value, key, item)
                if (!is_plain_text(item))
                        return err_set(err, ERR_INVALID, "%s: '%s' must be text, not empty and without NUL", name, key);
        json_decref(*to);
        *to = json_deep_copy(value);
        return *to ? 0 : err_set(err, ERR_LIMIT, "out of memory");
}

static int apply_list(json_t **to, const char *name, const json_t *value, struct err *err)
{
        json_t *item;
        size_t i;

        if (!json_is_array(value))
                return err_set(err, ERR_INVALID, "%s: must be a list", name);
        if (json_array_size(value) > CONF_ITEMS_MAX)
                return err_set(err, ERR_INVALID, "%s: has more than %d items", name, CONF_ITEMS_MAX);
        json_array_foreach ((json_t *)value, i, item)
                if (!is_plain_text(item))
                        return err_set(err, ERR_INVALID, "%s: item %zu must be text, not empty and without NUL", name,
                                       i + 1);
        json_decref(*to);
        *to = json_deep_copy(value);
        return *to ? 0 : err_set(err, ERR_LIMIT, "out of memory");
}

static int apply_key(struct conf *c, const struct conf_key *k, const json_t *value, struct err *err)
{
        json_int_t number;

        switch (k->type) {
        case CONF_TEXT: return apply_text(conf_field(c, k->at), k->name, value, err);
        case CONF_MAP: return apply_map(conf_field(c, k->at), k->name, value, err);
        case CONF_LIST: return apply_list(conf_field(c, k->at), k->name, value, err);
        case CONF_BOOL:
                if (!json_is_boolean(value))
                        return err_set(err, ERR_INVALID, "%s: must be true or false", k->name);
                *(bool *)conf_field(c, k->at) = json_is_true(value);
                return 0;
        case CONF_U32:
                if (!json_is_integer(value))
                        return err_set(err, ERR_INVALID, "%s: must be a whole number", k->name);
                number = json_integer_value(value);
                if (number < (json_int_t)k->min || number > (json_int_t)k->max)
                        return err_set(err, ERR_INVALID, "%s: must be from %u to %u", k->name, k->min, k->max);
                *(uint32_t *)conf_field(c, k->at) = (uint32_t)number;
                return 0;
        }
        return err_set(err, ERR_INTERNAL, "%s: no such type", k->name);
}

static const struct conf_key *find_key(const char *name)
{
        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
                if (strcmp(keys[i].name, name) == 0)
                        return &keys[i];
        return NULL;
}

static int apply_fds(struct conf *c, const json_t *obj, struct err *err)
{
        const char *name;
        json_t *value;
        size_t i;

        if (!json_is_object(obj))
                return err_set(err, ERR_INVALID, "fds: must be an object");
        json_object_foreach ((json_t *)obj, name, value) {
                for (i = 0; i < ARRAY_LEN(fd_keys) && strcmp(fd_keys[i].name, name) != 0; i++)
                        continue;
                if (i == ARRAY_LEN(fd_keys))
                        return err_set(err, ERR_INVALID, "fds.%s: unknown key", name);
                if (!json_is_integer(value) || json_integer_value(value) < -1 || json_integer_value(value) > 65535)
                        return err_set(err, ERR_INVALID, "fds.%s: must be a file descriptor or -1", name);
                *(int *)(void *)((char *)&c->fds + fd_keys[i].at) = (int)json_integer_value(value);
        }
        return 0;
}

static int conf_apply(struct conf *c, const json_t *obj, bool is_role, struct err *err)
{
        const struct conf_key *k;
        const char *name;
        json_t *value;
        int r;

        if (!json_is_object(obj))
                return err_set(err, ERR_INVALID, "configuration: must be a JSON object");
        json_object_foreach ((json_t *)obj, name, value) {
                k = find_key(name);
                if (is_role && strcmp(name, "fds") == 0)
                        r = apply_fds(c, value, err);
                else if (!k || (k->is_internal && !is_role))
                        r = err_set(err, ERR_INVALID, "%s: unknown key", name);
                else
                        r = apply_key(c, k, value, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

int conf_apply_json(struct conf *c, const json_t *obj, struct err *err)
{
        return conf_apply(c, obj, false, err);
}

int conf_split_address(struct str addr, struct str *ret_host, uint16_t *ret_port)
{
        size_t colon = addr.n;
        uint32_t port;

        while (colon > 0 && addr.p[colon - 1] != ':')
                colon--;
        if (colon == 0 || parse_u32((struct str){addr.p + colon, addr.n - colon}, 0, 65535, &port) < 0)
                return -1;
        *ret_host = (struct str){addr.p, colon - 1};
        *ret_port = (uint16_t)port;
        return 0;
}

bool conf_is_loopback(const char *addr)
{
        struct in_addr v4;
        struct str host;
        uint16_t port;
        char text[INET_ADDRSTRLEN];

        if (conf_split_address(str_of(addr), &host, &port) < 0)
                return false;
        if (str_is(host, "localhost") || str_is(host, "[::1]"))
                return true;
        if (host.n >= sizeof(text))
                return false;
        memcpy(text, host.p, host.n);
        text[host.n] = 0;
        return inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

/* A DNS name, optionally with a port that is not 0. */
static bool is_domain(const char *text)
{
        struct str rest = str_of(text), name = rest, label;
        uint16_t port;
        bool more;

        if (memchr(rest.p, ':', rest.n) && (conf_split_address(rest, &name, &port) < 0 || port == 0))
                return false;
        if (name.n == 0 || name.n > 200)
                return false;
        do {
                more = str_cut(&name, '.', &label);
                if (label.n < 1 || label.n > 63 || label.p[0] == '-' || label.p[label.n - 1] == '-')
                        return false;
                for (size_t i = 0; i < label.n; i++)
                        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-", label.p[i]) || !label.p[i])
                                return false;
        } while (more);
        return true;
}

static int check_address(const char *name, const char *text, struct err *err)
{
        struct str host;
        uint16_t port;

        if (conf_split_address(str_of(text), &host, &port) < 0)
                return err_set(err, ERR_INVALID, "%s: '%s' is not ADDRESS:PORT", name, text);
        return 0;
}

static int check_absolute(const char *name, const char *text, struct err *err)
{
        if (text[0] != '/')
                return err_set(err, ERR_INVALID, "%s: '%s' is not an absolute path", name, text);
        return 0;
}

/* One of them must not be able to do what another may. */
static int check_uids(const struct conf *c, struct err *err)
{
        const struct {
                const char *name;
                uint32_t uid;
        } uids[] = {
                {"control_uid", c->control_uid}, {"edge_uid", c->edge_uid},   {"builder_uid", c->builder_uid},
                {"puller_uid", c->puller_uid},   {"agent_uid", c->agent_uid},
        };

        for (size_t i = 0; i < ARRAY_LEN(uids); i++)
                for (size_t k = 0; k < i; k++)
                        if (uids[i].uid == uids[k].uid)
                                return err_set(err, ERR_INVALID, "%s and %s: must differ", uids[k].name, uids[i].name);
        return 0;
}

static int check_sandbox_env(const json_t *env, struct err *err)
{
        size_t bytes = 0;
        const char *name;
        json_t *v;

        json_object_foreach ((json_t *)env, name, v) {
                if (!name[0] || strchr(name, '='))
                        return err_set(err, ERR_INVALID, "sandbox_env: '%s' is no name of a variable", name);
                bytes += strlen(name) + json_string_length(v);
        }
        if (bytes > SANDBOX_ENV_MAX)
                return err_set(err, ERR_INVALID, "sandbox_env: has more than %u bytes", SANDBOX_ENV_MAX);
        return 0;
}

static int check_sandbox_dns(const json_t *servers, struct err *err)
{
        struct in6_addr any;
        const char *text;
        json_t *v;
        size_t i;

        if (servers && (json_array_size(servers) < 1 || json_array_size(servers) > SANDBOX_DNS_MAX))
                return err_set(err, ERR_INVALID, "sandbox_dns: must have 1 to %u addresses", SANDBOX_DNS_MAX);
        json_array_foreach (servers, i, v) {
                text = json_string_value(v);
                if (inet_pton(AF_INET, text, &any) != 1 && inet_pton(AF_INET6, text, &any) != 1)
                        return err_set(err, ERR_INVALID, "sandbox_dns: '%s' is no address", text);
        }
        return 0;
}

int conf_check(const struct conf *c, struct err *err)
{
        static const char *const levels[] = {"error", "warn", "info", "debug"};
        int r, known = 0;

        r = check_absolute("data_dir", c->data_dir, err);
        if (r == 0)
                r = check_absolute("images_dir", c->images_dir, err);
        if (r == 0)
                r = check_absolute("criu_dir", c->criu_dir, err);
        if (r == 0)
                r = check_address("listen", c->listen, err);
        if (r == 0)
                r = check_address("tls_listen", c->tls_listen, err);
        if (r == 0 && c->envd)
                r = check_absolute("envd", c->envd, err);
        if (r == 0 && c->tls_cert)
                r = check_absolute("tls_cert", c->tls_cert, err);
        if (r == 0 && c->tls_key)
                r = check_absolute("tls_key", c->tls_key, err);
        if (r == 0 && c->sandbox_ca)
                r = check_absolute("sandbox_ca", c->sandbox_ca, err);
        if (r < 0)
                return r;
        if (!is_domain(c->domain))
                return err_set(err, ERR_INVALID, "domain: '%s' is not NAME or NAME:PORT in lower case", c->domain);
        if (!c->insecure_listen && !conf_is_loopback(c->listen))
                return err_set(err, ERR_INVALID,
                               "listen: '%s' is plain HTTP for other machines: keys can be read on the way. Use "
                               "tls_listen for them, and listen on 127.0.0.1 (docs/remote.md); or insist with "
                               "insecure_listen (--insecure-listen)",
                               c->listen);
        if (!c->tls_cert != !c->tls_key)
                return err_set(err, ERR_INVALID, "tls_cert and tls_key: both or neither");
        for (size_t i = 0; i < ARRAY_LEN(levels); i++)
                known |= strcmp(levels[i], c->log_level) == 0;
        if (!known)
                return err_set(err, ERR_INVALID, "log_level: must be error, warn, info or debug");
        if (strcmp(c->first_use, "wait") != 0 && strcmp(c->first_use, "hint") != 0)
                return err_set(err, ERR_INVALID, "first_use: must be wait or hint");
        if (strcmp(c->image_source, "auto") != 0 && strcmp(c->image_source, "registry") != 0 &&
            strcmp(c->image_source, "recipe") != 0)
                return err_set(err, ERR_INVALID, "image_source: must be auto, registry or recipe");
        r = check_uids(c, err);
        if (r == 0)
                r = check_sandbox_env(c->sandbox_env, err);
        if (r == 0)
                r = check_sandbox_dns(c->sandbox_dns, err);
        return r < 0 ? r : conf_check_registries(c, err);
}

static json_t *encode_value(const struct conf_key *k, const void *p)
{
        switch (k->type) {
        case CONF_TEXT: return json_string(*(char *const *)p);
        case CONF_BOOL: return json_boolean(*(const bool *)p);
        case CONF_U32: return json_integer(*(const uint32_t *)p);
        case CONF_MAP:
        case CONF_LIST: return json_incref(*(json_t *const *)p);
        }
        return NULL;
}

static bool is_unset(const struct conf_key *k, const void *p)
{
        return k->type != CONF_BOOL && k->type != CONF_U32 && !*(void *const *)p;
}

json_t *conf_encode(const struct conf *c)
{
        json_t *obj = json_object(), *fds = json_object();
        int bad = 0;

        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
                void *p = conf_field(c, keys[i].at);

                if (!is_unset(&keys[i], p))
                        bad |= json_object_set_new(obj, keys[i].name, encode_value(&keys[i], p));
        }
        for (size_t i = 0; i < ARRAY_LEN(fd_keys); i++)
                bad |= json_object_set_new(
                        fds, fd_keys[i].name,
                        json_integer(*(const int *)(const void *)((const char *)&c->fds + fd_keys[i].at)));
        bad |= json_object_set_new(obj, "fds", fds);
        if (bad) {
                json_decref(obj);
                return NULL;
        }
        return obj;
}

int conf_decode(const json_t *msg, struct conf *ret, struct err *err)
{
        const char *data_dir = json_string_value(json_object_get(msg, "data_dir"));
        struct conf c;
        int r;

        if (!data_dir)
                return err_set(err, ERR_INVALID, "data_dir: must be text");
        r = conf_defaults(&c, data_dir, err);
        if (r < 0)
                return r;
        r = conf_apply(&c, msg, true, err);
        if (r == 0)
                r = conf_check(&c, err);
        if (r < 0) {
                conf_done(&c);
                return r;
        }
        *ret = c;
        return 0;
}

void conf_done(struct conf *c)
{
        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
                if (keys[i].type == CONF_TEXT) {
                        (void)conf_set_text(conf_field(c, keys[i].at), NULL);
                } else if (keys[i].type == CONF_MAP || keys[i].type == CONF_LIST) {
                        json_t **j = conf_field(c, keys[i].at);

                        json_decref(*j);
                        *j = NULL;
                }
}

char *conf_path(const struct conf *c, const char *below)
{
        char *path;

        return asprintf(&path, "%s/%s", c->data_dir, below) < 0 ? NULL : path;
}
