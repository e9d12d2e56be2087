/* pause, resume and connect: each waits for the transition under way, then looks at the sandbox again. */
#include "control/api/handlers.h"

#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/show.h"
#include "control/life/life_time.h"
#include "control/life/lives.h"
#include "model/conf.h"
#include "model/json_field.h"
#include "model/lifetime.h"

static void wait_for_life(struct api_exchange *x, struct life *l,
                          void (*on)(struct life_waiter *w, enum sandbox_state reached, const struct err *err))
{
        x->waiter.on = on;
        life_wait(l, &x->waiter);
}

/* ---- pause ---- */

/* Clients take {"code":409} for "the sandbox is paused already" and go on without an error.  A sandbox whose processes cannot
 * be saved must not look like that: the status is 409, the code in the body is another one. */
#define CODE_NOT_DUMPABLE 422

static void pause_refuse(struct api_exchange *x, const struct err *err)
{
        switch (err->kind) {
        case ERR_CONFLICT:
                answer_error_as(x, 409, CODE_NOT_DUMPABLE, "sandbox_cannot_be_paused", "Error pausing sandbox - %s",
                                err->msg);
                break;
        case ERR_LIMIT:
        case ERR_NO_SPACE: answer_error(x, 507, NULL, "Error pausing sandbox - %s", err->msg); break;
        case ERR_INTERRUPTED:
        case ERR_UNAVAILABLE: answer_error(x, 503, NULL, "Error pausing sandbox - %s", err->msg); break;
        default: answer_error(x, 500, NULL, "Error pausing sandbox - %s", err->msg); break;
        }
}

static void pause_try(struct api_exchange *x);

static void pause_waited(struct life_waiter *w, enum sandbox_state reached, const struct err *err)
{
        struct api_exchange *x = CONTAINER_OF(w, struct api_exchange, waiter);

        if (!x->wish.is_begun && reached != SANDBOX_KILLING)
                pause_try(x);
        else if (reached == SANDBOX_PAUSED && !err)
                answer_empty(x, 204);
        else if (reached == SANDBOX_GONE)
                answer_no_sandbox(x);
        else if (reached == SANDBOX_KILLING)
                answer_error(x, 409, NULL, "Sandbox '%s' cannot be paused while in 'killing' state", x->id);
        else
                pause_refuse(x, err);
}

static void pause_try(struct api_exchange *x)
{
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);
        struct err err = {0};

        if (!l) {
                answer_no_sandbox(x);
                return;
        }
        switch (l->sandbox.state) {
        case SANDBOX_RUNNING:
                if (life_pause(l, x->wish.with_memory, &err) < 0) {
                        pause_refuse(x, &err);
                        return;
                }
                break;
        case SANDBOX_PAUSED:
        case SANDBOX_COPYING_PAUSED:
        case SANDBOX_ROLLING_BACK_PAUSED:
                answer_error(x, 409, NULL, "Error pausing sandbox - sandbox '%s' is already paused", x->id);
                return;
        case SANDBOX_KILLING:
                answer_error(x, 409, NULL, "Sandbox '%s' cannot be paused while in 'killing' state", x->id);
                return;
        default: break;
        }
        x->wish.is_begun = l->sandbox.state == SANDBOX_PAUSING && l->pause_cause != PAUSE_ENVD_SILENT;
        wait_for_life(x, l, pause_waited);
}

void handle_pause(struct api_exchange *x)
{
        struct err err = {0};

        x->wish.with_memory = true;
        if (json_field_bool(x->body, "memory", &x->wish.with_memory, &err) < 0)
                answer_err(x, &err);
        else
                pause_try(x);
}

/* ---- connect, resume ---- */

static void connect_try(struct api_exchange *x);

static void connect_answer_running(struct api_exchange *x, struct life *l, unsigned status)
{
        struct err err = {0};

        if (life_extend(l, x->wish.timeout_s, x->api->conf->timeout_max_s, &err) < 0)
                answer_err(x, &err);
        else
                answer_json(x, status, show_sandbox(x->api, &l->sandbox));
}

static void connect_waited(struct life_waiter *w, enum sandbox_state reached, const struct err *err)
{
        struct api_exchange *x = CONTAINER_OF(w, struct api_exchange, waiter);
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);

        if (!x->wish.is_begun || !l || !err)
                connect_try(x);
        else if (reached == SANDBOX_KILLING)
                answer_in_transition(x, l);
        else if (l->sandbox.is_missing)
                answer_missing(x);
        else
                answer_start_error(x, err);
}

static void connect_begin_resume(struct api_exchange *x, struct life *l)
{
        const struct life_resume how = {
                .with_memory = x->wish.with_memory,
                .timeout_s = (uint32_t)x->wish.timeout_s,
                .auto_pause = x->wish.auto_pause,
        };
        struct err err = {0};

        if (lives_check_limit(x->api->lives, x->team, &err) < 0) {
                answer_too_many(x, &err);
        } else if (life_resume(l, &how, &err) < 0) {
                answer_start_error(x, &err);
        } else {
                x->wish.is_begun = true;
                wait_for_life(x, l, connect_waited);
        }
}

static void connect_try(struct api_exchange *x)
{
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);

        if (!l) {
                answer_no_sandbox(x);
                return;
        }
        if (l->sandbox.is_missing) {
                answer_missing(x);
                return;
        }
        switch (l->sandbox.state) {
        case SANDBOX_RUNNING:
        case SANDBOX_COPYING: connect_answer_running(x, l, x->wish.is_begun ? 201 : 200); break;
        case SANDBOX_PAUSED: connect_begin_resume(x, l); break;
        case SANDBOX_KILLING: answer_in_transition(x, l); break;
        case SANDBOX_RESUMING:
                if (!x->wish.with_memory && l->with_memory) {
                        answer_error(x, 409, "sandbox_start_in_flight",
                                     "Sandbox \"%s\" is being resumed with its memory already", x->id);
                        break;
                }
                x->wish.is_begun = true;
                wait_for_life(x, l, connect_waited);
                break;
        default: wait_for_life(x, l, connect_waited); break;
        }
}

/* default_s below zero: the client must say a timeout. */
static int connect_decode(struct api_exchange *x, int64_t default_s, struct err *err)
{
        uint32_t max_s = x->api->conf->timeout_max_s;
        bool auto_pause = false;
        int r;

        x->wish = (struct api_wish){.timeout_s = default_s < max_s ? default_s : max_s, .with_memory = true};
        r = json_field_int(x->body, "timeout", 0, INT32_MAX, &x->wish.timeout_s, err);
        if (r == 0)
                r = json_field_bool(x->body, "memory", &x->wish.with_memory, err);
        if (r == 0)
                r = json_field_bool(x->body, "autoPause", &auto_pause, err);
        if (r == 0 && x->wish.timeout_s < 0)
                r = err_set(err, ERR_INVALID, "validation error: field 'timeout' is required");
        if (r == 0)
                r = lifetime_check_max(x->wish.timeout_s, max_s, err);
        if (r == 0 && json_field_is_set(x->body, "autoPause"))
                x->wish.auto_pause = auto_pause ? CHOICE_YES : CHOICE_NO;
        return r;
}

static void connect_handle(struct api_exchange *x, int64_t default_s)
{
        struct err err = {0};

        if (connect_decode(x, default_s, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        x->wish.auto_pause = CHOICE_UNSET; /* only the deprecated resume changes that */
        connect_try(x);
}

void handle_connect_v1(struct api_exchange *x)
{
        connect_handle(x, -1);
}

void handle_connect_v2(struct api_exchange *x)
{
        connect_handle(x, LIFETIME_DEFAULT_S);
}

void handle_resume(struct api_exchange *x)
{
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);
        struct err err = {0};

        if (connect_decode(x, LIFETIME_CREATE_V1_S, &err) < 0)
                answer_err(x, &err);
        else if (l && sandbox_is_shown_running(&l->sandbox))
                answer_error(x, 409, NULL, "Sandbox '%s' is already running", x->id);
        else
                connect_try(x);
}
