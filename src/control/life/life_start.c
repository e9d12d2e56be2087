/* Starting a sandbox that was not there before: from a template, from a snapshot, or as a fork. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "control/access/keys.h"
#include "control/engine_link/origins.h"
#include "control/engine_link/plans.h"
#include "control/life/life.h"
#include "store/store.h"

static void life_tell_starter(struct life *l, const struct err *err)
{
        void (*on)(struct life *, const struct err *, void *) = TAKE_PTR(l->on_started);

        if (on)
                on(err ? NULL : l, err, l->arg);
}

/* It runs: set its deadline, write both into its row, and only then tell the edges and the caller. */
static int life_begin_running(struct life *l, struct err *err)
{
        struct lives *ls = l->lives;
        struct life_row row = life_row_of(l);
        int r;

        row.state = SANDBOX_RUNNING;
        row.started_ns = lives_now(ls);
        row.end_ns = row.started_ns + (int64_t)l->sandbox.timeout_s * 1000000000;
        r = life_set_deadline(l, row.end_ns);
        if (r < 0)
                return err_sys(err, r, "start sandbox");
        if (l->sandbox.checkpoint[0]) { /* it has its memory now, and the checkpoint is not its own any more */
                row.checkpoint = row.image_of = "";
                row.image_secured = false;
                r = life_record(l, &row, err);
        } else {
                r = life_is_build(l)
                            ? 0
                            : store_sandbox_started(ls->o.store, l->sandbox.id, row.started_ns, row.end_ns, err);
                l->sandbox.started_ns = row.started_ns;
                l->sandbox.end_ns = row.end_ns;
        }
        if (r < 0)
                return r;
        life_go(l, SANDBOX_RUNNING);
        l->step = STEP_NONE;
        life_show(l);
        return 0;
}

void life_on_created(struct life *l, const struct err *err)
{
        struct err why = {0};
        bool is_unknown = err && err->kind == ERR_UNAVAILABLE && l->lives->o.engine->state != ENGINE_UP;

        if (err && err->kind != ERR_TIMEOUT && !is_unknown) {
                life_remove_row(l);
                life_leave(l);
                life_tell_starter(l, err);
                life_finish(l);
        } else if (err) {
                life_tell_starter(l, err);
                life_kill(l, "no answer to its creation", NULL); /* the engine may have it */
        } else if (!l->on_started) {
                life_kill(l, "its client left", NULL);
        } else if (life_begin_running(l, &why) < 0) {
                life_tell_starter(l, &why);
                life_kill(l, "its row could not be written", NULL);
        } else {
                log_info("sandbox.started", "sandbox=%s template=%s", l->sandbox.id, l->sandbox.template_id);
                life_tell_starter(l, NULL);
        }
}

static void forget_stored_json(json_t **v) /* the store has the value */
{
        json_decref(*v);
        *v = NULL;
}

int lives_start(struct lives *ls, struct sandbox *s,
                void (*on_started)(struct life *l, const struct err *err, void *arg), void *arg, struct err *err)
{
        struct team *team = keys_team(ls->o.keys, s->team);
        json_t *plan = NULL;
        struct life *l;
        int r;

        s->state = SANDBOX_STARTING;
        s->started_ns = lives_real_ns(ls);
        s->end_ns = s->started_ns + (int64_t)s->timeout_s * 1000000000;
        r = plan_for(ls->o.conf, ls->o.tokens, s, s->checkpoint[0], &plan, err);
        if (r == 0 && s->purpose == SANDBOX_FOR_CLIENT)
                (void)json_object_set_new(plan, "origin", origin_encode(ls->o.tokens, s, s->layers));
        if (r == 0)
                r = life_add_row(ls, s, err);
        if (r == 0 && life_create(ls, s, team, &l) < 0) {
                lives_remove_row(ls, s->id, s->checkpoint, s->layers);
                r = err_sys(err, -ENOMEM, "start sandbox");
        }
        if (r < 0) {
                json_decref(plan);
                return r;
        }
        forget_stored_json(&l->sandbox.mcp);
        forget_stored_json(&l->sandbox.env);
        l->on_started = on_started;
        l->arg = arg;
        lives_tidy_later(ls);
        life_call(l, STEP_CREATE, json_pack("{s:s,s:o}", "op", "create", "plan", plan),
                  l->sandbox.checkpoint[0] ? BEGIN_TIMEOUT_MS : CREATE_TIMEOUT_MS);
        return 0;
}

int lives_take_back(struct lives *ls, struct sandbox *s, struct err *err)
{
        char id[SANDBOX_ID_MAX];
        struct life *l;
        int r = life_add_row(ls, s, err);

        if (r < 0)
                return r;
        memcpy(id, s->id, sizeof(id));
        forget_stored_json(&s->env);
        if (life_create(ls, s, keys_team(ls->o.keys, s->team), &l) < 0) {
                lives_remove_row(ls, id, "", NULL); /* its names stay: the files are moved aside again */
                return err_sys(err, -ENOMEM, "restore");
        }
        life_show(l);
        return 0;
}

void life_found_again(struct life *l)
{
        l->sandbox.is_missing = false;
        life_show(l);
}

void lives_abandon(struct lives *ls, const char *id)
{
        struct life *l = lives_find(ls, id);

        if (!l)
                return;
        l->on_started = NULL;
        if (l->sandbox.state == SANDBOX_RUNNING) {
                life_kill(l, "its client left", NULL);
        } else if (l->sandbox.state == SANDBOX_STARTING && !engine_call_is_sent(&l->call)) {
                life_remove_row(l); /* the engine never heard of the sandbox */
                life_finish(l);
        }
}
