/* POST /sandboxes/{sandboxID}/rollback. */
#include "control/api/handlers.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/show.h"
#include "control/catalogue/snapshots.h"
#include "control/life/lives.h"
#include "model/json_field.h"

static void rollback_try(struct api_exchange *x);

static void rollback_waited(struct life_waiter *w, enum sandbox_state reached, const struct err *err)
{
        struct api_exchange *x = CONTAINER_OF(w, struct api_exchange, waiter);
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);

        if (!x->wish.is_begun)
                rollback_try(x);
        else if (!l)
                answer_no_sandbox(x);
        else if (reached == SANDBOX_KILLING)
                answer_in_transition(x, l);
        else if (err)
                answer_start_error(x, err);
        else
                answer_json(x, 200, show_detail(x->api, &l->sandbox));
}

static int rollback_find_snapshot(struct api_exchange *x, const struct snapshot **ret, struct err *err)
{
        struct template_ref ref;
        const char *text = NULL;
        struct err why = {0};

        if (json_field_text(x->body, "snapshotID", &text, err) < 0)
                return -EINVAL;
        if (!text)
                return err_set(err, ERR_INVALID, "validation error: field 'snapshotID' is required");
        if (template_ref_parse(str_of(text), &ref, &why) < 0)
                return err_set(err, ERR_INVALID, "Invalid snapshot ID: %s", why.msg);
        if (snapshots_find(x->api->snapshots, &ref, x->team, ret, &why) < 0)
                return err_set(err, ERR_NOT_FOUND, "snapshot '%s' not found", text);
        if (strcmp((*ret)->source, x->id) != 0)
                return err_set(err, ERR_INVALID, "snapshot '%s' was not made of sandbox '%s'", text, x->id);
        return 0;
}

static void rollback_try(struct api_exchange *x)
{
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);
        const struct snapshot *sn = NULL;
        struct err err = {0};

        if (!l) {
                answer_no_sandbox(x);
                return;
        }
        if (l->sandbox.state == SANDBOX_KILLING) {
                answer_in_transition(x, l);
                return;
        }
        if (l->sandbox.state == SANDBOX_RUNNING || l->sandbox.state == SANDBOX_PAUSED) {
                if (rollback_find_snapshot(x, &sn, &err) < 0 || life_roll_back(l, sn, &err) < 0) {
                        answer_err(x, &err);
                        return;
                }
                x->wish.is_begun = true;
        }
        x->waiter.on = rollback_waited;
        life_wait(l, &x->waiter);
}

void handle_rollback(struct api_exchange *x)
{
        const struct snapshot *sn = NULL;
        struct err err = {0};

        if (!lives_find_of(x->api->lives, x->id, x->team))
                answer_no_sandbox(x);
        else if (rollback_find_snapshot(x, &sn, &err) < 0)
                answer_err(x, &err);
        else
                rollback_try(x);
}
