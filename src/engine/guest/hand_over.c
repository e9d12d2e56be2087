#include "engine/guest/hand_over.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/guest/guest_job.h"
#include "engine/guest/standby.h"
#include "sys/fs.h"

/* ------------------------------------------------------------- how it ends */

/* The create, without a standby, as soon as nothing is left of this guest. */
static void create_again(struct guest *g, struct ask *a)
{
        struct engine *e = g->engine;
        json_t *request = json_incref(g->standby->request);
        request_op *again = g->standby->again;
        char id[SANDBOX_ID_MAX];
        struct err err = {0};
        int r;

        memcpy(id, g->record.id, sizeof(id));
        guest_end(g);
        if (guest_find(e, id) == g)
                r = deferred_add(g, again, request, a, &err);
        else
                r = again(e, request, a, &err);
        if (r < 0)
                ask_fail(a, &err);
        json_decref(request);
}

static void hand_over_failed(struct guest_job *w, const struct err *err)
{
        struct guest *g = w->guest;
        struct err killed = {0};

        if (err->kind != ERR_NONE) {
                log_warn("hand_over.failed", "sandbox=%s standby=%s error=\"%s\"", g->record.id, g->standby->former_id,
                         err->msg);
                standbys_drop_like(g->engine, &g->standby->plan);
                standbys_count(g->engine, &g->standby->plan, false);
        }
        if (g->state == GUEST_KILLED) {
                (void)err_set(&killed, ERR_CONFLICT, "sandbox %s was killed while it was being made", g->record.id);
                guest_answer_at_end(g, TAKE_PTR(w->ask), &killed);
                guest_end(g);
        } else if (!w->ask->client) { /* nobody would know of it */
                ask_fail(TAKE_PTR(w->ask), err);
                guest_tell(g, "exited");
                guest_end(g);
        } else
                create_again(g, TAKE_PTR(w->ask));
}

/* Its record is what the job process wrote. */
static int read_record(struct guest *g, struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(g->engine->sandboxes_dir, g->record.id);
        struct record r;
        int x = dir < 0 ? err_sys(err, dir, "open directory of sandbox %s", g->record.id) : record_read(dir, &r, err);

        if (x < 0)
                return x;
        if (r.pid != g->record.pid || strcmp(r.id, g->record.id) != 0 || r.is_stranger) {
                record_done(&r);
                return err_set(err, ERR_INTERNAL, "its record is not as it should be");
        }
        record_done(&g->record);
        g->record = r;
        return 0;
}

static void on_handed_over(struct guest_job *w, struct job_answer *answer, const struct err *why)
{
        struct guest *g = w->guest;
        struct err err = *why;
        bool is_orphan = !w->ask->client;

        if (answer && err.kind == ERR_NONE && guest_is_dead(g))
                (void)err_set(&err, ERR_INTERNAL, "its processes died");
        if (answer && err.kind == ERR_NONE)
                (void)read_record(g, &err);
        if (!answer || err.kind != ERR_NONE || g->state == GUEST_KILLED) {
                hand_over_failed(w, &err);
                return;
        }
        standbys_count(g->engine, &g->standby->plan, true);
        standbys_forget(g);
        guest_started(g, TAKE_PTR(w->ask), w->began_us, "standby", NULL);
        if (is_orphan)
                guest_tell(g, "rechecked");
}

/* ------------------------------------------------------------- how it begins */

/* The guest is found under the name of the sandbox from now on. */
static int rename_guest(struct guest *g, const char *id)
{
        struct engine *e = g->engine;
        int r = map_put(&e->sandboxes, str_of(id), g, NULL);

        if (r < 0)
                return r;
        (void)map_remove(&e->sandboxes, str_of(g->record.id));
        memcpy(g->standby->former_id, g->record.id, sizeof(g->record.id));
        (void)memcpy(g->record.id, id, strlen(id) + 1);
        return 0;
}

static struct guest_job *make_job(struct guest *g, struct plan_create *plan, struct ask *a)
{
        struct job job = {.kind = JOB_HAND_OVER};
        struct guest_job *w;

        job.hand_over.plan = plan;
        job.hand_over.host_version = g->standby->host_version;
        job.note.facts = g->record.facts;
        job.note.net = plan->net;
        memcpy(job.note.checkpoint, plan->checkpoint, sizeof(job.note.checkpoint));
        g->ops->hand_over(g, &job);
        w = guest_job_create(g, &job, a); /* under the name that its directory has */
        if (w)
                w->on_done = on_handed_over;
        return w;
}

bool hand_over_begin(struct engine *e, struct plan_create *plan, const json_t *msg, struct ask *a, request_op *again)
{
        struct guest *g = guest_find(e, plan->id) ? NULL : standbys_find(e, plan);
        struct err err = {0};
        struct guest_job *w;

        standbys_look_later(e);
        if (!g) {
                standbys_count(e, plan, false);
                return false;
        }
        w = make_job(g, plan, a);
        if (!w)
                return false;
        if (rename_guest(g, plan->id) < 0) {
                guest_job_discard(w);
                return false;
        }
        g->standby->again = again;
        g->standby->request = json_incref((json_t *)(uintptr_t)msg);
        standbys_unlist(g);
        guest_go(g, GUEST_RESUMING);
        g->source = GUEST_IS_NEW;
        if (g->ops->set_net(g, &plan->net, &err) == 0)
                guest_job_start(w);
        else {
                log_warn("hand_over.failed", "sandbox=%s error=\"%s\", restoring it instead", plan->id, err.msg);
                guest_job_discard(w);
                create_again(g, a);
        }
        plan_done(plan);
        return true;
}
