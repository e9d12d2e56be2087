#include "cli/sandbox/envd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "wire/base64.h"
#include "wire/url.h"

#define ANSWER_MAX (16u << 20)
#define HEADERS 6

int envd_open(struct cli_api *api, const struct api_sandbox *sandbox, const char *user, struct envd *ret,
              struct err *err)
{
        const char *url = api->env.sandbox_url ? api->env.sandbox_url : api->env.api_url;

        *ret = (struct envd){.api = api, .sandbox = sandbox, .user = user};
        return api_client(api, url, NULL, &ret->client, err);
}

void envd_close(struct envd *e)
{
        e->client = http_client_free(e->client);
}

/* `basic` keeps the text of one of them. */
static int make_headers(const struct envd *e, struct buf *basic, struct http_header headers[HEADERS], struct err *err)
{
        AUTO_FREE char *pair = NULL;
        size_t n = 0;

        headers[n++] = (struct http_header){"E2b-Sandbox-Id", e->sandbox->id};
        headers[n++] = (struct http_header){"E2b-Sandbox-Port", "49983"};
        if (e->sandbox->token[0])
                headers[n++] = (struct http_header){"X-Access-Token", e->sandbox->token};
        if (e->user) {
                if (asprintf(&pair, "%s:", e->user) < 0 || buf_addc(basic, "Basic ") < 0 ||
                    base64_add(basic, pair, strlen(pair), true) < 0 || !buf_cstr(basic))
                        return err_set(err, ERR_INVALID, "the user's name is too long");
                headers[n++] = (struct http_header){"Authorization", buf_cstr(basic)};
        }
        headers[n] = (struct http_header){NULL, NULL};
        return 0;
}

/* What a refusal says: {"message"} of both kinds of the daemon's answers. */
static int refused(unsigned status, struct str body, struct err *err)
{
        json_t *got = body.n ? json_loadb(body.p, body.n, 0, NULL) : NULL;
        const char *message = json_string_value(json_object_get(got, "message"));
        enum err_kind kind = status == 404                    ? ERR_NOT_FOUND
                             : status == 401 || status == 403 ? ERR_DENIED
                             : status == 507                  ? ERR_NO_SPACE
                             : status < 500                   ? ERR_INVALID
                                                              : ERR_UNAVAILABLE;
        int r = message ? err_set(err, kind, "%s", message) : err_set(err, kind, "%u %s", status, http1_reason(status));

        json_decref(got);
        return r;
}

static int run(struct envd *e, struct http_call_options *call, struct http_answer *answer, struct err *err)
{
        AUTO_BUF struct buf basic = BUF_INIT(1024);
        struct http_header headers[HEADERS];
        int r = make_headers(e, &basic, headers, err);

        call->headers = headers;
        if (r == 0)
                r = http_client_run(e->client, call, ANSWER_MAX, answer, err);
        if (r < 0) {
                api_explain_refused(e->client, err);
                return r;
        }
        if (answer->head.status < 200 || answer->head.status > 299)
                return refused(answer->head.status, (struct str){(const char *)buf_at(&answer->body), answer->body.len},
                               err);
        return 0;
}

int envd_call(struct envd *e, const char *method, json_t *body, json_t **ret, struct err *err)
{
        AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        AUTO(http_answer_done) struct http_answer answer = {0};
        struct http_call_options call = {
                .method = "POST", .target = method, .content_type = "application/json", .body = str_of(text)};
        int r;

        json_decref(body);
        if (!text)
                return err_set(err, ERR_INVALID, "a name is not valid text");
        r = run(e, &call, &answer, err);
        if (r < 0)
                return r;
        *ret = json_loadb(answer.body.len ? (const char *)buf_at(&answer.body) : "", answer.body.len, 0, NULL);
        return *ret ? 0 : err_set(err, ERR_INTERNAL, "the sandbox's answer is not JSON");
}

/* ---- files ---- */

static char *file_target(const struct envd *e, const char *path)
{
        AUTO_BUF struct buf out = BUF_INIT(32u << 10);

        if (buf_addc(&out, "/files?path=") < 0 || url_encode(str_of(path), &out) < 0)
                return NULL;
        if (e->user && (buf_addc(&out, "&username=") < 0 || url_encode(str_of(e->user), &out) < 0))
                return NULL;
        return str_dup((struct str){(const char *)buf_at(&out), out.len});
}

static ssize_t read_piece(struct http_call *call, void *p, size_t n, void *arg)
{
        ssize_t got = read(*(int *)arg, p, n);

        (void)call;
        return got < 0 ? -errno : got;
}

int envd_upload(struct envd *e, const char *path, int fd, struct err *err)
{
        AUTO_FREE char *target = file_target(e, path);
        AUTO(http_answer_done) struct http_answer answer = {0};
        struct http_call_options call = {.method = "POST",
                                         .target = target,
                                         .content_type = "application/octet-stream",
                                         .on_send = read_piece,
                                         .send_bytes = -1,
                                         .arg = &fd};
        struct stat st;

        if (!target)
                return err_set(err, ERR_INVALID, "'%.64s' is too long for a path", path);
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
                call.send_bytes = st.st_size;
        return run(e, &call, &answer, err);
}

struct download {
        int fd;
        int r;              /* negative: cannot be written */
        struct buf refusal; /* body of an answer other than 200 */
};

static size_t write_piece(struct http_call *call, struct str piece, void *arg)
{
        struct download *d = arg;
        size_t done = 0;

        if (http_call_head(call)->status != 200) {
                (void)buf_add(&d->refusal, piece.p, piece.n);
                return piece.n;
        }
        while (d->r == 0 && done < piece.n) {
                ssize_t n = write(d->fd, piece.p + done, piece.n - done);

                if (n < 0 && errno != EINTR)
                        d->r = -errno;
                else if (n > 0)
                        done += (size_t)n;
        }
        return piece.n;
}

int envd_download(struct envd *e, const char *path, int fd, struct err *err)
{
        AUTO_FREE char *target = file_target(e, path);
        AUTO(http_answer_done) struct http_answer answer = {0};
        struct download d = {.fd = fd, .refusal = BUF_INIT(64u << 10)};
        struct http_call_options call = {.method = "GET", .target = target, .on_data = write_piece, .arg = &d};
        int r;

        if (!target)
                return err_set(err, ERR_INVALID, "'%.64s' is too long for a path", path);
        r = run(e, &call, &answer, err);
        if (r < 0 && d.refusal.len)
                r = refused(answer.head.status, (struct str){(const char *)buf_at(&d.refusal), d.refusal.len}, err);
        else if (r == 0 && d.r < 0)
                r = err_sys(err, d.r, "write");
        buf_done(&d.refusal);
        return r;
}
