#include "puller/registry_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "image/json_document.h"
#include "puller/limits.h"

#define REDIRECTS_MAX 5
#define REFUSALS_MAX 3 /* 401: a token may run out while blobs come */
#define CODE_MAX 40

int registry_request_init(struct registry_request *q, struct registry *r, const char *path, const char *accept,
                          struct err *err)
{
        *q = (struct registry_request){.registry = r, .accept = accept};
        if (snprintf(q->url, sizeof(q->url), "%s/v2/%s/%s", r->origin, r->ref.path, path) >= (int)sizeof(q->url))
                return err_set(err, ERR_INVALID, "the name is too long");
        return 0;
}

void registry_request_done(struct registry_request *q)
{
        fetch_done(&q->fetch);
        free(q->elsewhere);
        q->elsewhere = NULL;
}

static void go_failed(struct registry_request *q)
{
        fetch_end(&q->fetch);
        q->state = REQUEST_FAILED;
}

static void fail(struct registry_request *q, enum err_kind kind, const char *what)
{
        (void)err_set(&q->err, kind, "%s", what);
        go_failed(q);
}

static void begin(struct registry_request *q)
{
        struct registry *r = q->registry;
        struct fetch_options o = q->options;

        o.url = q->elsewhere ? q->elsewhere : q->url;
        o.authorization = q->elsewhere ? NULL : r->authorization; /* the origin's only */
        o.accept = q->accept;
        o.from = q->from;
        q->authorized_as = r->authorized;
        q->from_before = q->from;
        q->attempts++;
        if (fetch_begin(&q->fetch, r->fetcher, &o, &q->err) < 0)
                go_failed(q);
        else
                q->state = REQUEST_RUNNING;
}

static void wait_ms(struct registry_request *q, uint64_t ms)
{
        q->due_ms = clock_mono_ms() + ms;
        q->state = REQUEST_WAITING;
}

/* Another attempt, later; at the origin, since an address elsewhere is often good for a short time only. */
static void retry(struct registry_request *q, const struct err *why)
{
        const struct puller_limits *l = q->registry->limits;
        uint64_t ms = l->retry_ms, asked_ms = (uint64_t)q->fetch.retry_after_s * 1000;

        if (q->from > q->from_before)
                q->failures = 0;
        q->failures++;
        if (q->failures >= l->failures_max || q->attempts >= l->attempts_max) {
                q->err = *why;
                go_failed(q);
                return;
        }
        for (unsigned i = 1; i < q->failures && ms < l->retry_max_ms; i++)
                ms *= 2;
        if (asked_ms > ms)
                ms = asked_ms;
        free(q->elsewhere);
        q->elsewhere = NULL;
        q->redirects = 0;
        wait_ms(q, ms < l->retry_max_ms ? ms : l->retry_max_ms);
}

static void follow(struct registry_request *q)
{
        struct registry *r = q->registry;
        struct registry_url from, to;

        if (++q->redirects > REDIRECTS_MAX) {
                fail(q, ERR_INVALID, "it sends us from one place to the next");
                return;
        }
        if (!q->fetch.redirect || registry_url_parse(str_of(q->fetch.redirect), &to, &q->err) < 0 ||
            registry_url_parse(str_of(q->elsewhere ? q->elsewhere : q->url), &from, &q->err) < 0 ||
            registry_may_follow(r->conf, &from, &to, &q->err) < 0) {
                if (q->err.kind == ERR_NONE)
                        (void)err_set(&q->err, ERR_INVALID, "it sends us on, but not where to");
                go_failed(q);
                return;
        }
        free(q->elsewhere);
        q->elsewhere = q->fetch.redirect;
        q->fetch.redirect = NULL;
        begin(q);
}

/* 401.  While blobs come in parallel, another request may have got a new token already. */
static void authorize(struct registry_request *q)
{
        struct challenge c = q->fetch.challenge;
        struct registry *r = q->registry;

        if (q->elsewhere || ++q->refusals > REFUSALS_MAX) {
                fail(q, ERR_DENIED, "access denied");
                return;
        }
        if (q->authorized_as == r->authorized && registry_authorize(r, &c, &q->err) < 0) {
                go_failed(q);
                return;
        }
        begin(q);
}

/* The registry's own word for it: "MANIFEST_UNKNOWN".  Nothing else of what it says gets into our words. */
static void error_code(const struct fetch *t, char out[CODE_MAX + 8])
{
        struct err ignored = {0};
        json_t *obj = NULL;
        const char *code;

        (void)snprintf(out, CODE_MAX + 8, "%ld", t->status);
        if (json_document_parse((struct str){(const char *)buf_at(&t->body), t->body.len}, FETCH_ERROR_BODY_MAX,
                                "answer", &obj, &ignored) < 0)
                return;
        code = json_string_value(json_object_get(json_array_get(json_object_get(obj, "errors"), 0), "code"));
        if (code && strlen(code) <= CODE_MAX && strspn(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == strlen(code))
                (void)snprintf(out, CODE_MAX + 8, "%ld %.*s", t->status, CODE_MAX - 4, code);
        json_decref(obj);
}

static void refuse(struct registry_request *q)
{
        char code[CODE_MAX + 8];
        struct err why = {0};
        long status = q->fetch.status;

        error_code(&q->fetch, code);
        if (status == 404) {
                (void)err_set(&q->err, ERR_NOT_FOUND, "it has no such image (%s)", code);
                go_failed(q);
        } else if (status == 403) {
                (void)err_set(&q->err, ERR_DENIED, "access denied (%s)", code);
                go_failed(q);
        } else if (status == 429 || status >= 500) {
                (void)err_set(&why, ERR_UNAVAILABLE,
                              status == 429 ? "it has had too many requests (%s)" : "it fails (%s)", code);
                retry(q, &why);
        } else {
                (void)err_set(&q->err, ERR_INVALID, "it answers %s", code);
                go_failed(q);
        }
}

/* It cannot give the rest only: begin again. */
static void restart(struct registry_request *q)
{
        if (q->from == 0 || (q->on_restart && q->on_restart(q->options.arg, &q->err) < 0)) {
                if (q->err.kind == ERR_NONE)
                        (void)err_set(&q->err, ERR_INVALID, "it answers 416");
                go_failed(q);
                return;
        }
        q->from = 0;
        if (q->attempts >= q->registry->limits->attempts_max)
                fail(q, ERR_INVALID, "it cuts every download");
        else
                begin(q);
}

static void look(struct registry_request *q)
{
        struct fetch *t = &q->fetch;

        if (t->err.kind != ERR_NONE && t->is_final) {
                q->err = t->err;
                go_failed(q);
        } else if (t->err.kind != ERR_NONE) {
                retry(q, &t->err);
        } else if (t->status == 401) {
                authorize(q);
        } else if (t->status >= 300 && t->status < 400) {
                follow(q);
        } else if (t->status == 416) {
                restart(q);
        } else if (t->status == 200 || (t->status == 206 && q->from_before > 0)) {
                q->state = REQUEST_DONE;
        } else {
                refuse(q);
        }
}

void registry_request_advance(struct registry_request *q)
{
        if (q->state == REQUEST_WAITING && q->due_ms <= clock_mono_ms())
                begin(q);
        else if (q->state == REQUEST_RUNNING && q->fetch.is_done)
                look(q);
}
