/* registry_login.c - what a registry is shown when it asks for credentials: a password, or a token from its token service. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "image/json_document.h"
#include "model/conf.h"
#include "puller/registry_request.h"
#include "wire/base64.h"
#include "wire/url.h"

#define ANSWER_MAX (256u << 10)
#define STEP_MS 1000

/* The value of "Authorization" for name and password; the caller's. */
static char *basic(const struct registry_auth *a)
{
        AUTO_FREE char *pair = NULL;
        AUTO_BUF struct buf value = BUF_INIT(2 * REGISTRY_TOKEN_MAX + 4096);
        char *made = NULL;

        if (asprintf(&pair, "%s:%s", a->username, a->password) < 0)
                return NULL;
        if (buf_addc(&value, "Basic ") == 0 && base64_add(&value, pair, strlen(pair), true) == 0)
                made = str_dup((struct str){(const char *)buf_at(&value), value.len});
        explicit_bzero(pair, strlen(pair));
        return made;
}

static void set_authorization(struct registry *r, char *value)
{
        if (r->authorization)
                explicit_bzero(r->authorization, strlen(r->authorization));
        free(r->authorization);
        r->authorization = value;
        r->authorized++;
}

/* One request to a service that gives tokens; no redirects, and no second attempt. */
static int ask(struct registry *r, const struct fetch_options *o, const char *who, struct fetch *t, struct err *err)
{
        int e = fetch_begin(t, r->fetcher, o, err);

        while (e == 0 && !t->is_done)
                e = fetcher_step(r->fetcher, STEP_MS, err);
        fetch_end(t);
        if (e < 0)
                return e;
        if (t->err.kind != ERR_NONE) {
                *err = t->err;
                return err_wrap(err, "%s", who);
        }
        if (t->status == 400 || t->status == 401 || t->status == 403)
                return err_set(err, ERR_DENIED, "access denied: %s refuses the credentials (%ld)", who, t->status);
        if (t->status != 200)
                return err_set(err, ERR_UNAVAILABLE, "%s answers %ld", who, t->status);
        return 0;
}

static struct str body_of(const struct fetch *t)
{
        return (struct str){(const char *)buf_at(&t->body), t->body.len};
}

/* ---- clouds ---- */

static int exchange_aws(struct registry *r, struct err *err)
{
        const char *dots = str_starts(str_of(r->auth->region), "cn-") ? "amazonaws.com.cn" : "amazonaws.com";
        char url[512], host[300], date[64], authorization[560];
        const char *const more[] = {"Content-Type: " AWS_CONTENT_TYPE, "X-Amz-Target: " AWS_TARGET, date, NULL};
        struct registry_url u;
        struct aws_signed s;
        struct fetch t = {0};
        int e;

        if (r->conf->registry_aws_url)
                (void)snprintf(url, sizeof(url), "%s", r->conf->registry_aws_url);
        else
                (void)snprintf(url, sizeof(url), "https://api.ecr.%s.%s/", r->auth->region, dots);
        e = registry_url_parse(str_of(url), &u, err);
        if (e < 0)
                return e;
        if (u.port == (u.is_plain ? 80 : 443))
                (void)snprintf(host, sizeof(host), "%s", u.host);
        else
                (void)snprintf(host, sizeof(host), "%s:%u", u.host, u.port);
        e = aws_sign(r->auth, host, clock_real_ns() / 1000000000, &s, err);
        if (e < 0)
                return e;
        (void)snprintf(date, sizeof(date), "X-Amz-Date: %s", s.date);
        (void)snprintf(authorization, sizeof(authorization), "%s", s.authorization);
        e = ask(r,
                &(struct fetch_options){.url = url,
                                        .authorization = authorization,
                                        .more = more,
                                        .post = STR(AWS_BODY),
                                        .body_max = ANSWER_MAX},
                "AWS", &t, err);
        if (e == 0)
                e = aws_take_token(r->auth, body_of(&t), err);
        fetch_done(&t);
        return e;
}

static int exchange_gcp(struct registry *r, struct err *err)
{
        const char *url = r->conf->registry_gcp_url ? r->conf->registry_gcp_url : GCP_TOKEN_URL;
        static const char *const more[] = {"Content-Type: application/x-www-form-urlencoded", NULL};
        AUTO_BUF struct buf form = BUF_INIT(64u << 10);
        struct fetch t = {0};
        int e;

        e = gcp_token_form(r->auth, url, clock_real_ns() / 1000000000, &form, err);
        if (e < 0)
                return e;
        e = ask(r,
                &(struct fetch_options){.url = url,
                                        .more = more,
                                        .post = {(const char *)buf_at(&form), form.len},
                                        .body_max = ANSWER_MAX},
                "Google", &t, err);
        if (e == 0)
                e = gcp_take_token(r->auth, body_of(&t), err);
        fetch_done(&t);
        return e;
}

/* From now on there is a user name and a password, if there are credentials at all. */
static int exchange(struct registry *r, struct err *err)
{
        bool is_standin =
                (r->auth->kind == REGISTRY_AUTH_AWS ? r->conf->registry_aws_url : r->conf->registry_gcp_url) &&
                registry_url_is_local(&r->origin_url);
        int e;

        if (r->auth->password || r->auth->kind == REGISTRY_AUTH_NONE || r->auth->kind == REGISTRY_AUTH_PASSWORD)
                return 0;
        e = is_standin ? 0 : registry_auth_check_host(r->auth, &r->ref, err);
        if (e < 0)
                return e;
        return r->auth->kind == REGISTRY_AUTH_AWS ? exchange_aws(r, err) : exchange_gcp(r, err);
}

/* ---- the registry ---- */

static bool has_password(const struct registry *r)
{
        return r->auth->password && !r->is_mirror;
}

static int offer_password(struct registry *r, struct err *err)
{
        char *value;

        if (r->authorized > 0 || !has_password(r))
                return err_set(err, ERR_DENIED,
                               r->authorized > 0 ? "access denied: it refuses the credentials"
                                                 : "access denied: it asks for credentials");
        if (r->origin_url.is_plain && !registry_url_is_local(&r->origin_url))
                return err_set(err, ERR_DENIED, "access denied: credentials are not sent over plain HTTP");
        value = basic(r->auth);
        if (!value)
                return err_sys(err, -ENOMEM, "credentials");
        set_authorization(r, value);
        return 0;
}

static int add_parameter(struct buf *url, const char *name, const char *value)
{
        int e;

        if (!value[0])
                return 0;
        e = buf_addc(url, memchr(buf_at(url), '?', url->len) ? "&" : "?");
        if (e == 0)
                e = buf_addc(url, name);
        if (e == 0)
                e = buf_addc(url, "=");
        return e < 0 ? e : url_encode(str_of(value), url);
}

/* The scope is ours, not the registry's: a token for reading this image. */
static int token_url(const struct registry *r, const struct challenge *c, struct buf *out, struct err *err)
{
        AUTO_FREE char *scope = NULL;
        int e;

        if (asprintf(&scope, "repository:%s:pull", r->ref.path) < 0)
                return err_sys(err, -ENOMEM, "token");
        e = buf_addc(out, c->realm);
        if (e == 0)
                e = add_parameter(out, "service", c->service);
        if (e == 0)
                e = add_parameter(out, "scope", scope);
        return e < 0 || !buf_cstr(out) ? err_set(err, ERR_INVALID, "the URL of its token service is too long") : 0;
}

static int take_token(struct registry *r, struct str answer, struct err *err)
{
        json_t *obj = NULL;
        const char *token;
        char *value;
        int e = json_document_parse(answer, ANSWER_MAX, "answer of its token service", &obj, err);

        if (e < 0)
                return e;
        token = json_string_value(json_object_get(obj, "token"));
        if (!token)
                token = json_string_value(json_object_get(obj, "access_token"));
        if (!registry_token_is_valid(token, REGISTRY_TOKEN_MAX))
                e = err_set(err, ERR_INVALID, "its token service answers without a token");
        else if (asprintf(&value, "Bearer %s", token) < 0)
                e = err_sys(err, -ENOMEM, "token");
        else
                set_authorization(r, value);
        json_decref(obj);
        return e;
}

static int ask_for_token(struct registry *r, const struct challenge *c, struct err *err)
{
        AUTO_BUF struct buf url = BUF_INIT(REGISTRY_URL_MAX);
        AUTO_FREE char *authorization = NULL;
        struct registry_url realm;
        struct fetch t = {0};
        bool may_send;
        int e;

        e = registry_url_parse(str_of(c->realm), &realm, err);
        if (e == 0)
                e = registry_may_follow(r->conf, &r->origin_url, &realm, err);
        if (e == 0)
                e = token_url(r, c, &url, err);
        if (e < 0)
                return err_wrap(err, "its token service");
        may_send = registry_may_send_password(&r->origin_url, &realm);
        if (has_password(r) && may_send) {
                authorization = basic(r->auth);
                if (!authorization)
                        return err_sys(err, -ENOMEM, "credentials");
        }
        e = ask(r,
                &(struct fetch_options){.url = buf_cstr(&url), .authorization = authorization, .body_max = ANSWER_MAX},
                "its token service", &t, err);
        if (e == 0)
                e = take_token(r, body_of(&t), err);
        fetch_done(&t);
        if (authorization)
                explicit_bzero(authorization, strlen(authorization));
        if (e < 0 && err->kind == ERR_DENIED && has_password(r) && !may_send)
                return err_set(
                        err, ERR_DENIED,
                        "access denied: its token service is '%.100s', and credentials for '%.100s' are not sent there",
                        realm.host, r->origin_url.host);
        return e;
}

int registry_authorize(struct registry *r, const struct challenge *challenge, struct err *err)
{
        int e = r->is_mirror ? 0 : exchange(r, err);

        if (e < 0)
                return e;
        switch (challenge->kind) {
        case CHALLENGE_BEARER: return ask_for_token(r, challenge, err);
        case CHALLENGE_BASIC: return offer_password(r, err);
        case CHALLENGE_NONE: break;
        }
        return err_set(err, ERR_DENIED, "access denied: it asks for credentials of a kind that is not known here");
}
