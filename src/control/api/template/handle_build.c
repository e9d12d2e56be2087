/* Builds: POST /v2/templates/{templateID}/builds/{buildID} starts one, DELETE /templates/{templateID}/builds/{buildID} cancels it, and
 * .../status and .../logs tell about it. */
#include "control/api/handlers.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "control/access/keys.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/template/template_path.h"
#include "control/catalogue/build_log.h"
#include "control/catalogue/build_runner.h"
#include "control/catalogue/builds.h"
#include "model/build/build_names.h"
#include "model/build/build_request.h"
#include "model/conf.h"
#include "model/json_field.h"
#include "wire/url.h"

#define MS_NS INT64_C(1000000)

/* ---- starting and cancelling ---- */

/* End a build that is not over; what runs for it is ended. */
static int build_stop(struct api_exchange *x, struct build_entry *e, const char *why, struct err *err)
{
        bool is_running = e->build.status == BUILD_BUILDING;
        int r;

        if (is_running)
                build_log_add(x->api->build_logs, e->build.id, x->api->now_ns(), BUILD_LOG_ERROR, NULL, why);
        r = build_set_error(x->api->template_rows, e, why, NULL, err);
        if (r == 0 && is_running && x->api->runner)
                x->api->runner->cancel(x->api->runner, e->build.id);
        return r;
}

void template_stop_builds(struct api_exchange *x, struct template_row *t)
{
        LIST_EACH (node, &t->builds) {
                struct build_entry *e = LIST_ENTRY(node, struct build_entry, node);

                if (!build_is_over(&e->build))
                        (void)build_stop(x, e, BUILD_CANCELLED, NULL);
        }
}

static void start_supersede(struct api_exchange *x, const struct build_entry *by)
{
        LIST_EACH (node, &by->template->builds) {
                struct build_entry *e = LIST_ENTRY(node, struct build_entry, node);

                if (e != by && e->build.status == BUILD_BUILDING && build_shares_tag(&e->build, &by->build))
                        (void)build_stop(x, e, BUILD_SUPERSEDED, NULL);
        }
}

static size_t start_count_superseded(const struct build_entry *by)
{
        size_t n = 0;

        LIST_EACH (node, &by->template->builds) {
                const struct build_entry *e = LIST_ENTRY(node, struct build_entry, node);

                n += e != by && e->build.status == BUILD_BUILDING && build_shares_tag(&e->build, &by->build);
        }
        return n;
}

static int start_decode(struct api_exchange *x, struct build_request *ret, struct err *err)
{
        const struct conf *conf = x->api->conf;
        struct build_request want = {0};
        int r;

        /* Ours to decide: a client says by its version what it expects. */
        (void)json_object_del(x->body, "rootDefault");
        if (build_agent_is_root_default(http1_value(x->rq->head, "User-Agent")) &&
            json_object_set_new(x->body, "rootDefault", json_true()) < 0)
                return err_sys(err, -ENOMEM, "build");
        r = build_request_decode(x->body, &want, err);
        if (r == 0 && want.cpu_count)
                r = build_check_cpus(want.cpu_count, conf->template_cpus_max, err);
        if (r == 0 && want.memory_mb)
                r = build_check_memory(want.memory_mb, conf->template_memory_max_mb, err);
        if (r < 0)
                build_request_done(&want);
        else
                *ret = want;
        return r;
}

static void start_checked(struct api_exchange *x, struct build_entry *e, const struct build_request *want)
{
        uint32_t most = x->api->conf->builds_max;
        char id[UUID_MAX];
        struct err err = {0};

        if (!x->api->runner) {
                answer_error(x, 503, NULL, "this server runs no builds");
                return;
        }
        if (builds_running(x->api->template_rows, x->team->no) >= most + start_count_superseded(e)) {
                answer_error(x, 429, NULL, "you have reached the maximum number of concurrent template builds (%u).",
                             most);
                return;
        }
        start_supersede(x, e);
        if (build_begin(x->api->template_rows, e, want, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        memcpy(id, e->build.id, sizeof(id));
        x->api->runner->start(x->api->runner, id);
        answer_empty(x, 202);
}

void handle_start_build(struct api_exchange *x)
{
        AUTO(build_request_done) struct build_request want = {0};
        struct build_entry *e = NULL;
        struct err err = {0};

        if (path_build(x, &e, &err) < 0)
                answer_err(x, &err);
        else if (e->build.status != BUILD_WAITING)
                answer_error(x, 400, NULL, "build is not in waiting state");
        else if (start_decode(x, &want, &err) < 0)
                answer_err(x, &err);
        else
                start_checked(x, e, &want);
}

void handle_cancel_build(struct api_exchange *x)
{
        struct build_entry *e = NULL;
        struct err err = {0};

        if (path_build(x, &e, &err) < 0)
                answer_err(x, &err);
        else if (build_is_over(&e->build))
                answer_error(x, 409, NULL, "build '%s' is over: its status is %s", e->build.id,
                             build_status_name(e->build.status));
        else if (build_stop(x, e, BUILD_CANCELLED, &err) < 0)
                answer_err(x, &err);
        else
                answer_empty(x, 204);
}

/* ---- status and logs ---- */

struct log_query {
        uint64_t offset, limit;
        enum build_log_level level;
        int64_t at_ns;
        bool is_backward;
};

static int query_number(struct str query, const char *name, uint64_t min, uint64_t max, uint64_t *ret, struct err *err)
{
        AUTO_FREE char *text = NULL;

        if (url_query_get(query, name, &text) < 0 || (text && text[0] && parse_u64(str_of(text), min, max, ret) < 0))
                return err_set(err, ERR_INVALID, "validation error: parameter '%s' must be a number from %llu to %llu",
                               name, (unsigned long long)min, (unsigned long long)max);
        return 0;
}

/* 0-based position of the text in the list; *ret stays when the parameter is absent. */
static int query_choice(struct str query, const char *name, const char *const *list, size_t n, size_t *ret,
                        struct err *err)
{
        AUTO_FREE char *text = NULL;

        if (url_query_get(query, name, &text) == 0) {
                if (!text || !text[0])
                        return 0;
                for (size_t i = 0; i < n; i++)
                        if (strcmp(text, list[i]) == 0) {
                                *ret = i;
                                return 0;
                        }
        }
        return err_set(err, ERR_INVALID, "validation error: parameter '%s' has an unknown value", name);
}

static int log_query_decode(struct str query, struct log_query *ret, struct err *err)
{
        static const char *const levels[] = {"debug", "info", "warn", "error"};
        static const char *const directions[] = {"forward", "backward"};
        static const char *const sources[] = {"temporary", "persistent"};
        struct log_query q = {.limit = BUILD_LOG_PAGE_MAX};
        size_t level = 0, direction = 0, source = 0;
        uint64_t cursor = 0;

        if (query_number(query, "logsOffset", 0, INT64_MAX, &q.offset, err) < 0 ||
            query_number(query, "limit", 0, BUILD_LOG_PAGE_MAX, &q.limit, err) < 0 ||
            query_choice(query, "level", levels, ARRAY_LEN(levels), &level, err) < 0 ||
            query_number(query, "cursor", 0, INT64_MAX / MS_NS, &cursor, err) < 0 ||
            query_choice(query, "direction", directions, ARRAY_LEN(directions), &direction, err) < 0 ||
            query_choice(query, "source", sources, ARRAY_LEN(sources), &source, err) < 0)
                return -EINVAL;
        q.level = (enum build_log_level)level;
        q.is_backward = direction == 1;
        q.at_ns = (int64_t)cursor * MS_NS;
        if (!cursor)
                q.at_ns = q.is_backward ? INT64_MAX : INT64_MIN;
        *ret = q;
        return 0;
}

/* The texts alone, as older clients read them. */
static json_t *log_texts(const json_t *entries)
{
        json_t *list = json_array(), *v;
        size_t i;

        json_array_foreach (entries, i, v)
                (void)json_array_append(list, json_object_get(v, "message"));
        return list;
}

void handle_build_status(struct api_exchange *x)
{
        struct build_entry *e = NULL;
        struct log_query q;
        struct err err = {0};
        json_t *entries, *answer;

        if (log_query_decode(x->rq->url.query, &q, &err) < 0 || path_build(x, &e, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        entries = build_log_read(x->api->build_logs, e->build.id, q.level, q.offset, q.limit);
        answer =
                json_pack("{s:s,s:s,s:s,s:o,s:o}", "templateID", e->build.template_id, "buildID", e->build.id, "status",
                          build_status_name(e->build.status), "logs", log_texts(entries), "logEntries", entries);
        answer_json(x, 200, json_with_ref(answer, "reason", e->build.reason));
}

void handle_build_logs(struct api_exchange *x)
{
        struct build_entry *e = NULL;
        struct log_query q;
        struct err err = {0};

        if (log_query_decode(x->rq->url.query, &q, &err) < 0 || path_build(x, &e, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        answer_json(x, 200,
                    json_pack("{s:o}", "logs",
                              build_log_read_time(x->api->build_logs, e->build.id, q.level, q.at_ns, q.is_backward,
                                                  q.limit)));
}
