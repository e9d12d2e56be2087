/* GET /sandglass/df: who holds what on the disk, for the operator. */
#include "control/api/handlers.h"

#include "base/auto.h"
#include "base/err.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/build/builds_run.h"
#include "control/build/usage.h"
#include "control/engine_link/engine_link.h"

#define USAGE_TIMEOUT_MS 600000 /* all files are looked at */

static void df_answer(struct engine_call *call, const json_t *answer, const struct err *err)
{
        struct api_exchange *x = CONTAINER_OF(call, struct api_exchange, call);
        const struct builds_run *builds = CONTAINER_OF(x->api->runner, struct builds_run, runner);

        if (err)
                answer_err(x, err);
        else
                answer_json(x, 200, usage_report(&builds->o, answer));
}

void handle_df(struct api_exchange *x)
{
        x->call.on = df_answer;
        engine_call(x->api->engine, &x->call, json_pack("{s:s}", "op", "usage"), USAGE_TIMEOUT_MS);
}
