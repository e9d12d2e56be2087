#include "image/registry_url.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "image/image_ref.h"
#include "model/conf.h"

static char lower(char c)
{
        return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_name_char(char c)
{
        c = lower(c);
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

static bool is_name(struct str s)
{
        if (s.n > 2 && s.p[0] == '[') {
                for (size_t i = 1; i + 1 < s.n; i++)
                        if (hex_value(s.p[i]) < 0 && s.p[i] != ':' && s.p[i] != '.')
                                return false;
                return s.p[s.n - 1] == ']';
        }
        for (size_t i = 0; i < s.n; i++)
                if (!is_name_char(s.p[i]))
                        return false;
        return s.n > 0 && s.n < REGISTRY_HOST_MAX;
}

/* "host", "host:port", "[::1]", "[::1]:port" */
static bool split_authority(struct str authority, struct registry_url *u)
{
        struct str host = authority, port = {0};
        const char *bracket = memchr(authority.p, ']', authority.n), *colon;
        uint32_t number;

        colon = bracket ? memchr(bracket, ':', authority.n - (size_t)(bracket - authority.p))
                        : memchr(authority.p, ':', authority.n);
        if (colon) {
                host.n = (size_t)(colon - authority.p);
                port = (struct str){colon + 1, authority.n - host.n - 1};
                if (parse_u32(port, 1, 65535, &number) < 0)
                        return false;
                u->port = (uint16_t)number;
        }
        if (host.n >= REGISTRY_HOST_MAX || !is_name(host))
                return false;
        for (size_t i = 0; i < host.n; i++)
                u->host[i] = lower(host.p[i]);
        u->host[host.n] = 0;
        return true;
}

int registry_url_parse(struct str url, struct registry_url *ret, struct err *err)
{
        struct registry_url u = {.port = 443};
        struct str rest = url, authority;
        size_t end = 0;

        if (url.n >= REGISTRY_URL_MAX)
                return err_set(err, ERR_INVALID, "URL: is longer than %d bytes", REGISTRY_URL_MAX);
        for (size_t i = 0; i < url.n; i++)
                if (url.p[i] <= ' ' || url.p[i] > '~' || strchr("\\#\"<>`{}|^", url.p[i]))
                        return err_set(err, ERR_INVALID, "URL: has a character that URLs do not have");
        if (str_starts(url, "https://")) {
                rest = (struct str){url.p + 8, url.n - 8};
        } else if (str_starts(url, "http://")) {
                rest = (struct str){url.p + 7, url.n - 7};
                u.is_plain = true;
                u.port = 80;
        } else {
                return err_set(err, ERR_INVALID, "URL '%.*s': begins neither with https:// nor with http://",
                               url.n > 100 ? 100 : (int)url.n, url.p);
        }
        while (end < rest.n && rest.p[end] != '/' && rest.p[end] != '?')
                end++;
        authority = (struct str){rest.p, end};
        if (!split_authority(authority, &u))
                return err_set(err, ERR_INVALID, "URL: '%.*s' is not HOST or HOST:PORT", end > 100 ? 100 : (int)end,
                               rest.p);
        *ret = u;
        return 0;
}

bool registry_url_is_same_origin(const struct registry_url *a, const struct registry_url *b)
{
        return a->is_plain == b->is_plain && a->port == b->port && strcmp(a->host, b->host) == 0;
}

static void host_port(const struct registry_url *u, char out[REGISTRY_ORIGIN_MAX])
{
        (void)snprintf(out, REGISTRY_ORIGIN_MAX, "%s:%u", u->host, u->port);
}

bool registry_url_is_local(const struct registry_url *u)
{
        char at[REGISTRY_ORIGIN_MAX];

        host_port(u, at);
        return conf_is_loopback(at);
}

int registry_origin(const struct conf *c, const struct image_ref *ref, char out[REGISTRY_ORIGIN_MAX], struct err *err)
{
        const char *mirror = json_string_value(json_object_get(c->registries, ref->host));
        const char *host = strcmp(ref->host, IMAGE_DEFAULT_HOST) == 0 ? "registry-1.docker.io" : ref->host;
        struct registry_url u;
        int r;

        if (mirror) {
                r = registry_url_parse(str_of(mirror), &u, err);
                if (r == 0)
                        (void)snprintf(out, REGISTRY_ORIGIN_MAX, "%s://%s:%u", u.is_plain ? "http" : "https", u.host,
                                       u.port);
                return r < 0 ? err_wrap(err, "registries: %s", ref->host) : 0;
        }
        (void)snprintf(out, REGISTRY_ORIGIN_MAX, "%s://%s",
                       conf_is_insecure_registry(c, str_of(ref->host)) ? "http" : "https", host);
        return registry_url_parse(str_of(out), &u, err);
}

int registry_may_follow(const struct conf *c, const struct registry_url *from, const struct registry_url *to,
                        struct err *err)
{
        char at[REGISTRY_ORIGIN_MAX];

        host_port(to, at);
        if (to->is_plain && !from->is_plain)
                return err_set(err, ERR_DENIED, "'%s' sends us on to '%s' without encryption", from->host, to->host);
        if (to->is_plain && !conf_is_insecure_registry(c, str_of(at)))
                return err_set(err, ERR_DENIED,
                               "'%s' sends us on to '%s', which is plain HTTP and not in insecure_registries",
                               from->host, to->host);
        if (registry_url_is_local(to) && !registry_url_is_local(from))
                return err_set(err, ERR_DENIED, "'%s' sends us on to this machine ('%s')", from->host, at);
        return 0;
}

/* "gitlab.com" is above "registry.gitlab.com"; a name without a dot is above nothing. */
static bool is_above(const char *domain, const char *host)
{
        size_t n = strlen(domain), m = strlen(host);

        return strchr(domain, '.') && m > n + 1 && host[m - n - 1] == '.' && strcmp(host + m - n, domain) == 0 &&
               host[0] != '[' && (domain[n - 1] < '0' || domain[n - 1] > '9'); /* not the end of an address */
}

bool registry_may_send_password(const struct registry_url *registry, const struct registry_url *realm)
{
        if (realm->is_plain && !registry_url_is_local(realm) && strcmp(registry->host, realm->host) != 0)
                return false;
        if (realm->is_plain && !registry->is_plain)
                return false;
        return strcmp(registry->host, realm->host) == 0 || is_above(realm->host, registry->host) ||
               (strcmp(registry->host, "registry-1.docker.io") == 0 && strcmp(realm->host, "auth.docker.io") == 0);
}
