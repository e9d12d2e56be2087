/* Pausing and resuming.
 *
 *   pause   row PAUSING, with the checkpoint to be made → edges → engine → row PAUSED → on disk → waiters
 *   resume  row RESUMING → engine → row RUNNING, without checkpoint → edges, waiters → the checkpoint is dropped
 *
 * A resume after which the sandbox runs and its envd does not answer ends as a pause of what runs. */
#include <errno.h>

#include "base/err.h"
#include "base/log.h"
#include "control/engine_link/plans.h"
#include "control/life/life.h"
#include "model/err_json.h"
#include "store/store.h"

#define S_NS INT64_C(1000000000)
#define EXPIRE_RETRY_S 30 /* for a sandbox that could not be paused at its end */

void life_now_running(struct life *l, int64_t started_ns, int64_t end_ns)
{
        struct life_row row = life_row_of(l);
        struct err err;

        row.state = SANDBOX_RUNNING;
        row.checkpoint = row.image_of = "";
        row.image_secured = false;
        row.upper_kept = true;
        row.started_ns = started_ns;
        row.end_ns = end_ns;
        (void)life_record_fact(l, &row, &err); /* a row that could not be written: reconciling comes to the same */
        life_go(l, SANDBOX_RUNNING);
        if (life_set_deadline(l, end_ns) < 0) {
                life_kill(l, "no memory for its deadline", NULL);
                return;
        }
        life_show(l);
}

void life_now_paused(struct life *l, int64_t started_ns, int64_t end_ns, const struct err *err)
{
        struct life_row row = life_row_of(l);
        struct err why;

        row.state = SANDBOX_PAUSED;
        row.started_ns = started_ns;
        row.end_ns = end_ns;
        (void)life_record_fact(l, &row, &why);
        life_go(l, SANDBOX_PAUSED);
        life_show(l);
        life_transition_done(l, err);
}

void life_files_missing(struct life *l)
{
        if (!l->sandbox.is_missing)
                log_error("sandbox.missing", "sandbox=%s is paused, and its files are not on this disk", l->sandbox.id);
        l->sandbox.is_missing = true;
}

/* ---- pausing ---- */

int life_pause(struct life *l, bool with_memory, struct err *err)
{
        char checkpoint[CHECKPOINT_ID_MAX] = "";
        struct life_row row = life_row_of(l);
        int r;

        if (!l->sandbox.layers)
                return err_set(err, ERR_CONFLICT,
                               "sandbox '%s' was started by an older version of this server and cannot be paused",
                               l->sandbox.id);
        if (with_memory)
                checkpoint_id_make(checkpoint);
        row.state = SANDBOX_PAUSING;
        row.checkpoint = checkpoint;
        row.image_of = with_memory ? l->sandbox.id : "";
        row.image_secured = with_memory && l->sandbox.is_secured;
        row.upper_kept = true;
        r = life_record(l, &row, err);
        if (r < 0)
                return r;
        life_go(l, SANDBOX_PAUSING);
        l->was_paused = true;
        life_show(l);
        life_call(l, STEP_PAUSE,
                  json_pack("{s:s,s:s,s:o,s:o*}", "op", "pause", "id", l->sandbox.id, "checkpoint",
                            with_memory ? json_string(checkpoint) : json_null(), "origin",
                            life_origin(l, l->sandbox.layers)),
                  PAUSE_TIMEOUT_MS);
        return 0;
}

/* The engine has paused it: its row is written, and has to reach the disk. */
static void life_write_paused(struct life *l)
{
        struct life_row row = life_row_of(l);
        struct err err;

        row.state = SANDBOX_PAUSED;
        row.end_ns = lives_now(l->lives);
        if (life_record_fact(l, &row, &err) == 0) {
                life_sync(l);
                return;
        }
        life_go(l, SANDBOX_PAUSED);
        life_transition_done(l, &err);
}

/* It runs on as before. */
static void life_pause_failed(struct life *l, const struct err *err)
{
        int64_t end_ns = l->sandbox.end_ns;

        if (l->pause_cause == PAUSE_EXPIRED)
                end_ns = lives_now(l->lives) + EXPIRE_RETRY_S * S_NS;
        log_warn("sandbox.pause", "sandbox=%s failed=\"%s\"", l->sandbox.id, err->msg);
        life_now_running(l, l->sandbox.started_ns, end_ns);
        life_transition_done(l, err);
}

static bool life_must_pause(const struct life *l, const struct err *err)
{
        switch (l->pause_cause) {
        case PAUSE_ENVD_SILENT: return true;
        case PAUSE_EXPIRED: return err->kind == ERR_CONFLICT || err->kind == ERR_UNAVAILABLE;
        case PAUSE_ASKED: break;
        }
        return false;
}

/* Its memory cannot be saved, and it has to be paused all the same: only its files are kept. */
static bool life_pause_without_memory(struct life *l, const struct err *err)
{
        struct err why = l->failure;

        if (!l->sandbox.checkpoint[0] || !life_must_pause(l, err))
                return false;
        if (l->pause_cause == PAUSE_ENVD_SILENT)
                (void)err_set(&l->failure, why.kind, "%.100s; only its files are kept: %.100s", why.msg, err->msg);
        log_warn("sandbox.pause", "sandbox=%s failed=\"%s\", keeping its files only", l->sandbox.id, err->msg);
        life_go(l, SANDBOX_RUNNING);
        if (life_pause(l, false, &why) == 0)
                return true;
        life_go(l, SANDBOX_PAUSING);
        return false;
}

static void life_pause_done(struct life *l, const struct err *err)
{
        const struct err failure = l->failure;

        life_transition_done(l, err || l->pause_cause != PAUSE_ENVD_SILENT ? err : &failure);
}

void life_on_paused(struct life *l, const struct err *err)
{
        if (life_step_is_unknown(l, err))
                return;
        if (l->step == STEP_SYNC) {
                life_go(l, SANDBOX_PAUSED);
                if (!err)
                        log_info("sandbox.paused", "sandbox=%s memory=%d", l->sandbox.id,
                                 l->sandbox.checkpoint[0] != 0);
                life_show(l);
                life_pause_done(l, err);
        } else if (!err) {
                life_write_paused(l);
        } else if (err->kind == ERR_GONE) {
                life_exited(l);
        } else if (!life_pause_without_memory(l, err)) {
                life_pause_failed(l, err);
        }
}

void life_expire(struct life *l)
{
        struct err err;

        if (!l->sandbox.auto_pause) {
                life_kill(l, "expired", NULL);
                return;
        }
        log_info("sandbox.expired", "sandbox=%s", l->sandbox.id);
        l->pause_cause = PAUSE_EXPIRED;
        if (life_pause(l, l->sandbox.auto_pause_memory, &err) == 0)
                return;
        l->pause_cause = PAUSE_ASKED;
        log_warn("sandbox.pause", "sandbox=%s failed=\"%s\", trying again in %d s", l->sandbox.id, err.msg,
                 EXPIRE_RETRY_S);
        (void)life_set_deadline(l, lives_real_ns(l->lives) + EXPIRE_RETRY_S * S_NS); /* moves only */
}

/* ---- resuming ---- */

int life_call_create(struct life *l, bool with_memory, struct err *err)
{
        struct lives *ls = l->lives;
        struct sandbox s = l->sandbox; /* borrowed */
        json_t *plan = NULL;
        int r;

        s.env = NULL;
        r = life_write_again(l, err); /* layers that no row names must not be in use */
        if (r == 0 && !with_memory)   /* with memory, envd has its environment in there */
                r = store_sandbox_env(ls->o.store, s.id, &s.env, err);
        if (r == 0)
                r = plan_for(ls->o.conf, ls->o.tokens, &s, with_memory, &plan, err);
        json_decref(s.env);
        if (r < 0)
                return r;
        (void)json_object_set_new(plan, "origin", life_origin(l, l->sandbox.layers));
        life_call(l, STEP_CREATE, json_pack("{s:s,s:o}", "op", "create", "plan", plan),
                  with_memory ? BEGIN_TIMEOUT_MS : CREATE_TIMEOUT_MS);
        return 0;
}

int life_resume(struct life *l, const struct life_resume *how, struct err *err)
{
        struct life_row row = life_row_of(l);
        bool was_auto_pause = l->sandbox.auto_pause;
        int r;

        row.state = SANDBOX_RESUMING;
        row.started_ns = lives_now(l->lives);
        row.end_ns = row.started_ns + (int64_t)how->timeout_s * S_NS;
        l->was_started_ns = l->sandbox.started_ns;
        l->was_end_ns = l->sandbox.end_ns;
        if (how->auto_pause != CHOICE_UNSET)
                l->sandbox.auto_pause = how->auto_pause == CHOICE_YES;
        r = life_record(l, &row, err);
        if (r < 0) {
                l->sandbox.auto_pause = was_auto_pause;
                return r;
        }
        life_go(l, SANDBOX_RESUMING);
        l->with_memory = how->with_memory && l->sandbox.checkpoint[0];
        r = life_call_create(l, l->with_memory, err);
        if (r < 0)
                life_now_paused(l, l->was_started_ns, l->was_end_ns, err);
        else
                life_show(l);
        return r;
}

void life_on_resumed(struct life *l, const struct err *err)
{
        int64_t now = lives_now(l->lives);
        int64_t timeout_ns = l->sandbox.end_ns - l->sandbox.started_ns;

        if (life_step_is_unknown(l, err))
                return;
        if (err) {
                if (err->kind == ERR_GONE && l->sandbox.upper_kept)
                        life_files_missing(l);
                log_warn("sandbox.resume", "sandbox=%s failed=\"%s\"", l->sandbox.id, err->msg);
                life_now_paused(l, l->was_started_ns, l->was_end_ns, err);
        } else {
                log_info("sandbox.resumed", "sandbox=%s memory=%d", l->sandbox.id, l->with_memory);
                life_now_running(l, now, now + timeout_ns);
                life_transition_done(l, NULL);
        }
}

void life_on_envd_silent(struct life *l, const json_t *silent)
{
        int64_t started_ns = l->sandbox.started_ns;
        struct err err;

        (void)err_decode(silent, "its envd does not answer", &l->failure);
        l->pause_cause = PAUSE_ENVD_SILENT;
        log_warn("sandbox.resume", "sandbox=%s failed=\"%s\", pausing it as it is now", l->sandbox.id, l->failure.msg);
        life_go(l, SANDBOX_RUNNING);
        l->sandbox.started_ns = l->was_started_ns;
        if (life_pause(l, true, &err) == 0)
                return;
        life_now_running(l, started_ns, l->sandbox.end_ns);
        life_transition_done(l, &err);
}
