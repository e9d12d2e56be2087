/* Requests of every kind. */
#include <string.h>

#include "client/block.h"
#include "client/sandbox/box.h"

#define METHOD_MAX 16u
#define PATH_MAX_BYTES 32768u

static int check_request(const char *method, const char *path, const struct sg_request_options *o, struct sg_error *err)
{
        int r = check_text(method, "the method", METHOD_MAX, err);

        for (size_t i = 0; r == 0 && method[i]; i++)
                if (method[i] < 'A' || method[i] > 'Z')
                        r = error_set(err, SG_INVALID, "'%s' is no method", method);
        if (r == 0)
                r = check_text(path, "the path", PATH_MAX_BYTES, err);
        if (r == 0 && path[0] != '/')
                r = error_set(err, SG_INVALID, "the path must begin with '/'");
        for (size_t i = 0; r == 0 && path[i]; i++)
                if (path[i] <= 0x20 || path[i] >= 0x7f || path[i] == '#')
                        r = error_set(err, SG_INVALID, "the path holds a character that must be percent-encoded");
        if (r == 0)
                r = check_reserved(o->reserved, ARRAY_LEN(o->reserved), err);
        if (r == 0)
                r = check_pairs(o->headers, "headers", err);
        if (r == 0 && o->url && o->box)
                r = error_set(err, SG_INVALID, "url and box: at most one of them");
        if (r == 0 && o->box && !o->port)
                r = error_set(err, SG_INVALID, "0 is no port");
        if (r == 0 && o->sends_fd && o->body_fd < 0)
                r = error_set(err, SG_INVALID, "body_fd: %d is no file descriptor", o->body_fd);
        return r;
}

/* Which headers are sent where: the key only to the API. */
static int request_headers(const struct sg_client *client, const struct sg_request_options *o, struct box_headers *h,
                           struct sg_error *err)
{
        int r = 0;

        if (o->box)
                r = box_headers_fill(h, o->box, o->port, NULL, err);
        else if (!o->url)
                for (const struct http_header *at = client->headers; at->name; at++)
                        box_headers_add(h, at->name, at->value);
        for (const struct sg_pair *p = o->headers; r == 0 && p && p->name; p++) {
                if (h->count >= BOX_HEADERS_MAX)
                        return error_set(err, SG_INVALID, "there are too many headers");
                box_headers_add(h, p->name, p->value);
        }
        return r;
}

static bool is_repeatable(const char *method, const struct sg_request_options *o)
{
        if (o->repeats != SG_DEFAULT)
                return o->repeats == SG_YES;
        return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 || strcmp(method, "PUT") == 0 ||
               strcmp(method, "DELETE") == 0;
}

static int take_piece(int status, struct str piece, void *arg)
{
        const struct sg_request_options *o = arg;

        return o->on_body(status, piece.p, piece.n, o->arg);
}

static void tell_sent(uint64_t bytes, void *arg)
{
        const struct sg_request_options *o = arg;

        o->on_sent(bytes, o->arg);
}

static int give_answer(const struct exchange_answer *got, struct sg_answer **ret, struct sg_error *err)
{
        struct sg_answer *answer = block_create(sizeof(*answer));

        if (answer)
                *answer = (struct sg_answer){
                        .status = (int)got->status,
                        .body = block_text(answer, (struct str){(const char *)buf_at(&got->body), got->body.len}),
                        .body_len = got->body.len,
                        .next_token = block_text(answer, str_of(got->next_token))};
        if (!answer || !answer->body || !answer->next_token) {
                sg_free(answer);
                return error_no_memory(err);
        }
        *ret = answer;
        return 0;
}

int sg_request(struct sg_client *client, const char *method, const char *path, const char *body,
               const struct sg_request_options *options, const struct sg_call *call, struct sg_answer **ret,
               struct sg_error *err)
{
        static const struct sg_request_options usual;
        const struct sg_request_options *o = options ? options : &usual;
        AUTO(exchange_answer_done) struct exchange_answer answer = {0};
        AUTO(box_headers_done) struct box_headers headers = {0};
        struct exchange x = {.method = method,
                             .target = path,
                             .headers = headers.list,
                             .content_type = o->content_type   ? o->content_type
                                             : body && body[0] ? "application/json"
                                                               : NULL,
                             .body = str_of(body),
                             .sends_fd = o->sends_fd,
                             .fd = o->body_fd,
                             .is_to_sandbox = o->box != NULL,
                             .answer_max = o->answer_max,
                             .on_body = o->on_body ? take_piece : NULL,
                             .on_sent = o->on_sent ? tell_sent : NULL,
                             .arg = (void *)(uintptr_t)o};
        struct limit l;
        int r = check_request(method, path, o, err);

        if (r == 0)
                r = request_headers(client, o, &headers, err);
        if (r == 0)
                r = limit_begin(&l, call, client->timeout_ms, err);
        if (r < 0)
                return r;
        x.url = o->box ? headers.url : o->url ? o->url : client->api_url;
        x.repeats = is_repeatable(method, o);
        r = exchange_run_ok(client, &x, &l, &answer, err);
        return r < 0 || !ret ? r : give_answer(&answer, ret, err);
}
