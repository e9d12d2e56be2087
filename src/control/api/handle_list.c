/* GET /sandboxes and GET /v2/sandboxes. */
#include "control/api/handlers.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "control/access/keys.h"
#include "control/access/tokens.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/query.h"
#include "control/api/show.h"

/* All sandboxes of the team that match, in no order; the array is the caller's. */
static const struct sandbox **list_select(const struct api_exchange *x, const struct listing *l, size_t *ret_count)
{
        const struct lives *ls = x->api->lives;
        const struct sandbox **all = calloc(ls->count + 1, sizeof(*all));
        size_t n = 0;

        if (!all)
                return NULL;
        LIST_EACH (node, &ls->all) {
                const struct life *life = LIST_ENTRY(node, struct life, node);

                if (life->team == x->team && listing_matches(l, &life->sandbox))
                        all[n++] = &life->sandbox;
        }
        *ret_count = n;
        return all;
}

static void list_answer_page(struct api_exchange *x, const struct listing *l)
{
        char token[QUERY_TOKEN_MAX], total[24];
        struct http_header more[3] = {0};
        size_t n = 0, first, count, headers = 0;
        AUTO_FREE const struct sandbox **all = list_select(x, l, &n);
        json_t *list = json_array();

        if (!all) {
                json_decref(list);
                answer_error(x, 503, NULL, "out of memory");
                return;
        }
        listing_page(l, all, n, &first, &count);
        for (size_t i = first; i < first + count; i++)
                (void)json_array_append_new(list, show_listed(all[i]));
        if (l->wants_running) {
                size_t running = 0;

                for (size_t i = 0; i < n; i++)
                        running += sandbox_is_shown_running(all[i]);
                (void)snprintf(total, sizeof(total), "%zu", running);
                more[headers++] = (struct http_header){"X-Total-Running", total};
        }
        if (first + count < n) {
                query_token_make(l, all[first + count - 1], token);
                more[headers++] = (struct http_header){"X-Next-Token", token};
        }
        answer_json_with(x, 200, more, list);
}

void handle_list_v1(struct api_exchange *x)
{
        AUTO(listing_done) struct listing l = {0};
        struct err err = {0};

        if (query_listing_v1(x->rq->url.query, &l, &err) < 0)
                answer_err(x, &err);
        else
                list_answer_page(x, &l);
}

void handle_list_v2(struct api_exchange *x)
{
        AUTO(listing_done) struct listing l = {0};
        struct err err = {0};

        if (query_listing(x->rq->url.query, x->team->slug, &l, &err) < 0)
                answer_err(x, &err);
        else
                list_answer_page(x, &l);
}
