/* GET /sandglass/ahead: what the engine has made ahead, and how often that was there when it was wanted; for the operator. */
#include "control/api/handlers.h"

#include "base/auto.h"
#include "base/err.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/engine_link/engine_link.h"

#define INFO_TIMEOUT_MS 5000

static json_int_t number(const json_t *info, const char *name)
{
        return json_integer_value(json_object_get(info, name));
}

static json_t *with_rate(json_t *obj, json_int_t hits, json_int_t misses)
{
        json_t *rate = hits + misses > 0 ? json_real((double)hits / (double)(hits + misses)) : json_null();

        (void)json_object_set_new(obj, "hits", json_integer(hits));
        (void)json_object_set_new(obj, "misses", json_integer(misses));
        (void)json_object_set_new(obj, "hitRate", rate);
        return obj;
}

static void ahead_answer(struct engine_call *call, const json_t *info, const struct err *err)
{
        struct api_exchange *x = CONTAINER_OF(call, struct api_exchange, call);
        json_t *cells, *standbys;

        if (err) {
                answer_err(x, err);
                return;
        }
        cells = json_pack("{s:I}", "ready", number(info, "pool_ready"));
        standbys =
                json_pack("{s:I,s:I}", "ready", number(info, "standbys"), "memoryBytes", number(info, "standby_bytes"));
        answer_json(x, 200,
                    json_pack("{s:o,s:o}", "cells",
                              with_rate(cells, number(info, "pool_hits"), number(info, "pool_misses")), "standbys",
                              with_rate(standbys, number(info, "standby_hits"), number(info, "standby_misses"))));
}

void handle_ahead(struct api_exchange *x)
{
        x->call.on = ahead_answer;
        engine_call(x->api->engine, &x->call, json_pack("{s:s}", "op", "info"), INFO_TIMEOUT_MS);
}
