/* Templates: lists, get, delete, publish, and whether a name exists. */
#include "control/api/handlers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "control/access/keys.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/query.h"
#include "control/api/template/show_template.h"
#include "control/api/template/template_path.h"
#include "control/catalogue/build_log.h"
#include "control/catalogue/builds.h"
#include "control/catalogue/snapshots.h"
#include "control/catalogue/templates.h"
#include "control/life/lives.h"
#include "model/json_field.h"
#include "wire/url.h"

/* ---- lists ---- */

/* The team in the query, if there is one, is that of the key.  false: the request is answered. */
static bool list_check_team(struct api_exchange *x)
{
        AUTO_FREE char *text = NULL;

        if (url_query_get(x->rq->url.query, "teamID", &text) == 0 &&
            (!text || !text[0] || strcmp(text, x->team->id) == 0 || strcmp(text, x->team->slug) == 0))
                return true;
        answer_error(x, 400, NULL, "Team ID param mismatch with the API key");
        return false;
}

static void list_append(json_t *list, json_t *entry)
{
        if (entry)
                (void)json_array_append_new(list, entry);
}

static void list_add_manifests(const struct api *api, json_t *list)
{
        (void)templates_has(api->templates, "base"); /* reads the directory again, if it changed */
        for (size_t i = 0; i < api->templates->count; i++)
                list_append(list, show_manifest(api, api->templates->all[i]));
}

void handle_list_templates_v1(struct api_exchange *x)
{
        json_t *list;

        if (!list_check_team(x))
                return;
        list = json_array();
        list_add_manifests(x->api, list);
        LIST_EACH (node, &x->api->template_rows->all) {
                const struct template_row *t = LIST_ENTRY(node, struct template_row, node);

                if (t->team == x->team->no)
                        list_append(list, show_template(x->api, t));
        }
        answer_json(x, 200, list);
}

/* Newest first; what is of the same instant is ordered by id. */
static bool is_on_page(const struct page_query *q, int64_t ns, const char *id)
{
        if (!q->after_id[0] || ns < q->after_ns)
                return true;
        return ns == q->after_ns && strcmp(id, q->after_id) > 0;
}

static int template_newest_first(const void *a, const void *b)
{
        const struct template_row *x = *(const struct template_row *const *)a;
        const struct template_row *y = *(const struct template_row *const *)b;

        if (x->created_ns != y->created_ns)
                return x->created_ns > y->created_ns ? -1 : 1;
        return strcmp(x->id, y->id);
}

/* On the last page the templates of the server follow, which have no time of their own. */
static void list_page(struct api_exchange *x, const struct page_query *q, const struct template_row **all, size_t n)
{
        struct http_header more[2] = {0};
        char token[QUERY_TOKEN_MAX];
        json_t *list = json_array();

        if (n)
                qsort(all, n, sizeof(*all), template_newest_first);
        for (size_t i = 0; i < n && i < q->limit; i++)
                list_append(list, show_template(x->api, all[i]));
        if (n > q->limit) {
                query_page_token(all[q->limit - 1]->created_ns, all[q->limit - 1]->id, token);
                more[0] = (struct http_header){"X-Next-Token", token};
        } else {
                list_add_manifests(x->api, list);
        }
        answer_json_with(x, 200, more, list);
}

void handle_list_templates_v2(struct api_exchange *x)
{
        const struct template_rows *ts = x->api->template_rows;
        AUTO_FREE const struct template_row **all = calloc(ts->count + 1, sizeof(*all));
        struct page_query q;
        struct err err = {0};
        size_t n = 0;

        if (!all || query_page(x->rq->url.query, &q, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        LIST_EACH (node, &ts->all) {
                const struct template_row *t = LIST_ENTRY(node, struct template_row, node);

                if (t->team == x->team->no && is_on_page(&q, t->created_ns, t->id))
                        all[n++] = t;
        }
        list_page(x, &q, all, n);
}

/* ---- one ---- */

static void get_answer(struct api_exchange *x, const struct template_row *t, const struct page_query *q)
{
        json_t *builds = json_array();
        struct http_header more[2] = {0};
        char token[QUERY_TOKEN_MAX];
        const struct build *last = NULL;

        for (const struct list *at = t->builds.prev; at != &t->builds; at = at->prev) { /* newest first */
                const struct build *b = &LIST_ENTRY(at, struct build_entry, node)->build;

                if (q->after_id[0] && b->number >= (uint64_t)q->after_ns)
                        continue;
                if (json_array_size(builds) >= q->limit) {
                        query_page_token(last->number, last->id, token);
                        more[0] = (struct http_header){"X-Next-Token", token};
                        break;
                }
                (void)json_array_append_new(builds, show_build(b));
                last = b;
        }
        answer_json_with(x, 200, more, json_with(show_template_head(x->api, t), "builds", builds));
}

static void get_manifest_answer(struct api_exchange *x, const struct template *t)
{
        json_t *obj = show_manifest(x->api, t);
        json_t *build = json_pack("{s:O,s:s,s:O,s:O,s:O,s:O,s:O,s:O,s:O}", "buildID", json_object_get(obj, "buildID"),
                                  "status", "ready", "createdAt", json_object_get(obj, "createdAt"), "updatedAt",
                                  json_object_get(obj, "updatedAt"), "finishedAt", json_object_get(obj, "createdAt"),
                                  "cpuCount", json_object_get(obj, "cpuCount"), "memoryMB",
                                  json_object_get(obj, "memoryMB"), "diskSizeMB", json_object_get(obj, "diskSizeMB"),
                                  "envdVersion", json_object_get(obj, "envdVersion"));

        answer_json(x, 200, json_with(obj, "builds", json_pack("[o]", build)));
}

void handle_get_template(struct api_exchange *x)
{
        struct template_source src = {0};
        struct template_ref ref;
        struct page_query q;
        struct err err = {0};

        if (query_page(x->rq->url.query, &q, &err) < 0 || path_reference(x, &ref, &err) < 0 ||
            sources_find_template(&x->api->sources, &ref, x->team, &src, &err) < 0)
                answer_err(x, &err);
        else if (src.row)
                get_answer(x, src.row, &q);
        else if (src.manifest)
                get_manifest_answer(x, src.manifest);
        else
                answer_error(x, 404, NULL, "template '%s' not found: it is a snapshot", ref.name);
}

/* ---- does it exist? ---- */

void handle_template_alias(struct api_exchange *x)
{
        struct template_source src = {0};
        struct template_ref ref;
        struct err err = {0};
        int r = path_reference(x, &ref, &err);

        if (r == 0)
                r = (ref.tag[0] ? sources_find : sources_find_template)(&x->api->sources, &ref, x->team, &src, &err);
        if (r < 0)
                answer_err(x, &err);
        else
                answer_json(x, 200,
                            json_pack("{s:s,s:b}", "templateID",
                                      src.row        ? src.row->id
                                      : src.snapshot ? src.snapshot->template_id
                                                     : src.manifest->id,
                                      "public", src.row ? src.row->is_public : src.manifest != NULL));
}

/* ---- deleting ---- */

/* "running" or "paused": there is such a sandbox of the snapshot.  NULL: there is none. */
static const char *snapshot_used_by(const struct api *api, const char *template_id)
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

static void delete_snapshot(struct api_exchange *x, const struct template_ref *ref, const struct snapshot *sn)
{
        const char *used = snapshot_used_by(x->api, sn->template_id);
        struct err err = {0};

        if (used)
                answer_error(x, 400, NULL, "cannot delete template '%s%s%s' because there are %s sandboxes using it",
                             ref->ns, ref->ns[0] ? "/" : "", ref->name, used);
        else if (snapshots_remove(x->api->snapshots, sn->template_id, &err) < 0)
                answer_err(x, &err);
        else
                answer_empty(x, 204);
}

/* Sandboxes that were started from it go on: they have its layers themselves. */
static void delete_row(struct api_exchange *x, struct template_row *t)
{
        struct err err = {0};

        template_stop_builds(x, t);
        LIST_EACH (node, &t->builds)
                build_log_remove(x->api->build_logs, LIST_ENTRY(node, struct build_entry, node)->build.id);
        if (template_rows_remove(x->api->template_rows, t, &err) < 0)
                answer_err(x, &err);
        else
                answer_empty(x, 204);
}

void handle_delete_template(struct api_exchange *x)
{
        struct template_source src = {0};
        struct template_row *t = NULL;
        struct template_ref ref;
        struct err err = {0};

        if (path_reference(x, &ref, &err) < 0 || sources_find_template(&x->api->sources, &ref, x->team, &src, &err) < 0)
                answer_err(x, &err);
        else if (src.snapshot)
                delete_snapshot(x, &ref, src.snapshot);
        else if (own_template(x, &ref, &t, &err) < 0)
                answer_err(x, &err);
        else
                delete_row(x, t);
}

/* The same for a snapshot only: a template that has the name stays. */
void handle_delete_snapshot(struct api_exchange *x)
{
        const struct snapshot *sn = NULL;
        struct template_ref ref;
        struct err err = {0};

        if (path_reference(x, &ref, &err) < 0 || snapshots_find(x->api->snapshots, &ref, x->team, &sn, &err) < 0)
                answer_err(x, &err);
        else
                delete_snapshot(x, &ref, sn);
}

/* ---- publishing ---- */

/* May other teams know it by its alias alone? */
static int publish_check_bare(struct api_exchange *x, const struct template_row *t, struct err *err)
{
        const struct template_row *other =
                t->alias ? template_rows_by_bare_alias(x->api->template_rows, t->alias) : NULL;

        if (t->alias && ((other && other != t) || templates_has(x->api->templates, t->alias)))
                return err_set(err, ERR_CONFLICT, "Alias '%.128s' is already used", t->alias);
        return 0;
}

static int publish(struct api_exchange *x, bool claims_bare, struct template_row **ret, struct err *err)
{
        struct template_row *t = NULL;
        bool is_public = false;
        int r;

        if (json_field_bool(x->body, "public", &is_public, err) < 0)
                return -EINVAL;
        if ((r = path_template(x, &t, err)) < 0)
                return r;
        *ret = t;
        if (!json_field_is_set(x->body, "public"))
                return 0;
        if (is_public && claims_bare && (r = publish_check_bare(x, t, err)) < 0)
                return r;
        return template_row_publish(x->api->template_rows, t, is_public, claims_bare || t->is_bare, err);
}

void handle_patch_template_v1(struct api_exchange *x)
{
        struct template_row *t = NULL;
        struct err err = {0};

        if (publish(x, true, &t, &err) < 0)
                answer_err(x, &err);
        else
                answer_json(x, 200, json_object());
}

void handle_patch_template_v2(struct api_exchange *x)
{
        struct template_row *t = NULL;
        struct err err = {0};

        if (publish(x, false, &t, &err) < 0)
                answer_err(x, &err);
        else
                answer_json(x, 200, json_pack("{s:o}", "names", show_names(x->api, t)));
}
