/* GET /snapshots. */
#include "control/api/handlers.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "control/access/keys.h"
#include "control/access/tokens.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/query.h"
#include "control/api/show.h"
#include "control/catalogue/snapshots.h"

static bool snapshot_matches_query(const struct snapshot_query *q, const struct snapshot *sn, const struct team *team)
{
        const struct template_ref *name = &q->name;

        if (sn->team != team->no || (q->source[0] && strcmp(q->source, sn->source) != 0))
                return false;
        if (!name->name[0])
                return true;
        if (name->ns[0] && strcmp(name->ns, team->slug) != 0)
                return false;
        if (strcmp(sn->template_id, name->name) != 0 && (!sn->name || strcmp(sn->name, name->name) != 0))
                return false;
        return !name->tag[0] || strcmp(name->tag, sn->tag) == 0;
}

/* The list is newest first; snapshots of the same instant are ordered by id. */
static bool snapshot_is_after(const struct snapshot_query *q, const struct snapshot *sn)
{
        if (!q->after_id[0] || sn->created_ns < q->after_ns)
                return true;
        return sn->created_ns == q->after_ns && strcmp(sn->id, q->after_id) > 0;
}

static int snapshot_newest_first(const void *a, const void *b)
{
        const struct snapshot *x = *(const struct snapshot *const *)a, *y = *(const struct snapshot *const *)b;

        if (x->created_ns != y->created_ns)
                return x->created_ns > y->created_ns ? -1 : 1;
        return strcmp(x->id, y->id);
}

void handle_list_snapshots(struct api_exchange *x)
{
        const struct snapshots *ss = x->api->snapshots;
        AUTO_FREE const struct snapshot **all = calloc(ss->count + 1, sizeof(*all));
        struct http_header more[2] = {0};
        char token[QUERY_TOKEN_MAX];
        struct snapshot_query q;
        struct err err = {0};
        size_t n = 0;
        json_t *list;

        if (!all || query_snapshots(x->rq->url.query, &q, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        LIST_EACH (node, &ss->all) {
                const struct snapshot *sn = &LIST_ENTRY(node, struct snapshot_entry, node)->snapshot;

                if (snapshot_matches_query(&q, sn, x->team) && snapshot_is_after(&q, sn))
                        all[n++] = sn;
        }
        if (n)
                qsort(all, n, sizeof(*all), snapshot_newest_first);
        list = json_array();
        for (size_t i = 0; i < n && i < q.limit; i++)
                (void)json_array_append_new(list, show_snapshot(x->team->slug, all[i]));
        if (n > q.limit) {
                query_snapshot_token(all[q.limit - 1], token);
                more[0] = (struct http_header){"X-Next-Token", token};
        }
        answer_json_with(x, 200, more, list);
}
