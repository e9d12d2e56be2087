/* POST /v3/templates, POST /v2/templates: a build is requested.  And the routes of version 1, which are gone. */
#include "control/api/handlers.h"

#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "control/access/keys.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/template/show_template.h"
#include "control/catalogue/builds.h"
#include "control/catalogue/snapshots.h"
#include "control/catalogue/templates.h"
#include "model/build/template_request.h"
#include "model/conf.h"

#define DISK_MB_DEFAULT 10240
#define DISK_MB_MAX (1u << 20)

/* Is the name free for a new template of the team? */
static int request_check_alias(struct api_exchange *x, const char *alias, struct err *err)
{
        const struct template *manifest = NULL;
        struct template_ref ref = {0};

        (void)snprintf(ref.name, sizeof(ref.name), "%s", alias);
        if (template_rows_by_id(x->api->template_rows, alias) ||
            (templates_find(x->api->templates, &ref, "", &manifest, NULL) == 0 && strcmp(manifest->id, alias) == 0) ||
            snapshots_template_of(x->api->snapshots, alias, x->team))
                return err_set(err, ERR_CONFLICT, "Alias '%.128s' is already used", alias);
        return 0;
}

/* Builds that were requested for one of these tags and not started will not be. */
static void request_supersede(struct api_exchange *x, const struct build_entry *by)
{
        LIST_EACH (node, &by->template->builds) {
                struct build_entry *e = LIST_ENTRY(node, struct build_entry, node);

                if (e != by && e->build.status == BUILD_WAITING && build_shares_tag(&e->build, &by->build))
                        (void)build_set_error(x->api->template_rows, e, BUILD_SUPERSEDED, NULL, NULL);
        }
}

static int request_add(struct api_exchange *x, struct template_request *want, struct build_entry **ret, struct err *err)
{
        struct template_rows *ts = x->api->template_rows;
        struct template_row *t = template_rows_by_alias(ts, x->team->no, want->name.name), *added = NULL;
        struct build b = {
                .tags = json_incref(want->tags),
                .cpu_count = want->cpu_count,
                .memory_mb = want->memory_mb,
                .disk_mb = want->min_free_mb > DISK_MB_DEFAULT ? want->min_free_mb : DISK_MB_DEFAULT,
        };
        int r = 0;

        if (!t) {
                r = request_check_alias(x, want->name.name, err);
                if (r == 0)
                        r = template_rows_add(ts, x->team->no, want->name.name, &added, err);
                t = added;
        }
        if (r == 0)
                r = builds_add(ts, t, &b, ret, err);
        if (r < 0 && added)
                (void)template_rows_remove(ts, added, NULL);
        build_done(&b);
        return r;
}

static void request_answer(struct api_exchange *x, const struct build_entry *e)
{
        const struct template_row *t = e->template;

        answer_json(x, 202,
                    json_pack("{s:s,s:s,s:b,s:o,s:o,s:O}", "templateID", t->id, "buildID", e->build.id, "public",
                              t->is_public, "names", show_names(x->api, t), "aliases", show_aliases(x->api, t), "tags",
                              e->build.tags));
}

static bool request_is_over_limit(struct api_exchange *x)
{
        uint32_t most = x->api->conf->builds_max;

        if (builds_running(x->api->template_rows, x->team->no) < most)
                return false;
        answer_error(x, 429, NULL,
                     "you have reached the maximum number of concurrent template builds (%u). Wait for one of them, "
                     "cancel one, or ask the operator for more (setting builds_max).",
                     most);
        return true;
}

void handle_request_build(struct api_exchange *x)
{
        const struct conf *conf = x->api->conf;
        const struct template_request_limits limits = {
                .slug = x->team->slug,
                .default_cpus = conf->default_cpus,
                .default_memory_mb = conf->default_memory_mb,
                .cpus_max = conf->template_cpus_max,
                .memory_max_mb = conf->template_memory_max_mb,
                .disk_max_mb = DISK_MB_MAX,
        };
        AUTO(template_request_done) struct template_request want = {0};
        struct build_entry *e = NULL;
        struct err err = {0};

        if (template_request_decode(x->body, &limits, &want, &err) < 0) {
                answer_err(x, &err);
        } else if (request_is_over_limit(x)) {
                return;
        } else if (request_add(x, &want, &e, &err) < 0) {
                answer_err(x, &err);
        } else {
                request_supersede(x, e);
                request_answer(x, e);
        }
}

void handle_build_v1(struct api_exchange *x)
{
        answer_error(x, 410, NULL,
                     "This way of building templates (docker push, CLI up to 2.10) is not served. Use Template.build() "
                     "of the JavaScript or Python SDK from 2.0 on, `e2b template create` of a newer CLI, or `sandglass "
                     "template build DIR`, which reads e2b.toml and e2b.Dockerfile.");
}
