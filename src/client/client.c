#include "client/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lane.h"
#include "http/origin.h"
#include "io/tls.h"
#include "version.h"

const char *sg_version(void)
{
        return SANDGLASS_VERSION;
}

const char *sg_client_domain(const struct sg_client *client)
{
        return client->domain;
}

const char *sg_client_api_url(const struct sg_client *client)
{
        return client->api_url;
}

/* ---- what may be asked for ---- */

/* A value of a header: printable ASCII. */
static int check_header_text(const char *text, const char *what, size_t max, struct sg_error *err)
{
        int r = text ? check_text(text, what, max, err) : 0;

        for (size_t i = 0; r == 0 && text && text[i]; i++)
                if (text[i] < 0x20 || text[i] > 0x7e)
                        return error_set(err, SG_INVALID, "%s holds a character that a header cannot have", what);
        return r;
}

static int check_url(const char *url, const char *what, struct sg_error *err)
{
        struct http_origin origin = {0};
        struct err why = {0};
        const char *path;

        if (!url)
                return 0;
        if (check_header_text(url, what, 1024, err) < 0)
                return -EINVAL;
        if (http_origin_parse(url, &origin, &why) < 0) {
                (void)error_from(err, &why);
                return error_wrap(err, "%s", what);
        }
        http_origin_done(&origin);
        path = strchr(strstr(url, "://") + 3, '/');
        if (path && path[1])
                return error_set(err, SG_INVALID, "%s: '%s' has a path", what, url);
        return 0;
}

static int check_options(const struct sg_client_options *o, struct sg_error *err)
{
        int r = check_reserved(o->reserved, ARRAY_LEN(o->reserved), err);

        if (r == 0 && o->domain && !domain_is_valid(str_of(o->domain)))
                r = error_set(err, SG_INVALID, "'%.100s' is not a domain", o->domain);
        if (r == 0)
                r = check_url(o->api_url, "api_url", err);
        if (r == 0)
                r = check_url(o->sandbox_url, "sandbox_url", err);
        if (r == 0)
                r = check_header_text(o->api_key, "the API key", 1024, err);
        if (r == 0)
                r = check_header_text(o->access_token, "the access token", 8192, err);
        if (r == 0)
                r = check_header_text(o->user_agent, "the user agent", 200, err);
        if (r == 0)
                r = check_pairs(o->headers, "headers", err);
        return r;
}

/* ---- opening ---- */

static char *url_copy(const char *url)
{
        size_t n = strlen(url);

        return str_dup((struct str){url, n && url[n - 1] == '/' ? n - 1 : n});
}

static char *join(const char *before, const char *text)
{
        char *joined;

        return text && asprintf(&joined, "%s%s", before, text) >= 0 ? joined : NULL;
}

static char *dup_or_null(const char *text)
{
        return text ? strdup(text) : NULL;
}

static int copy_headers(struct sg_client *c, const struct sg_client_options *o, struct sg_error *err)
{
        size_t n = 0;

        if (c->api_key)
                c->headers[n++] = (struct http_header){"X-API-Key", c->api_key};
        if (c->authorization)
                c->headers[n++] = (struct http_header){"Authorization", c->authorization};
        for (const struct sg_pair *h = o->headers; h && h->name; h++) {
                char *name, *value;

                if (c->header_count >= CLIENT_HEADERS_MAX)
                        return error_set(err, SG_INVALID, "more than %u headers", CLIENT_HEADERS_MAX);
                name = c->header_texts[2 * c->header_count] = strdup(h->name);
                value = c->header_texts[2 * c->header_count + 1] = strdup(h->value);
                c->header_count++;
                if (!name || !value)
                        return error_no_memory(err);
                c->headers[n++] = (struct http_header){name, value};
        }
        return 0;
}

static int client_fill(struct sg_client *c, const struct sg_client_options *o, struct sg_error *err)
{
        c->domain = strdup(o->domain ? o->domain : CLIENT_DOMAIN);
        c->api_url = o->api_url ? url_copy(o->api_url) : join("https://api.", c->domain);
        c->sandbox_url = o->sandbox_url ? url_copy(o->sandbox_url) : NULL;
        c->ca_file = dup_or_null(o->ca_file);
        c->api_key = dup_or_null(o->api_key);
        c->authorization = join("Bearer ", o->access_token);
        c->agent = o->user_agent ? join("libsandglass/" SANDGLASS_VERSION " ", o->user_agent)
                                 : strdup("libsandglass/" SANDGLASS_VERSION);
        if (!c->domain || !c->api_url || !c->agent || (o->sandbox_url && !c->sandbox_url) ||
            (o->ca_file && !c->ca_file) || (o->api_key && !c->api_key) || (o->access_token && !c->authorization))
                return error_no_memory(err);
        c->timeout_ms = o->timeout_ms ? o->timeout_ms : CLIENT_TIMEOUT_MS;
        c->retries = o->retries == SG_NO_RETRIES ? 0 : o->retries ? o->retries : CLIENT_RETRIES;
        c->kept_max = o->kept_connections_max ? o->kept_connections_max : CLIENT_KEPT_MAX;
        return copy_headers(c, o, err);
}

int sg_client_open(const struct sg_client_options *options, struct sg_client **ret, struct sg_error *err)
{
        static const struct sg_client_options usual;
        const struct sg_client_options *o = options ? options : &usual;
        struct sg_client *c;
        int r = check_options(o, err);

        if (r < 0)
                return r;
        c = calloc(1, sizeof(*c));
        if (!c)
                return error_no_memory(err);
        (void)pthread_mutex_init(&c->mutex, NULL);
        r = client_fill(c, o, err);
        if (r < 0)
                sg_client_free(c);
        else
                *ret = c;
        return r;
}

void secret_free(char *text)
{
        if (text)
                explicit_bzero(text, strlen(text));
        free(text);
}

void sg_client_free(struct sg_client *client)
{
        if (!client)
                return;
        lanes_free(client);
        (void)tls_context_free(client->tls);
        (void)pthread_mutex_destroy(&client->mutex);
        for (size_t i = 0; i < ARRAY_LEN(client->header_texts); i++)
                secret_free(client->header_texts[i]);
        free(client->api_url);
        free(client->domain);
        free(client->sandbox_url);
        free(client->ca_file);
        secret_free(client->api_key);
        secret_free(client->authorization);
        free(client->agent);
        free(client);
}
