#include "client/sandbox/rest.h"

#include <errno.h>
#include <string.h>

#include "wire/url.h"

#define LIST_PAGES_MAX 1001u

int target_write(const char *target, const char *name, struct buf *out)
{
        const char *place = name ? strstr(target, "%s") : NULL;
        int r;

        if (!place)
                return buf_addc(out, target);
        r = buf_add(out, target, (size_t)(place - target));
        if (r == 0)
                r = url_encode(str_of(name), out);
        return r < 0 ? r : buf_addc(out, place + 2);
}

static bool is_repeatable(const char *method)
{
        return strcmp(method, "GET") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "DELETE") == 0;
}

static int take_answer(const struct exchange_answer *answer, json_t **ret, struct sg_error *err)
{
        json_t *got;

        if (!answer->body.len) {
                *ret = NULL;
                return 0;
        }
        got = json_loadb((const char *)buf_at(&answer->body), answer->body.len, JSON_DECODE_ANY, NULL);
        if (!got)
                return error_set(err, SG_INTERNAL, "the server's answer is not JSON");
        *ret = got;
        return 0;
}

int rest_call(struct sg_client *client, const struct rest_request *a, struct limit *l, json_t **ret,
              struct sg_error *err)
{
        AUTO_FREE char *text = a->body ? json_dumps(a->body, JSON_COMPACT) : NULL;
        AUTO(exchange_answer_done) struct exchange_answer answer = {0};
        AUTO_BUF struct buf target = BUF_INIT(REST_TARGET_MAX);
        bool has_body = a->body != NULL;
        int r;

        json_decref(a->body);
        if (has_body && !text)
                return error_no_memory(err);
        r = target_write(a->target, a->name, &target);
        if (r == 0 && !buf_cstr(&target))
                r = -ENOMEM;
        if (r < 0)
                return error_sys(err, r, "write the request");
        r = exchange_run_ok(client,
                            &(struct exchange){.url = client->api_url,
                                               .method = a->method,
                                               .target = buf_cstr(&target),
                                               .headers = client->headers,
                                               .content_type = text ? "application/json" : NULL,
                                               .body = str_of(text),
                                               .repeats = a->repeats || is_repeatable(a->method)},
                            l, &answer, err);
        if (r < 0)
                return r;
        if (a->next)
                memcpy(a->next, answer.next_token, sizeof(answer.next_token));
        return ret ? take_answer(&answer, ret, err) : 0;
}

int rest_run(struct sg_client *client, const struct rest_request *a, const struct sg_call *call, json_t **ret,
             struct sg_error *err)
{
        struct limit l;
        int r = limit_begin(&l, call, a->usual_ms ? a->usual_ms : client->timeout_ms, err);

        if (r < 0) {
                json_decref(a->body);
                return r;
        }
        return rest_call(client, a, &l, ret, err);
}

static int list_page(struct sg_client *client, const char *query, char next[512], struct limit *l, json_t *all,
                     struct sg_error *err)
{
        AUTO_BUF struct buf target = BUF_INIT(REST_TARGET_MAX);
        json_t *page = NULL;
        int r = buf_addc(&target, query);

        if (r == 0 && next[0])
                r = buf_addc(&target, "&nextToken=");
        if (r == 0 && next[0])
                r = url_encode(str_of(next), &target);
        if (r == 0 && !buf_cstr(&target))
                r = -ENOMEM;
        if (r < 0)
                return error_sys(err, r, "write the request");
        r = rest_call(client, &(struct rest_request){.method = "GET", .target = buf_cstr(&target), .next = next}, l,
                      &page, err);
        if (r == 0 && !json_is_array(page))
                r = error_set(err, SG_INTERNAL, "the server's answer is not a list");
        else if (r == 0 && json_array_extend(all, page) < 0)
                r = error_no_memory(err);
        json_decref(page);
        return r;
}

int rest_list(struct sg_client *client, const char *query, size_t max, struct limit *l, json_t **ret_array,
              struct sg_error *err)
{
        json_t *all = json_array();
        char next[512] = "";
        unsigned pages = 0;
        int r = all ? 0 : error_no_memory(err);

        while (r == 0) {
                r = list_page(client, query, next, l, all, err);
                if (r < 0 || !next[0] || json_array_size(all) >= max || ++pages >= LIST_PAGES_MAX)
                        break;
        }
        while (r == 0 && json_array_size(all) > max)
                (void)json_array_remove(all, json_array_size(all) - 1);
        if (r < 0)
                json_decref(all);
        else
                *ret_array = all;
        return r;
}
