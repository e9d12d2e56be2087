/* GET /snapshots, DELETE /templates/{templateID}. */
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
#include "control/catalogue/templates.h"
#include "control/life/lives.h"
#include "wire/url.h"

/* ---- the list ---- */

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

/* ---- deleting ---- */

/* "running" or "paused": there is such a sandbox of the template.  NULL: there is none. */
static const char *template_used_by(const struct api *api, const char *template_id)
{
        const char *used = NULL;

        LIST_EACH (node, &api->lives->all) {
                const struct sandbox *s = &LIST_ENTRY(node, struct life, node)->sandbox;

                if (strcmp(s->template_id, template_id) != 0 || s->state >= SANDBOX_KILLING)
                        continue;
                if (sandbox_is_shown_running(s))
                        return "running";
                used = "paused";
        }
        return used;
}

/* The tag is ignored: all snapshots of the name are deleted. */
static int delete_find_template(struct api_exchange *x, const char *text, const char **ret_template_id, struct err *err)
{
        struct template_ref ref;
        struct err why = {0};

        if (template_ref_parse(str_of(text), &ref, &why) < 0)
                return err_set(err, ERR_INVALID, "Invalid template reference: %s", why.msg);
        LIST_EACH (node, &x->api->snapshots->all) {
                const struct snapshot *sn = &LIST_ENTRY(node, struct snapshot_entry, node)->snapshot;

                if (sn->team != x->team->no || (ref.ns[0] && strcmp(ref.ns, x->team->slug) != 0))
                        continue;
                if (strcmp(sn->template_id, ref.name) == 0 || (sn->name && strcmp(sn->name, ref.name) == 0)) {
                        *ret_template_id = sn->template_id;
                        return 0;
                }
        }
        if (templates_has(x->api->templates, ref.name) && (!ref.ns[0] || strcmp(ref.ns, x->team->slug) == 0))
                return err_set(err, ERR_INVALID,
                               "template '%s' is not a snapshot: this server version cannot delete it", text);
        return err_set(err, ERR_NOT_FOUND, "template '%s' not found", text);
}

void handle_delete_template(struct api_exchange *x)
{
        AUTO_FREE char *text = NULL;
        const char *template_id = NULL, *used;
        struct err err = {0};

        if (url_decode_dup(x->segment, false, &text) < 0) {
                answer_error(x, 400, NULL, "Invalid template reference: not well-formed");
        } else if (delete_find_template(x, text, &template_id, &err) < 0) {
                answer_err(x, &err);
        } else if ((used = template_used_by(x->api, template_id))) {
                answer_error(x, 400, NULL, "cannot delete template '%s' because there are %s sandboxes using it", text,
                             used);
        } else if (snapshots_remove(x->api->snapshots, template_id, &err) < 0) {
                answer_err(x, &err);
        } else {
                answer_empty(x, 204);
        }
}
