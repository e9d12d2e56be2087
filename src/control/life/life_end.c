/* Ending a sandbox, whatever it is doing. */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/life/ended_files.h"
#include "control/life/life.h"

#define KILL_TIMEOUT_MS 30000
#define KILL_RETRY_MS_MAX 10000

static void life_killed(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct life *l = CONTAINER_OF(c, struct life, kill);

        (void)answer;
        if (!err || err->kind == ERR_GONE) {
                log_info("sandbox.gone", "sandbox=%s", l->sandbox.id);
                life_remove_row(l);
                life_finish(l);
                return;
        }
        log_warn("sandbox.kill", "sandbox=%s failed=\"%s\", trying again in %u ms", l->sandbox.id, err->msg,
                 l->retry_ms);
        timer_set(l->lives->o.loop, &l->retry, l->retry_ms);
        l->retry_ms = l->retry_ms * 2 < KILL_RETRY_MS_MAX ? l->retry_ms * 2 : KILL_RETRY_MS_MAX;
        if (err->kind !=
            ERR_UNAVAILABLE) /* else the engine is restarting: the waiters are told when the sandbox has ended */
                life_tell(l, SANDBOX_KILLING, err);
}

static void life_kill_again(struct timer *t)
{
        life_ask_kill(CONTAINER_OF(t, struct life, retry));
}

void life_ask_kill(struct life *l)
{
        timer_clear(&l->retry);
        if (engine_call_is_started(&l->kill) || engine_call_is_started(&l->call) || durable_is_waiting(&l->synced))
                return;
        l->retry.on = life_kill_again;
        l->kill.on = life_killed;
        engine_call(l->lives->o.engine, &l->kill, json_pack("{s:s,s:s}", "op", "kill", "id", l->sandbox.id),
                    KILL_TIMEOUT_MS);
}

/* A sandbox that is being made has to be there before it can be ended; everything else the engine breaks off. */
static void life_break_off(struct life *l)
{
        if (!(l->step == STEP_CREATE && engine_call_is_sent(&l->call)))
                engine_call_cancel(&l->call);
        durable_cancel(&l->synced);
        timer_clear(&l->retry);
}

void life_kill(struct life *l, const char *why, struct life_waiter *w)
{
        const struct err broken = {.kind = ERR_CONFLICT, .msg = "the sandbox is being killed"};

        if (l->sandbox.state == SANDBOX_KILLING) {
                if (w)
                        life_wait(l, w);
                return;
        }
        log_info("sandbox.kill", "sandbox=%s reason=\"%s\"", l->sandbox.id, why);
        if (strcmp(why, "request") == 0)
                l->end_reason = "deleted";
        else if (strcmp(why, "expired") == 0)
                l->end_reason = "timeout";
        life_go(l, SANDBOX_KILLING);
        l->lives->o.on_gone(l->sandbox.id, l->lives->o.arg);
        life_mark_row_killing(l);
        life_break_off(l);
        if (l->was_paused)
                life_sync(
                        l); /* a power cut must not bring back a row whose files are gone; after that the sandbox is ended */
        else
                life_ask_kill(l);
        life_give_image(l, &broken);
        life_tell(l, SANDBOX_KILLING, &broken);
        if (w)
                life_wait(l, w);
}

static void life_forget(struct life *l)
{
        l->lives->o.on_gone(l->sandbox.id, l->lives->o.arg);
        life_remove_row(l);
        ended_files_drop(l->lives->o.ended, l->sandbox.id);
        life_finish(l);
}

void life_exited(struct life *l)
{
        log_info("sandbox.exited", "sandbox=%s", l->sandbox.id);
        l->end_reason = "exited";
        life_forget(l);
}

void life_ended_with_machine(struct life *l)
{
        struct lives *ls = l->lives;
        size_t at = ls->stopped_count++ % LIVES_STOPPED_MAX;

        log_warn("sandbox.stopped", "sandbox=%s is gone: it was running when the machine stopped", l->sandbox.id);
        l->end_reason = "machine_stopped";
        ls->stopped[at].team = l->team;
        memcpy(ls->stopped[at].id, l->sandbox.id, sizeof(ls->stopped[at].id));
        life_forget(l);
}

void lives_exited(struct lives *ls, const char *id)
{
        struct life *l = lives_find(ls, id);

        if (l && l->sandbox.state == SANDBOX_RUNNING)
                life_exited(l);
        else if (l && l->is_busy && l->sandbox.state != SANDBOX_KILLING)
                life_job_left_nothing(l); /* in other states the answer to the call under way tells */
        else if (!l && sandbox_id_is_valid(str_of(id)))
                ended_files_drop(ls->o.ended, id); /* an earlier control asked for the sandbox, and was killed */
}
