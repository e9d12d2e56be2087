/* The bytes of files: read, written, uploaded from an fd, downloaded to one; and URLs by which others do so. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "client/block.h"
#include "client/files/file.h"
#include "wire/signature.h"
#include "wire/url.h"

#define READ_MAX (64u << 20)
#define TARGET_MAX (32u << 10)

static int add_param(struct buf *out, const char *name, const char *value)
{
        int r = buf_addc(out, name);

        return r < 0 ? r : url_encode(str_of(value), out);
}

static int file_target(const char *path, const char *user, struct buf *out, struct sg_error *err)
{
        int r = check_path(path, err);

        if (r < 0)
                return r;
        r = add_param(out, "/files?path=", path);
        if (r == 0 && user)
                r = add_param(out, "&username=", user);
        if (r == -E2BIG)
                return error_set(err, SG_INVALID, "the path is too long");
        return r < 0 || !buf_cstr(out) ? error_no_memory(err) : 0;
}

/* x has everything but url, target, headers. */
static int transfer(struct sg_sandbox *box, const char *path, const struct sg_file_options *options,
                    const struct sg_call *call, uint32_t usual_ms, struct exchange *x, struct exchange_answer *answer,
                    struct sg_error *err)
{
        const struct sg_file_options *o = options ? options : &file_usual_options;
        AUTO(box_headers_done) struct box_headers headers = {0};
        AUTO_BUF struct buf target = BUF_INIT(TARGET_MAX);
        struct limit l;
        int r = check_file_options(o, err);

        if (r == 0 && o->user)
                r = check_text(o->user, "the user's name", 256, err);
        if (r == 0)
                r = file_target(path, o->user, &target, err);
        if (r == 0)
                r = limit_begin(&l, call, usual_ms, err);
        if (r == 0)
                r = box_headers_fill(&headers, box, ENVD_PORT_NUMBER, NULL, err);
        if (r < 0)
                return r;
        x->url = headers.url;
        x->target = buf_cstr(&target);
        x->headers = headers.list;
        x->is_to_sandbox = true;
        r = exchange_run_ok(box->client, x, &l, answer, err);
        return box_explain(box, &l, r, err);
}

int sg_file_read(struct sg_sandbox *box, const char *path, const struct sg_file_options *options,
                 const struct sg_call *call, char **ret, size_t *ret_len, struct sg_error *err)
{
        AUTO(exchange_answer_done) struct exchange_answer answer = {0};
        struct exchange x = {
                .method = "GET", .repeats = true, .answer_max = options && options->max ? options->max : READ_MAX};
        char *block;
        int r = transfer(box, path, options, call, box->client->timeout_ms, &x, &answer, err);

        if (r < 0)
                return r;
        block = block_create(answer.body.len + 1);
        if (!block)
                return error_no_memory(err);
        if (answer.body.len)
                memcpy(block, buf_at(&answer.body), answer.body.len);
        *ret = block;
        if (ret_len)
                *ret_len = answer.body.len;
        return 0;
}

int sg_file_write(struct sg_sandbox *box, const char *path, const void *bytes, size_t len,
                  const struct sg_file_options *options, const struct sg_call *call, struct sg_error *err)
{
        AUTO(exchange_answer_done) struct exchange_answer answer = {0};
        struct exchange x = {.method = "POST",
                             .content_type = "application/octet-stream",
                             .body = {bytes ? bytes : "", len},
                             .repeats = true};
        int r = check_bytes(bytes, len, "what is to be written", err);

        return r < 0 ? r : transfer(box, path, options, call, box->client->timeout_ms, &x, &answer, err);
}

int sg_file_upload(struct sg_sandbox *box, const char *path, int fd, const struct sg_file_options *options,
                   const struct sg_call *call, struct sg_error *err)
{
        AUTO(exchange_answer_done) struct exchange_answer answer = {0};
        struct exchange x = {.method = "POST", .content_type = "application/octet-stream", .sends_fd = true, .fd = fd};

        if (fd < 0)
                return error_set(err, SG_INVALID, "%d is no file descriptor", fd);
        return transfer(box, path, options, call, SG_NO_TIMEOUT, &x, &answer, err);
}

int sg_file_download(struct sg_sandbox *box, const char *path, int fd, const struct sg_file_options *options,
                     const struct sg_call *call, struct sg_error *err)
{
        AUTO(exchange_answer_done) struct exchange_answer answer = {0};
        struct exchange x = {.method = "GET", .repeats = true, .writes_fd = true, .to_fd = fd};

        if (fd < 0)
                return error_set(err, SG_INVALID, "%d is no file descriptor", fd);
        return transfer(box, path, options, call, SG_NO_TIMEOUT, &x, &answer, err);
}

/* ---- URLs for others ---- */

int sg_file_url(const struct sg_sandbox *box, const char *path, bool to_write, const char *user, uint32_t lifetime_s,
                char **ret, struct sg_error *err)
{
        AUTO_BUF struct buf out = BUF_INIT(TARGET_MAX);
        char until[24], signature[SIGNATURE_MAX];
        struct sha256 sum;
        char *block;
        int r = user ? check_text(user, "the user's name", 256, err) : 0;

        if (r < 0)
                return r;
        (void)snprintf(until, sizeof(until), "%lld", (long long)(clock_real_ms() / 1000 + lifetime_s));
        if (buf_addf(&out, "https://%u-%s.%s", ENVD_PORT_NUMBER, box->id, box->domain) < 0)
                return error_no_memory(err);
        r = file_target(path, user, &out, err);
        if (r < 0)
                return r;
        if (box->access_token[0]) {
                signature_begin(&sum, path, to_write ? "write" : "read", user);
                signature_end(&sum, box->access_token, lifetime_s ? until : NULL, signature);
                r = add_param(&out, "&signature=", signature);
                if (r == 0 && lifetime_s)
                        r = add_param(&out, "&signature_expiration=", until);
        }
        block = r == 0 ? block_create(out.len + 1) : NULL;
        if (!block)
                return error_no_memory(err);
        memcpy(block, buf_at(&out), out.len);
        *ret = block;
        return 0;
}
