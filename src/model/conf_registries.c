/* conf_registries.c - the settings about registries: which URLs they may have, and where plain HTTP is allowed. */
#include <string.h>

#include "base/err.h"
#include "model/conf.h"

/* "host", "host:port", "[::1]:port" of a registry or a proxy. */
static bool is_host_port(struct str s)
{
        struct str host = s;
        uint16_t port;

        if (s.n > 0 && s.p[s.n - 1] != ']' && memchr(s.p, ':', s.n) && conf_split_address(s, &host, &port) < 0)
                return false;
        if (host.n == 0 || host.n > 253)
                return false;
        for (size_t i = 0; i < host.n; i++)
                if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._[]:", host.p[i]) ||
                    !host.p[i])
                        return false;
        return true;
}

/* Without path, user or query: "https://host[:port]". */
static bool is_origin(struct str url, bool *ret_is_plain, struct str *ret_host)
{
        size_t skip = str_starts(url, "https://") ? 8 : str_starts(url, "http://") ? 7 : 0;

        if (!skip)
                return false;
        *ret_is_plain = skip == 7;
        *ret_host = (struct str){url.p + skip, url.n - skip};
        if (str_ends(*ret_host, "/"))
                ret_host->n--;
        return is_host_port(*ret_host);
}

bool conf_is_insecure_registry(const struct conf *c, struct str host_port)
{
        struct str host = host_port;
        uint16_t port;
        char addr[300];
        size_t i;
        json_t *item;

        if (host_port.n == 0 || host_port.n > 260)
                return false;
        if (host_port.p[host_port.n - 1] == ']' || conf_split_address(host_port, &host, &port) < 0)
                host = host_port;
        memcpy(addr, host.p, host.n);
        memcpy(addr + host.n, ":0", 3);
        if (conf_is_loopback(addr))
                return true;
        json_array_foreach (c->insecure_registries, i, item)
                if (str_ieq(str_of(json_string_value(item)), host_port) ||
                    str_ieq(str_of(json_string_value(item)), host))
                        return true;
        return false;
}

static int check_url(const struct conf *c, const char *name, const char *url, struct err *err)
{
        struct str host;
        bool is_plain;

        if (!is_origin(str_of(url), &is_plain, &host))
                return err_set(err, ERR_INVALID, "%s: '%s' is not https://HOST[:PORT]", name, url);
        if (is_plain && !conf_is_insecure_registry(c, host))
                return err_set(err, ERR_INVALID,
                               "%s: '%s' is plain HTTP to another machine: use https://, or name '%.*s' in "
                               "insecure_registries",
                               name, url, STR_ARG(host));
        return 0;
}

static int check_service(const char *name, const char *url, struct err *err)
{
        struct str rest = str_of(url), host;
        char addr[300];
        bool is_plain = str_starts(rest, "http://");

        if (!is_plain && !str_starts(rest, "https://"))
                return err_set(err, ERR_INVALID, "%s: '%s' is not a URL", name, url);
        rest = (struct str){rest.p + (is_plain ? 7 : 8), rest.n - (is_plain ? 7 : 8)};
        (void)str_cut(&rest, '/', &host);
        if (!is_host_port(host))
                return err_set(err, ERR_INVALID, "%s: '%s' is not a URL", name, url);
        memcpy(addr, host.p, host.n);
        addr[host.n] = 0;
        if (is_plain && !conf_is_loopback(addr))
                return err_set(err, ERR_INVALID, "%s: '%s' must begin with https://", name, url);
        return 0;
}

int conf_check_registries(const struct conf *c, struct err *err)
{
        struct str host;
        const char *name;
        json_t *item;
        bool is_plain;
        int r = 0;
        size_t i;

        json_array_foreach (c->insecure_registries, i, item)
                if (!is_host_port(str_of(json_string_value(item))))
                        return err_set(err, ERR_INVALID, "insecure_registries: '%s' is not HOST or HOST:PORT",
                                       json_string_value(item));
        json_object_foreach (c->registries, name, item) {
                if (!is_host_port(str_of(name)))
                        return err_set(err, ERR_INVALID, "registries: '%s' is not HOST or HOST:PORT", name);
                r = check_url(c, "registries", json_string_value(item), err);
                if (r < 0)
                        return r;
        }
        if (c->registry_proxy && !is_origin(str_of(c->registry_proxy), &is_plain, &host))
                return err_set(err, ERR_INVALID, "registry_proxy: '%s' is not http://HOST:PORT", c->registry_proxy);
        if (c->registry_aws_url)
                r = check_service("registry_aws_url", c->registry_aws_url, err);
        if (r == 0 && c->registry_gcp_url)
                r = check_service("registry_gcp_url", c->registry_gcp_url, err);
        return r;
}
