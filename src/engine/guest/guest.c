#include "engine/guest/guest.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/guest/deferred.h"
#include "engine/net/slot_cleaner.h"
#include "engine/records/lost_note.h"
#include "engine/namespace/start.h"
#include "engine/guest/trash.h"
#include "engine/guest/resume.h"
#include "engine/guest/warm.h"
#include "engine/guest/guest_job.h"
#include "sys/fs.h"

#define TO(s) (1u << (s))
static const unsigned guest_may[] = {
        [GUEST_WAITING] =
                TO(GUEST_STARTING) | TO(GUEST_RESUMING) | TO(GUEST_STOPPING) | TO(GUEST_BUSY) | TO(GUEST_ENDING),
        [GUEST_STARTING] = TO(GUEST_RUNNING) | TO(GUEST_STOPPING) | TO(GUEST_ENDING),
        [GUEST_RUNNING] = TO(GUEST_PAUSING) | TO(GUEST_COPYING) | TO(GUEST_ENDED) | TO(GUEST_ENDING),
        [GUEST_COPYING] = TO(GUEST_RUNNING) | TO(GUEST_BUSY) | TO(GUEST_ENDING),
        [GUEST_PAUSING] = TO(GUEST_RUNNING) | TO(GUEST_STOPPING) | TO(GUEST_WARM) | TO(GUEST_BUSY) | TO(GUEST_ENDED) |
                          TO(GUEST_ENDING),
        [GUEST_STOPPING] = TO(GUEST_PAUSED) | TO(GUEST_ENDING),
        [GUEST_PAUSED] = TO(GUEST_WAITING) | TO(GUEST_RESUMING) | TO(GUEST_ENDING),
        [GUEST_WARM] = TO(GUEST_STOPPING) | TO(GUEST_RESUMING) | TO(GUEST_ENDING),
        [GUEST_RESUMING] =
                TO(GUEST_RUNNING) | TO(GUEST_PAUSED) | TO(GUEST_STOPPING) | TO(GUEST_BUSY) | TO(GUEST_ENDING),
        [GUEST_BUSY] = TO(GUEST_RUNNING) | TO(GUEST_STOPPING) | TO(GUEST_PAUSED) | TO(GUEST_ENDED) | TO(GUEST_ENDING),
        [GUEST_ENDED] = TO(GUEST_ENDING),
        [GUEST_ENDING] = 0,
};

struct end_wait { /* someone who is answered when it is gone: its killer, or who asked for it in vain */
        struct list node;
        struct ask *ask;
        struct err err; /* ERR_NONE: all is well */
};

void guest_go(struct guest *s, enum guest_state next) /* the only writer of s->state */
{
        assert(guest_may[s->state] & TO(next));
        s->state = next;
}

struct guest *guest_find(const struct engine *e, const char *id)
{
        return map_get(&e->sandboxes, str_of(id));
}

int guest_add(struct engine *e, const char *id, struct guest **ret, struct err *err)
{
        struct guest *s;

        if (guest_find(e, id))
                return err_set(err, ERR_CONFLICT, "sandbox %s exists", id);
        s = calloc(1, sizeof(*s));
        if (!s || map_put(&e->sandboxes, str_of(id), s, NULL) < 0) {
                free(s);
                return err_sys(err, -ENOMEM, "sandbox %s", id);
        }
        s->engine = e;
        s->state = GUEST_WAITING;
        (void)snprintf(s->record.id, sizeof(s->record.id), "%s", id);
        memcpy(s->record.boot_id, e->boot_id, sizeof(e->boot_id));
        s->death.fd = -1;
        s->netns = -1;
        list_init(&s->waiting);
        list_init(&s->deferred);
        *ret = s;
        return 0;
}

/* On what is paused, if that fits the plan. */
static int find_paused(struct engine *e, const struct plan_create *plan, struct guest **ret, struct err *err)
{
        struct guest *s = guest_find(e, plan->id);

        if (!s && plan->is_upper_kept)
                return err_set(err, ERR_GONE, "sandbox %s is not paused here", plan->id);
        if (!s)
                return guest_add(e, plan->id, ret, err);
        if (s->state == GUEST_ENDED && plan->is_upper_kept)
                return err_set(err, ERR_GONE, "sandbox %s has ended", plan->id);
        if ((s->state != GUEST_PAUSED && s->state != GUEST_WARM) || s->job)
                return err_set(err, ERR_CONFLICT, "sandbox %s exists", plan->id);
        if (plan->is_upper_kept && s->paused.sealed[0])
                return err_set(err, ERR_CONFLICT, "the files of sandbox %s are sealed as layer %s", plan->id,
                               s->paused.sealed);
        if (plan->is_upper_kept && plan->checkpoint[0] && strcmp(plan->checkpoint, s->paused.checkpoint) != 0)
                return err_set(err, ERR_INVALID, "checkpoint damaged: it is not of the files that sandbox %s has now",
                               plan->id);
        if (!plan->is_upper_kept && !s->paused.sealed[0])
                return err_set(err, ERR_CONFLICT, "sandbox %s is paused with files of its own", plan->id);
        *ret = s;
        return 0;
}

void guest_create(struct engine *e, struct plan_create *plan, struct ask *a)
{
        struct err err = {0};
        struct guest *s;

        if (find_paused(e, plan, &s, &err) < 0) {
                ask_fail(a, &err);
                plan_done(plan);
                return;
        }
        if (plan->checkpoint[0]) {
                resume_begin(s, plan, a);
                return;
        }
        s->was_paused = s->state == GUEST_PAUSED;
        if (s->was_paused)
                guest_go(s, GUEST_WAITING);
        start_begin(s, plan, a);
}

/* ------------------------------------------------------------- the network rules */

static bool has_own_rules(const struct plan_net *n)
{
        return !n->internet || n->allow_count > 0 || n->deny_count > 0;
}

int guest_set_net(struct guest *s, struct plan_net *net, struct err *err)
{
        struct engine *e = s->engine;
        bool wanted = has_own_rules(net);
        int r;

        if (!e->firewall && wanted && (net->allow_count > 0 || net->deny_count > 0))
                return err_set(err, ERR_UNAVAILABLE, "network rules cannot be enforced on this host: %s",
                               e->firewall_why);
        if (!e->firewall && !wanted)
                log_warn("sandbox.offline", "sandbox=%s reason=\"%s\"", s->record.id, e->firewall_why);
        if (e->firewall && (wanted || s->has_rules)) {
                r = firewall_replace(e->firewall, s->record.slot, s->has_rules ? &s->record.net : NULL, net, err);
                if (r < 0)
                        return r;
                s->has_rules = wanted;
        }
        plan_net_done(&s->record.net);
        s->record.net = *net;
        *net = (struct plan_net){0};
        return 0;
}

/* ------------------------------------------------------------- the end */

static void answer_one(struct ask *a, const struct err *err)
{
        if (err->kind == ERR_NONE)
                ask_ok(a, NULL, -1);
        else
                ask_fail(a, err);
}

static void answer_waiting(struct guest *s)
{
        struct list *node;

        while ((node = list_pop_front(&s->waiting))) {
                struct end_wait *w = LIST_ENTRY(node, struct end_wait, node);

                answer_one(w->ask, &w->err);
                free(w);
        }
}

void guest_answer_at_end(struct guest *s, struct ask *a, const struct err *err)
{
        struct end_wait *w = a ? calloc(1, sizeof(*w)) : NULL;

        if (a)
                a->on_orphan = NULL;
        if (!w) {
                answer_one(a, err); /* out of memory: a little early */
                return;
        }
        w->ask = a;
        w->err = *err;
        list_push_back(&s->waiting, &w->node);
}

static json_t *fact(const struct guest *s, const char *event)
{
        bool is_rechecked = strcmp(event, "rechecked") == 0;
        bool is_running = s->state == GUEST_RUNNING;

        if (!is_rechecked)
                return json_pack("{s:s,s:s}", "event", event, "id", s->record.id);
        return json_pack("{s:s,s:s,s:s,s:s*,s:s*}", "event", event, "id", s->record.id, "state",
                         is_running ? "running" : "paused", "checkpoint",
                         !is_running && s->paused.checkpoint[0] ? s->paused.checkpoint : NULL, "sealed",
                         !is_running && s->paused.sealed[0] ? s->paused.sealed : NULL);
}

void guest_tell(const struct guest *s, const char *event)
{
        LIST_EACH (node, &s->engine->controls) {
                struct client *c = LIST_ENTRY(node, struct client, node);

                if (c->channel)
                        (void)channel_send(c->channel, fact(s, event), NULL, 0);
        }
}

static void free_guest(struct task *t)
{
        free(CONTAINER_OF(t, struct guest, free_task));
}

/* Everything that is not a file. */
static void let_go(struct guest *s)
{
        struct engine *e = s->engine;
        struct err err = {0};

        loop_del(&s->death);
        close_fd(&s->death.fd);
        warm_forget(s);
        if (s->has_rules && firewall_replace(e->firewall, s->record.slot, &s->record.net, NULL, &err) < 0)
                log_error("firewall.stale", "sandbox=%s error=\"%s\"", s->record.id, err.msg);
        s->has_rules = false;
        if (s->record.is_restored) /* its network namespace was made for it alone */
                slots_close_later(&e->pool.slots, &s->netns, 1);
        if (s->record.slot)
                slots_return(&e->pool.slots, s->record.slot, TAKE_FD(s->netns));
        s->record.slot = 0;
}

/* Whoever wants to begin something under its id had to wait for this. */
static void buried(void *arg, const struct err *err)
{
        struct guest *s = arg;
        struct engine *e = s->engine;

        s->files = NULL;
        if (err->kind != ERR_NONE)
                log_error("sandbox.left", "sandbox=%s error=\"%s\"", s->record.id, err->msg);
        trash_remover_call(&e->trash_remover);
        (void)map_remove(&e->sandboxes, str_of(s->record.id));
        if (err->kind == ERR_NO_SPACE && !s->lost)
                trash_left(e, DISK_SANDBOXES, s->record.id);
        answer_waiting(s);
        deferred_run(s);
        record_done(&s->record);
        free(s->lost);
        s->free_task.run = free_guest;
        loop_post(e->loop, &s->free_task);
}

/* Where its directory goes at its end: away, unless nobody asked for that. */
static struct disk_request *clear_away(struct guest *s)
{
        struct disk *d = &s->engine->disk;

        return s->lost ? disk_lose(d, DISK_SANDBOXES, s->record.id, s->lost, buried, s)
                       : disk_throw(d, DISK_SANDBOXES, s->record.id, buried, s);
}

/* Its process is dead, or it never had one: undo everything. */
static void bury(struct guest *s)
{
        struct err err = {0};

        let_go(s);
        disk_forget(s->files);
        s->files = clear_away(s);
        if (s->is_spent)
                answer_waiting(s);
        if (s->files)
                return;
        (void)err_sys(&err, -ENOMEM, "move its files away");
        buried(s, &err);
}

/* Of its record only the name remains. */
static void forget_record(struct guest *s)
{
        struct record none = {0};

        memcpy(none.id, s->record.id, sizeof(none.id));
        memcpy(none.boot_id, s->record.boot_id, sizeof(none.boot_id));
        record_done(&s->record);
        s->record = none;
        s->is_dead = s->was_paused = false;
}

void guest_exited(struct guest *s)
{
        struct err err = {0};

        if (s->state == GUEST_RUNNING || s->state == GUEST_COPYING)
                s->engine->alive--;
        log_info("sandbox.exited", "sandbox=%s", s->record.id);
        let_go(s);
        forget_record(s);
        guest_go(s, GUEST_ENDED);
        guest_tell(s, "exited");
        answer_waiting(s);
        (void)err_set(&err, ERR_GONE, "sandbox %s has ended", s->record.id);
        deferred_fail(s, &err);
}

/* What is paused of it is all there is. */
static void rests(void *arg, const struct err *err)
{
        struct guest *s = arg;

        s->files = NULL;
        if (err->kind != ERR_NONE) /* with paused.json beside it, running.json says nothing */
                log_warn("record.left", "sandbox=%s error=\"%s\"", s->record.id, err->msg);
        forget_record(s);
        guest_go(s, GUEST_PAUSED);
        log_info("sandbox.paused", "sandbox=%s", s->record.id);
        answer_waiting(s);
        if (s->is_news)
                guest_tell(s, "rechecked");
        s->is_news = false;
        deferred_run(s);
}

/* The same as bury(), but what is paused of it stays. */
static void lie_down(struct guest *s)
{
        struct err err = {0};

        let_go(s);
        s->files = disk_note_paused(&s->engine->disk, s->record.id, rests, s);
        if (s->files)
                return;
        (void)err_sys(&err, -ENOMEM, "remove its record");
        rests(s, &err);
}

static void on_death(struct io *io, uint32_t events)
{
        struct guest *s = CONTAINER_OF(io, struct guest, death);
        struct err err = {0};

        (void)events;
        switch (s->state) {
        case GUEST_WAITING:
        case GUEST_ENDED:
        case GUEST_PAUSED: assert(0 && "it has no process that is watched"); break;
        case GUEST_STARTING:
                (void)err_set(&err, ERR_INTERNAL, "envd ended while starting");
                guest_fail(s, &err); /* and once more through here */
                return;
        case GUEST_PAUSING:
        case GUEST_COPYING:
        case GUEST_RESUMING:
        case GUEST_BUSY:
                loop_del(&s->death);
                s->is_dead = true; /* the job process will notice, and then so do we */
                return;
        case GUEST_WARM: /* its image is on disk */ guest_go(s, GUEST_STOPPING); break;
        case GUEST_STOPPING: break;
        case GUEST_RUNNING: guest_exited(s); return;
        case GUEST_ENDING: log_info("sandbox.ended", "sandbox=%s", s->record.id); break;
        }
        if (s->state == GUEST_STOPPING)
                lie_down(s);
        else
                bury(s);
}

int guest_watch(struct guest *s, int pidfd)
{
        s->death.fd = pidfd;
        s->death.on = on_death;
        return loop_add(s->engine->loop, &s->death, EPOLLIN);
}

static void end_process(struct guest *s)
{
        cgroups_kill(&s->engine->cgroups, s->record.slot);
        (void)sys_pidfd_kill(s->death.fd, SIGKILL); /* already dead: the watch tells */
}

/* Whoever asked for it, if it is still being made, gets this answer. */
static void fail_maker(struct guest *s, const struct err *err)
{
        guest_answer_at_end(s, TAKE_PTR(s->thawing), err);
        if (!s->start)
                return;
        guest_answer_at_end(s, TAKE_PTR(s->start->ask), err);
        s->start = start_free(s->start);
}

void guest_stop(struct guest *s)
{
        warm_forget(s);
        guest_go(s, GUEST_STOPPING);
        if (s->death.fd >= 0)
                end_process(s);
        if (!s->death.loop)
                lie_down(s); /* dead already, or never alive */
}

/* There is no paused.json that counts: a crash of ours leaves nothing but one that has ended. */
static bool is_awake(const struct guest *s)
{
        return s->state == GUEST_RUNNING || s->state == GUEST_COPYING || s->state == GUEST_ENDED ||
               ((s->state == GUEST_WAITING || s->state == GUEST_STARTING) && !s->was_paused);
}

void guest_end(struct guest *s)
{
        struct err err = {0};

        if (s->state == GUEST_ENDING)
                return;
        if (s->state == GUEST_RUNNING || s->state == GUEST_COPYING)
                s->engine->alive--;
        s->is_spent = is_awake(s) && !s->lost;
        warm_forget(s);
        (void)err_set(&err, ERR_GONE, "sandbox %s has ended", s->record.id);
        deferred_fail(s, &err); /* who comes from here on means another one */
        guest_go(s, GUEST_ENDING);
        if (s->death.fd >= 0)
                end_process(s);
        if (!s->death.loop)
                bury(s); /* it never had a process, or one that is dead or cannot be watched */
}

void guest_fail(struct guest *s, const struct err *err)
{
        log_warn("sandbox.failed", "sandbox=%s error=\"%s\"", s->record.id, err->msg);
        fail_maker(s, err);
        if (!s->was_paused)
                guest_end(s);
        else
                guest_stop(s);
}

void guest_kill(struct guest *s, struct ask *a)
{
        struct err none = {0}, killed = {0};

        (void)err_set(&killed, ERR_CONFLICT, "sandbox %s was killed while it was being made", s->record.id);
        fail_maker(s, &killed);
        if (s->state == GUEST_ENDING)
                deferred_fail(s, &killed); /* the next one of that name */
        guest_answer_at_end(s, a, &none);
        if (s->state == GUEST_BUSY || (s->job && !guest_job_give_up(s)))
                s->is_doomed = true; /* not before the job process is done, and what it leaves is known */
        else
                guest_end(s);
}
