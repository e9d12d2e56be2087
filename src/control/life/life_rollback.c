/* Back to one of the sandbox's snapshots, in place: same id, tokens and deadline.
 *
 *   running  row ROLLING_BACK, with all of the snapshot → edges → engine: kill → create, from the snapshot → running
 *   paused   row ROLLING_BACK_PAUSED, with all of the snapshot → engine: kill → row PAUSED → on disk → paused
 *
 * Once the row is written there is no way back: after a crash all is done again from the kill on.  The same when the create
 * fails; when it fails twice, the sandbox is left paused, with memory and files of the snapshot. */
#include "base/err.h"
#include "base/log.h"
#include "control/life/life.h"
#include "model/snapshot.h"

#define END_TIMEOUT_MS 60000
#define END_RETRY_MS_MAX 10000

void life_end_now(struct life *l)
{
        life_call(l, STEP_END, json_pack("{s:s,s:s}", "op", "kill", "id", l->sandbox.id), END_TIMEOUT_MS);
}

/* A power cut must not bring back a row whose files are gone. */
void life_end_first(struct life *l)
{
        if (!l->was_paused) {
                life_end_now(l);
                return;
        }
        life_sync(l);
        l->step = STEP_SYNC_FIRST;
}

static void life_end_again(struct timer *t)
{
        life_end_now(CONTAINER_OF(t, struct life, retry));
}

bool life_ends_again(struct life *l, const struct err *err)
{
        if (l->step != STEP_END || !err || err->kind == ERR_GONE)
                return false;
        log_warn("sandbox.roll_back", "sandbox=%s could not be ended: \"%s\", trying again in %u ms", l->sandbox.id,
                 err->msg, l->retry_ms);
        l->retry.on = life_end_again;
        timer_set(l->lives->o.loop, &l->retry, l->retry_ms);
        l->retry_ms = l->retry_ms * 2 < END_RETRY_MS_MAX ? l->retry_ms * 2 : END_RETRY_MS_MAX;
        return true;
}

int life_roll_back(struct life *l, const struct snapshot *sn, struct err *err)
{
        bool was_running = l->sandbox.state == SANDBOX_RUNNING;
        struct life_row row = life_row_of(l);
        int r;

        row.state = was_running ? SANDBOX_ROLLING_BACK : SANDBOX_ROLLING_BACK_PAUSED;
        row.checkpoint = sn->checkpoint;
        row.layers = sn->layers;
        row.image_of = sn->image_of;
        row.image_secured = sn->image_secured;
        row.upper_kept = false;
        r = life_record(l, &row, err);
        if (r < 0)
                return r;
        life_forget_merged_layers(l); /* they are merged from the layers of before */
        l->sandbox.is_missing = false;
        log_info("sandbox.roll_back", "sandbox=%s snapshot=%s", l->sandbox.id, sn->id);
        life_go(l, was_running ? SANDBOX_ROLLING_BACK : SANDBOX_ROLLING_BACK_PAUSED);
        if (was_running)
                life_show(l);
        life_end_first(l);
        return 0;
}

static void life_begin_from_snapshot(struct life *l)
{
        struct err err;

        if (life_call_create(l, l->sandbox.checkpoint[0], &err) < 0)
                life_now_paused(l, l->sandbox.started_ns, lives_now(l->lives), &err);
}

void life_on_rolled_back(struct life *l, const struct err *err)
{
        if (life_step_is_unknown(l, err) || life_ends_again(l, err))
                return;
        if (l->step == STEP_END) {
                life_begin_from_snapshot(l);
        } else if (err && !l->is_retried) { /* its old files are gone already: another try may succeed */
                log_warn("sandbox.roll_back", "sandbox=%s failed=\"%s\", trying once more", l->sandbox.id, err->msg);
                l->is_retried = true;
                life_end_first(l);
        } else if (err) {
                log_warn("sandbox.roll_back", "sandbox=%s failed=\"%s\", leaving it paused", l->sandbox.id, err->msg);
                life_now_paused(l, l->sandbox.started_ns, lives_now(l->lives), err);
        } else {
                life_now_running(l, l->sandbox.started_ns, l->sandbox.end_ns);
                life_transition_done(l, NULL);
        }
}

/* ---- a paused sandbox ---- */

/* What the engine had is gone: from now on the row is that of a paused sandbox. */
static void life_write_rolled_back(struct life *l)
{
        struct life_row row = life_row_of(l);
        struct err err;

        row.state = SANDBOX_PAUSED;
        (void)life_record_fact(l, &row, &err);
        life_sync(l);
}

void life_on_rolled_back_paused(struct life *l, const struct err *err)
{
        if (life_step_is_unknown(l, err) || life_ends_again(l, err))
                return;
        if (l->step == STEP_END) {
                life_write_rolled_back(l);
                return;
        }
        if (err)
                log_warn("sandbox.roll_back", "sandbox=%s failed=\"%s\"", l->sandbox.id, err->msg);
        life_go(l, SANDBOX_PAUSED);
        life_show(l); /* whether traffic resumes it depends on the memory of the snapshot */
        life_transition_done(l, err);
}
