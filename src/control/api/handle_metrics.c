/* GET /sandboxes/{sandboxID}/metrics: what the sandbox uses now, as the one sample of the list. */
#include "control/api/handlers.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/engine_link/engine_link.h"
#include "control/life/lives.h"
#include "wire/url.h"

#define STATS_TIMEOUT_MS 5000

static json_int_t stats_number(const json_t *answer, const char *name)
{
        return json_integer_value(json_object_get(answer, name)); /* 0: the engine does not say */
}

/* Percent of one core since the last request for metrics, or since the start. */
static double metrics_cpu_percent(struct life *l, uint64_t cpu_us, int64_t now_ns)
{
        uint64_t now_us = clock_mono_us(), wall_us;
        double used;

        wall_us = l->cpu_at_us ? now_us - l->cpu_at_us : (uint64_t)(now_ns - l->sandbox.started_ns) / 1000;
        used = cpu_us > l->cpu_us && wall_us ? 100.0 * (double)(cpu_us - l->cpu_us) / (double)wall_us : 0;
        l->cpu_us = cpu_us;
        l->cpu_at_us = now_us;
        return used;
}

static void metrics_answer(struct engine_call *call, const json_t *answer, const struct err *err)
{
        struct api_exchange *x = CONTAINER_OF(call, struct api_exchange, call);
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);
        int64_t now_ns = x->api->now_ns();
        char now[CLOCK_TEXT_MAX];
        json_int_t limit;

        if (err && err->kind != ERR_GONE && err->kind != ERR_CONFLICT) {
                answer_err(x, err);
                return;
        }
        if (err || !l) {
                answer_json(x, 200, json_array());
                return;
        }
        clock_format(now_ns, now);
        limit = stats_number(answer, "memory_limit");
        answer_json(x, 200,
                    json_pack("[{s:s,s:I,s:i,s:f,s:I,s:I,s:I,s:I,s:I}]", "timestamp", now, "timestampUnix",
                              (json_int_t)(now_ns / 1000000000), "cpuCount", (int)l->sandbox.cpu_count, "cpuUsedPct",
                              metrics_cpu_percent(l, (uint64_t)stats_number(answer, "cpu_us"), now_ns), "memUsed",
                              stats_number(answer, "memory_bytes"), "memTotal",
                              limit ? limit : (json_int_t)l->sandbox.memory_mb << 20, "memCache",
                              stats_number(answer, "memory_cache"), "diskUsed", stats_number(answer, "disk_bytes"),
                              "diskTotal", (json_int_t)l->sandbox.disk_mb << 20));
}

static int metrics_get_seconds(struct str query, const char *name, uint64_t *ret, struct err *err)
{
        AUTO_FREE char *text = NULL;

        if (url_query_get(query, name, &text) < 0 || (text && parse_u64(str_of(text), 0, INT64_MAX, ret) < 0))
                return err_set(err, ERR_INVALID, "validation error: parameter '%s' must be a time in Unix seconds",
                               name);
        return 0;
}

static bool life_is_measurable(const struct life *l)
{
        return l->sandbox.state == SANDBOX_RUNNING || l->sandbox.state == SANDBOX_COPYING;
}

void handle_metrics(struct api_exchange *x)
{
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);
        uint64_t start = 0, end = INT64_MAX, now = (uint64_t)(x->api->now_ns() / 1000000000);
        struct err err = {0};

        if (metrics_get_seconds(x->rq->url.query, "start", &start, &err) < 0 ||
            metrics_get_seconds(x->rq->url.query, "end", &end, &err) < 0) {
                answer_err(x, &err);
        } else if (!l || !life_is_measurable(l) || now < start || now > end) {
                answer_json(x, 200, json_array());
        } else {
                x->call.on = metrics_answer;
                engine_call(x->api->engine, &x->call, json_pack("{s:s,s:s}", "op", "stats", "id", x->id),
                            STATS_TIMEOUT_MS);
        }
}
