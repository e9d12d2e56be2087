#include "client/sandbox/box.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/block.h"
#include "wire/base64.h"

#define TOKEN_MAX 1024u
#define USER_MAX 256u

/* ---- making one ---- */

static int check_token(const char *token, const char *what, struct sg_error *err)
{
        for (size_t i = 0; token && token[i]; i++)
                if (i >= TOKEN_MAX || token[i] <= 0x20 || token[i] > 0x7e)
                        return error_set(err, SG_INVALID, "%s of the sandbox cannot be a token", what);
        return 0;
}

static int box_create(struct sg_client *client, const struct sg_identity *who, const char *envd_version,
                      struct sg_sandbox **ret, struct sg_error *err)
{
        const char *domain = who->domain && who->domain[0] ? who->domain : client->domain;
        struct sg_sandbox *box;
        int r = check_sandbox_id(who->id, err);

        if (r == 0)
                r = check_token(who->access_token, "the access token", err);
        if (r == 0)
                r = check_token(who->traffic_token, "the traffic token", err);
        if (r == 0 && !domain_is_valid(str_of(domain)))
                r = error_set(err, SG_INVALID, "'%.100s' is not a domain", domain);
        if (r < 0)
                return r;
        box = calloc(1, sizeof(*box));
        if (!box)
                return error_no_memory(err);
        *box = (struct sg_sandbox){.client = client,
                                   .id = strdup(who->id),
                                   .access_token = strdup(who->access_token ? who->access_token : ""),
                                   .traffic_token = strdup(who->traffic_token ? who->traffic_token : ""),
                                   .domain = strdup(domain),
                                   .envd_version = strdup(envd_version ? envd_version : "")};
        if (!box->id || !box->access_token || !box->traffic_token || !box->domain || !box->envd_version) {
                sg_sandbox_free(box);
                return error_no_memory(err);
        }
        *ret = box;
        return 0;
}

static const char *text_in(const json_t *obj, const char *key)
{
        return json_string_value(json_object_get(obj, key));
}

int box_from_json(struct sg_client *client, const json_t *obj, struct sg_sandbox **ret, struct sg_error *err)
{
        const struct sg_identity who = {.id = text_in(obj, "sandboxID"),
                                        .access_token = text_in(obj, "envdAccessToken"),
                                        .traffic_token = text_in(obj, "trafficAccessToken"),
                                        .domain = text_in(obj, "domain")};
        int r = who.id ? box_create(client, &who, text_in(obj, "envdVersion"), ret, err) : -EINVAL;

        if (r == -EINVAL)
                return error_set(err, SG_INTERNAL, "the server's answer does not describe a sandbox");
        return r;
}

int sg_sandbox_assume(struct sg_client *client, const struct sg_identity *identity, struct sg_sandbox **ret,
                      struct sg_error *err)
{
        int r = identity ? check_reserved(identity->reserved, ARRAY_LEN(identity->reserved), err)
                         : error_set(err, SG_INVALID, "the identity is missing");

        return r < 0 ? r : box_create(client, identity, NULL, ret, err);
}

void sg_sandbox_free(struct sg_sandbox *box)
{
        if (!box)
                return;
        free(box->id);
        secret_free(box->access_token);
        secret_free(box->traffic_token);
        free(box->domain);
        free(box->envd_version);
        free(box);
}

/* ---- what is known ---- */

const char *sg_sandbox_id(const struct sg_sandbox *box)
{
        return box->id;
}

const char *sg_sandbox_access_token(const struct sg_sandbox *box)
{
        return box->access_token;
}

const char *sg_sandbox_traffic_token(const struct sg_sandbox *box)
{
        return box->traffic_token;
}

const char *sg_sandbox_domain(const struct sg_sandbox *box)
{
        return box->domain;
}

const char *sg_sandbox_envd_version(const struct sg_sandbox *box)
{
        return box->envd_version;
}

struct sg_client *sg_sandbox_client(const struct sg_sandbox *box)
{
        return box->client;
}

static int give_text(char *text /* stolen; NULL: no memory */, char **ret, struct sg_error *err)
{
        char *block = text ? block_create(strlen(text) + 1) : NULL;

        if (block)
                memcpy(block, text, strlen(text));
        free(text);
        if (!block)
                return error_no_memory(err);
        *ret = block;
        return 0;
}

static int host_text(const struct sg_sandbox *box, const char *before, uint16_t port, char **ret, struct sg_error *err)
{
        char *text;

        if (!port)
                return error_set(err, SG_INVALID, "0 is no port");
        if (asprintf(&text, "%s%u-%s.%s", before, port, box->id, box->domain) < 0)
                text = NULL;
        return give_text(text, ret, err);
}

int sg_sandbox_host(const struct sg_sandbox *box, uint16_t port, char **ret, struct sg_error *err)
{
        return host_text(box, "", port, ret, err);
}

int sg_sandbox_url(const struct sg_sandbox *box, uint16_t port, char **ret, struct sg_error *err)
{
        return host_text(box, "https://", port, ret, err);
}

/* ---- requests to its ports ---- */

/* Where E2B's own clients reach the daemon of all sandboxes, on their servers. */
static bool has_shared_host(const char *domain)
{
        static const char *const domains[] = {"e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"};

        for (size_t i = 0; i < ARRAY_LEN(domains); i++)
                if (strcmp(domain, domains[i]) == 0)
                        return true;
        return false;
}

static char *port_url(const struct sg_sandbox *box, uint16_t port)
{
        char *url;
        int n;

        if (box->client->sandbox_url)
                return strdup(box->client->sandbox_url);
        if (port == ENVD_PORT_NUMBER && has_shared_host(box->domain))
                n = asprintf(&url, "https://sandbox.%s", box->domain);
        else
                n = asprintf(&url, "https://%u-%s.%s", port, box->id, box->domain);
        return n < 0 ? NULL : url;
}

void box_headers_add(struct box_headers *h, const char *name, const char *value)
{
        if (h->count < BOX_HEADERS_MAX)
                h->list[h->count++] = (struct http_header){name, value};
}

static int add_user(struct box_headers *h, const char *user, struct sg_error *err)
{
        AUTO_FREE char *pair = NULL;
        int r = check_text(user, "the user's name", USER_MAX, err);

        if (r < 0)
                return r;
        if (strchr(user, ':'))
                return error_set(err, SG_INVALID, "'%s' is no user's name", user);
        if (asprintf(&pair, "%s:", user) < 0)
                return error_no_memory(err);
        r = buf_addc(&h->basic, "Basic ");
        if (r == 0)
                r = base64_add(&h->basic, pair, strlen(pair), true);
        if (r < 0 || !buf_cstr(&h->basic))
                return error_no_memory(err);
        box_headers_add(h, "Authorization", buf_cstr(&h->basic));
        return 0;
}

int box_headers_fill(struct box_headers *h, const struct sg_sandbox *box, uint16_t port, const char *user,
                     struct sg_error *err)
{
        *h = (struct box_headers){.basic = BUF_INIT(1024), .url = port_url(box, port)};
        if (!h->url)
                return error_no_memory(err);
        (void)snprintf(h->port, sizeof(h->port), "%u", port);
        box_headers_add(h, "E2b-Sandbox-Id", box->id);
        box_headers_add(h, "E2b-Sandbox-Port", h->port);
        if (box->access_token[0])
                box_headers_add(h, "X-Access-Token", box->access_token);
        if (box->traffic_token[0])
                box_headers_add(h, "E2B-Traffic-Access-Token", box->traffic_token);
        return user ? add_user(h, user, err) : 0;
}

void box_headers_done(struct box_headers *h)
{
        buf_done(&h->basic);
        free(h->url);
        h->url = NULL;
}

int envd_call(struct sg_sandbox *box, const struct envd_call *call, struct limit *l, json_t **ret, struct sg_error *err)
{
        AUTO_FREE char *text = call->body ? json_dumps(call->body, JSON_COMPACT) : NULL;
        AUTO(exchange_answer_done) struct exchange_answer answer = {0};
        AUTO(box_headers_done) struct box_headers headers = {0};
        json_t *got;
        int r;

        json_decref(call->body);
        if (!text)
                return error_no_memory(err);
        r = box_headers_fill(&headers, box, ENVD_PORT_NUMBER, call->user, err);
        if (r == 0)
                r = exchange_run_ok(box->client,
                                    &(struct exchange){.url = headers.url,
                                                       .method = "POST",
                                                       .target = call->method,
                                                       .headers = headers.list,
                                                       .content_type = "application/json",
                                                       .body = str_of(text),
                                                       .repeats = call->repeats,
                                                       .is_to_sandbox = true},
                                    l, &answer, err);
        if (r < 0 || !ret)
                return r;
        got = json_loadb(answer.body.len ? (const char *)buf_at(&answer.body) : "", answer.body.len, 0, NULL);
        if (!json_is_object(got)) {
                json_decref(got);
                return error_set(err, SG_INTERNAL, "the sandbox's answer is not JSON");
        }
        *ret = got;
        return 0;
}
