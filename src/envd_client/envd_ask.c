#include "envd_client/envd_ask.h"

#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/buf.h"
#include "http/client.h"

#define ANSWER_MAX (1u << 20)

struct envd_ask {
        struct envd_ask_options opt; /* file, into, on_end and arg only */
        struct http_call *call;      /* owned */
        uint64_t sent, received;
        struct buf answer;
        int failed; /* errno of writing to `into`; 0: none */
};

static enum err_kind kind_of_status(unsigned status)
{
        switch (status) {
        case 400: return ERR_INVALID;
        case 401:
        case 403: return ERR_DENIED;
        case 404: return ERR_NOT_FOUND;
        case 409: return ERR_CONFLICT;
        case 413: return ERR_TOO_LARGE;
        case 503: return ERR_LIMIT;
        case 507: return ERR_NO_SPACE;
        default: return ERR_INTERNAL;
        }
}

static ssize_t ask_on_send(struct http_call *call, void *to, size_t n, void *arg)
{
        struct envd_ask *a = arg;
        ssize_t got;

        (void)call;
        do {
                got = pread(a->opt.file, to, n, (off_t)a->sent);
        } while (got < 0 && errno == EINTR);
        if (got < 0)
                return -errno;
        a->sent += (uint64_t)got;
        return got;
}

static int write_whole(int fd, struct str bytes)
{
        while (bytes.n) {
                ssize_t n = write(fd, bytes.p, bytes.n);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                bytes = (struct str){bytes.p + n, bytes.n - (size_t)n};
        }
        return 0;
}

static size_t ask_on_data(struct http_call *call, struct str piece, void *arg)
{
        struct envd_ask *a = arg;

        a->received += piece.n;
        if (a->opt.into < 0 || http_call_head(call)->status != 200)
                (void)buf_add(&a->answer, piece.p, piece.n); /* what is too long is no JSON in the end */
        else if (!a->failed)
                a->failed = -write_whole(a->opt.into, piece);
        return piece.n;
}

static void ask_read_answer(struct envd_ask *a, unsigned status, json_t **ret, struct err *err)
{
        const char *message;

        *ret = NULL;
        if (status == 200 && a->opt.into >= 0)
                return;
        *ret = json_loadb(a->answer.len ? (const char *)buf_at(&a->answer) : "", a->answer.len, 0, NULL);
        message = json_string_value(json_object_get(*ret, "message"));
        if (status != 200)
                (void)err_set(err, kind_of_status(status), "%s",
                              message ? message : "the daemon of the sandbox refused the step");
        else if (!json_is_object(*ret))
                (void)err_set(err, ERR_INTERNAL, "the daemon of the sandbox gave an answer that is no JSON");
}

static void ask_on_end(struct http_call *call, const struct err *why, void *arg)
{
        struct envd_ask *a = arg;
        struct err err = {0};
        json_t *answer = NULL;

        if (why)
                err = *why;
        else if (a->failed)
                (void)err_sys(&err, -a->failed, "write the archive");
        else
                ask_read_answer(a, http_call_head(call)->status, &answer, &err);
        a->call = http_call_free(a->call);
        a->opt.on_end(answer, a->received, &err, a->opt.arg); /* a may be gone */
        json_decref(answer);
}

static int ask_call(struct envd_ask *a, struct http_client *envd, const struct envd_ask_options *opt, struct err *err)
{
        const struct http_header headers[] = {{opt->token ? "X-Access-Token" : NULL, opt->token}, {NULL, NULL}};
        AUTO_FREE char *text = opt->body ? json_dumps(opt->body, JSON_COMPACT) : NULL;
        struct http_call_options call = {.method = opt->method,
                                         .target = opt->target,
                                         .headers = headers,
                                         .on_data = ask_on_data,
                                         .on_end = ask_on_end,
                                         .arg = a};

        if (opt->body && !text)
                return err_set(err, ERR_LIMIT, "out of memory");
        if (opt->file >= 0) {
                call.on_send = ask_on_send;
                call.send_bytes = (int64_t)opt->file_bytes;
                call.content_type = "application/x-tar";
        } else if (text) {
                call.body = str_of(text);
                call.content_type = "application/json";
        }
        return http_call_start(envd, &call, &a->call, err);
}

int envd_ask(struct http_client *envd, const struct envd_ask_options *opt, struct envd_ask **ret, struct err *err)
{
        struct envd_ask *a = calloc(1, sizeof(*a));
        int r;

        if (!a)
                return err_set(err, ERR_LIMIT, "out of memory");
        a->opt =
                (struct envd_ask_options){.file = opt->file, .into = opt->into, .on_end = opt->on_end, .arg = opt->arg};
        buf_init(&a->answer, ANSWER_MAX);
        r = ask_call(a, envd, opt, err);
        if (r < 0)
                (void)envd_ask_free(a);
        else
                *ret = a;
        return r;
}

struct envd_ask *envd_ask_free(struct envd_ask *a)
{
        if (!a)
                return NULL;
        a->call = http_call_free(a->call);
        buf_done(&a->answer);
        free(a);
        return NULL;
}
