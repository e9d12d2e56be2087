#include "engine/storage/trash_remover.h"
#include "engine/guest/guest.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/guest/deferred.h"
#include "engine/guest/guest_job.h"
#include "engine/guest/resume.h"
#include "engine/guest/standby.h"
#include "engine/guest/warm.h"
#include "engine/records/lost_note.h"
#include "model/err_json.h"
#include "sys/fs.h"

#define TO(s) (1u << (s))
static const unsigned guest_may[] = {
        [GUEST_WAITING] =
                TO(GUEST_STARTING) | TO(GUEST_RESUMING) | TO(GUEST_STOPPING) | TO(GUEST_BUSY) | TO(GUEST_ENDING),
        [GUEST_STARTING] = TO(GUEST_RUNNING) | TO(GUEST_STOPPING) | TO(GUEST_ENDING),
        [GUEST_RUNNING] = TO(GUEST_PAUSING) | TO(GUEST_COPYING) | TO(GUEST_ENDED) | TO(GUEST_ENDING),
        [GUEST_COPYING] = TO(GUEST_RUNNING) | TO(GUEST_BUSY) | TO(GUEST_KILLED) | TO(GUEST_ENDING),
        [GUEST_PAUSING] = TO(GUEST_RUNNING) | TO(GUEST_STOPPING) | TO(GUEST_WARM) | TO(GUEST_BUSY) | TO(GUEST_KILLED) |
                          TO(GUEST_ENDED) | TO(GUEST_ENDING),
        [GUEST_STOPPING] = TO(GUEST_PAUSED) | TO(GUEST_ENDING),
        [GUEST_PAUSED] = TO(GUEST_WAITING) | TO(GUEST_RESUMING) | TO(GUEST_KILLED) | TO(GUEST_ENDING),
        [GUEST_WARM] = TO(GUEST_STOPPING) | TO(GUEST_RESUMING) | TO(GUEST_ENDING),
        [GUEST_RESUMING] = TO(GUEST_RUNNING) | TO(GUEST_PAUSED) | TO(GUEST_STOPPING) | TO(GUEST_BUSY) |
                           TO(GUEST_STANDBY) | TO(GUEST_KILLED) | TO(GUEST_ENDING),
        [GUEST_STANDBY] = TO(GUEST_RESUMING) | TO(GUEST_ENDING),
        [GUEST_BUSY] = TO(GUEST_RUNNING) | TO(GUEST_STOPPING) | TO(GUEST_PAUSED) | TO(GUEST_KILLED) | TO(GUEST_ENDED) |
                       TO(GUEST_ENDING),
        [GUEST_KILLED] = TO(GUEST_ENDING),
        [GUEST_ENDED] = TO(GUEST_ENDING),
        [GUEST_ENDING] = 0,
};

#define IS_ALIVE (TO(GUEST_RUNNING) | TO(GUEST_COPYING))
#define HAS_JOB_PROCESS (TO(GUEST_PAUSING) | TO(GUEST_COPYING) | TO(GUEST_RESUMING) | TO(GUEST_BUSY) | TO(GUEST_KILLED))

struct end_wait { /* a request that is answered at the guest's end: a kill, or a create that failed */
        struct list node;
        struct ask *ask;
        struct err err; /* ERR_NONE: all is well */
};

void guest_go(struct guest *g, enum guest_state next) /* the only writer of g->state */
{
        assert(guest_may[g->state] & TO(next));
        g->engine->alive += (unsigned)((TO(next) & IS_ALIVE) != 0) - (unsigned)((TO(g->state) & IS_ALIVE) != 0);
        g->state = next;
}

bool guest_is_dead(const struct guest *g)
{
        return g->death.fd >= 0 && !g->death.loop; /* on_death() ends the watch */
}

bool guest_has_job_process(const struct guest *g)
{
        return TO(g->state) & HAS_JOB_PROCESS;
}

struct guest *guest_find(const struct engine *e, const char *id)
{
        return map_get(&e->sandboxes, str_of(id));
}

const struct engine_ops *guest_kind(const struct engine *e, enum engine_kind kind)
{
        for (size_t i = 0; e->kinds[i]; i++)
                if (e->kinds[i]->kind == kind)
                        return e->kinds[i];
        return NULL;
}

int guest_add(struct engine *e, const char *id, const struct engine_ops *ops, struct guest **ret, struct err *err)
{
        struct guest *g;

        if (guest_find(e, id))
                return err_set(err, ERR_CONFLICT, "sandbox %s exists", id);
        g = calloc(1, ops->guest_bytes);
        if (!g || map_put(&e->sandboxes, str_of(id), g, NULL) < 0) {
                free(g);
                return err_sys(err, -ENOMEM, "sandbox %s", id);
        }
        g->engine = e;
        g->ops = ops;
        g->state = GUEST_WAITING;
        g->record.facts.kind = ops->kind;
        (void)snprintf(g->record.id, sizeof(g->record.id), "%s", id);
        memcpy(g->record.boot_id, e->boot_id, sizeof(e->boot_id));
        g->death.fd = -1;
        list_init(&g->waiting);
        list_init(&g->deferred);
        ops->init(g);
        *ret = g;
        return 0;
}

/* On what is paused, if that fits the plan. */
static int find_paused(struct engine *e, const struct plan_create *plan, struct guest **ret, struct err *err)
{
        struct guest *g = guest_find(e, plan->id);

        if (!g && plan->is_upper_kept)
                return err_set(err, ERR_GONE, "sandbox %s is not paused here", plan->id);
        if (!g)
                return guest_add(e, plan->id, e->kinds[0], ret, err);
        if (g->state == GUEST_ENDED && plan->is_upper_kept)
                return err_set(err, ERR_GONE, "sandbox %s has ended", plan->id);
        if ((g->state != GUEST_PAUSED && g->state != GUEST_WARM) || g->job)
                return err_set(err, ERR_CONFLICT, "sandbox %s exists", plan->id);
        if (plan->is_upper_kept && g->paused.sealed[0])
                return err_set(err, ERR_CONFLICT, "the files of sandbox %s are sealed as layer %s", plan->id,
                               g->paused.sealed);
        if (plan->is_upper_kept && plan->checkpoint[0] && strcmp(plan->checkpoint, g->paused.checkpoint) != 0)
                return err_set(err, ERR_INVALID, "checkpoint damaged: it is not of the files that sandbox %s has now",
                               plan->id);
        if (!plan->is_upper_kept && !g->paused.sealed[0])
                return err_set(err, ERR_CONFLICT, "sandbox %s is paused with files of its own", plan->id);
        *ret = g;
        return 0;
}

void guest_create(struct engine *e, struct plan_create *plan, struct ask *a)
{
        struct err err = {0};
        struct guest *g;

        if (find_paused(e, plan, &g, &err) < 0) {
                ask_fail(a, &err);
                plan_done(plan);
                return;
        }
        if (plan->checkpoint[0]) {
                resume_begin(g, plan, a);
                return;
        }
        g->source = g->state == GUEST_PAUSED ? GUEST_WAS_PAUSED : GUEST_IS_NEW;
        if (g->source == GUEST_WAS_PAUSED)
                guest_go(g, GUEST_WAITING);
        g->ops->start(g, plan, a);
}

void guest_started(struct guest *g, struct ask *a, uint64_t began_us, const char *from, const struct err *silent)
{
        uint64_t us = clock_mono_us() - began_us;

        guest_go(g, GUEST_RUNNING);
        g->source = GUEST_IS_NEW;
        g->paused = (struct paused){0};
        ask_ok(a,
               json_pack("{s:i,s:I,s:s,s:o*}", "pid", (int)g->record.pid, "create_us", (json_int_t)us, "from", from,
                         "envd_silent", silent ? err_encode(silent) : NULL),
               -1);
        log_info("sandbox.started", "sandbox=%s pid=%d from=%s create_us=%llu%s", g->record.id, g->record.pid, from,
                 (unsigned long long)us, silent ? " envd_silent=1" : "");
}

/* ------------------------------------------------------------- the end */

static void answer_ended(struct ask *a, const struct err *err)
{
        if (err->kind == ERR_NONE)
                ask_ok(a, NULL, -1);
        else
                ask_fail(a, err);
}

static void answer_at_end(struct guest *g)
{
        struct list *node;

        while ((node = list_pop_front(&g->waiting))) {
                struct end_wait *w = LIST_ENTRY(node, struct end_wait, node);

                answer_ended(w->ask, &w->err);
                free(w);
        }
}

void guest_answer_at_end(struct guest *g, struct ask *a, const struct err *err)
{
        struct end_wait *w = a ? calloc(1, sizeof(*w)) : NULL;

        if (a)
                a->on_orphan = NULL;
        if (!w) {
                answer_ended(a, err); /* out of memory: a little early */
                return;
        }
        w->ask = a;
        w->err = *err;
        list_push_back(&g->waiting, &w->node);
}

static json_t *guest_fact(const struct guest *g, const char *event)
{
        bool is_rechecked = strcmp(event, "rechecked") == 0;
        bool is_running = g->state == GUEST_RUNNING;

        if (!is_rechecked)
                return json_pack("{s:s,s:s}", "event", event, "id", g->record.id);
        return json_pack("{s:s,s:s,s:s,s:s*,s:s*}", "event", event, "id", g->record.id, "state",
                         is_running ? "running" : "paused", "checkpoint",
                         !is_running && g->paused.checkpoint[0] ? g->paused.checkpoint : NULL, "sealed",
                         !is_running && g->paused.sealed[0] ? g->paused.sealed : NULL);
}

void guest_tell(const struct guest *g, const char *event)
{
        LIST_EACH (node, &g->engine->controls) {
                struct client *c = LIST_ENTRY(node, struct client, node);

                if (c->channel)
                        (void)channel_send(c->channel, guest_fact(g, event), NULL, 0);
        }
}

static void guest_free(struct task *t)
{
        free(CONTAINER_OF(t, struct guest, free_task));
}

/* Everything that is not a file. */
static void guest_release(struct guest *g)
{
        loop_del(&g->death);
        close_fd(&g->death.fd);
        warm_forget(g);
        g->ops->release(g);
}

/* Whoever wants to begin something under its id had to wait for this. */
static void guest_removed(void *arg, const struct err *err)
{
        struct guest *g = arg;
        struct engine *e = g->engine;

        g->files = NULL;
        if (err->kind != ERR_NONE)
                log_error("sandbox.left", "sandbox=%s error=\"%s\"", g->record.id, err->msg);
        trash_remover_call(&e->trash_remover);
        (void)map_remove(&e->sandboxes, str_of(g->record.id));
        answer_at_end(g);
        deferred_run(g);
        standbys_forget(g);
        record_done(&g->record);
        free(g->lost);
        g->free_task.run = guest_free;
        loop_post(e->loop, &g->free_task);
}

/* Where its directory goes at its end: away, unless nobody asked for that. */
static struct disk_request *clear_away(struct guest *g)
{
        struct disk *d = &g->engine->disk;

        if (g->standby && g->standby->former_id[0]) /* its directory has one name or the other */
                (void)disk_throw(d, DISK_SANDBOXES, g->standby->former_id, NULL, NULL);
        return g->lost ? disk_lose(d, DISK_SANDBOXES, g->record.id, g->lost, guest_removed, g)
                       : disk_throw(d, DISK_SANDBOXES, g->record.id, guest_removed, g);
}

/* Its process is dead, or it never had one: undo everything. */
static void guest_remove(struct guest *g)
{
        struct err err = {0};

        guest_release(g);
        disk_forget(g->files);
        g->files = clear_away(g);
        if (g->are_files_worthless)
                answer_at_end(g);
        if (g->files)
                return;
        (void)err_sys(&err, -ENOMEM, "move its files away");
        guest_removed(g, &err);
}

/* Of its record only the name remains. */
static void forget_record(struct guest *g)
{
        struct record none = {.facts.kind = g->ops->kind};

        memcpy(none.id, g->record.id, sizeof(none.id));
        memcpy(none.boot_id, g->record.boot_id, sizeof(none.boot_id));
        record_done(&g->record);
        g->record = none;
        g->source = GUEST_IS_NEW;
}

void guest_exited(struct guest *g)
{
        struct err err = {0};

        log_info("sandbox.exited", "sandbox=%s", g->record.id);
        guest_release(g);
        forget_record(g);
        guest_go(g, GUEST_ENDED);
        guest_tell(g, "exited");
        answer_at_end(g);
        (void)err_set(&err, ERR_GONE, "sandbox %s has ended", g->record.id);
        deferred_fail(g, &err);
}

/* What is paused of it is all there is. */
static void guest_is_paused(void *arg, const struct err *err)
{
        struct guest *g = arg;

        g->files = NULL;
        if (err->kind != ERR_NONE) /* with paused.json beside it, running.json says nothing */
                log_warn("record.left", "sandbox=%s error=\"%s\"", g->record.id, err->msg);
        forget_record(g);
        guest_go(g, GUEST_PAUSED);
        log_info("sandbox.stopped", "sandbox=%s", g->record.id);
        answer_at_end(g);
        if (g->is_news)
                guest_tell(g, "rechecked");
        g->is_news = false;
        deferred_run(g);
}

/* The same as guest_remove(), but what is paused of it stays. */
static void guest_settle(struct guest *g)
{
        struct err err = {0};

        guest_release(g);
        g->files = disk_note_paused(&g->engine->disk, g->record.id, guest_is_paused, g);
        if (g->files)
                return;
        (void)err_sys(&err, -ENOMEM, "remove its record");
        guest_is_paused(g, &err);
}

static void on_death(struct io *io, uint32_t events)
{
        struct guest *g = CONTAINER_OF(io, struct guest, death);
        struct err err = {0};

        (void)events;
        switch (g->state) {
        case GUEST_WAITING:
        case GUEST_ENDED:
        case GUEST_PAUSED: assert(0 && "it has no process that is watched"); break;
        case GUEST_STARTING:
                (void)err_set(&err, ERR_INTERNAL, "envd ended while starting");
                guest_fail(g, &err); /* and once more through here */
                return;
        case GUEST_PAUSING:
        case GUEST_COPYING:
        case GUEST_RESUMING:
        case GUEST_BUSY:
        case GUEST_KILLED:
                loop_del(&g->death); /* guest_is_dead(): the job process will notice, and then so do we */
                return;
        case GUEST_WARM: /* its image is on disk */ guest_go(g, GUEST_STOPPING); break;
        case GUEST_STANDBY:
                log_warn("standby.died", "standby=%s", g->record.id);
                standbys_unlist(g);
                standbys_look_later(g->engine);
                guest_end(g); /* and once more through here */
                return;
        case GUEST_STOPPING: break;
        case GUEST_RUNNING: guest_exited(g); return;
        case GUEST_ENDING: log_info("sandbox.ended", "sandbox=%s", g->record.id); break;
        }
        if (g->state == GUEST_STOPPING)
                guest_settle(g);
        else
                guest_remove(g);
}

int guest_watch(struct guest *g, int pidfd)
{
        g->death.fd = pidfd;
        g->death.on = on_death;
        return loop_add(g->engine->loop, &g->death, EPOLLIN);
}

static void end_process(struct guest *g)
{
        g->ops->kill(g);
        (void)sys_pidfd_kill(g->death.fd, SIGKILL); /* already dead: the watch tells */
}

/* The request for a guest that is still being made gets this answer. */
static void fail_request(struct guest *g, const struct err *err)
{
        guest_answer_at_end(g, TAKE_PTR(g->thawing), err);
        guest_answer_at_end(g, g->ops->give_up(g), err);
}

void guest_stop(struct guest *g)
{
        warm_forget(g);
        guest_go(g, GUEST_STOPPING);
        if (g->death.fd >= 0)
                end_process(g);
        if (!g->death.loop)
                guest_settle(g); /* dead already, or never alive */
}

/* There is no paused.json that counts: a crash of ours leaves nothing but one that has ended. */
static bool is_awake(const struct guest *g)
{
        return g->state == GUEST_RUNNING || g->state == GUEST_COPYING || g->state == GUEST_ENDED ||
               ((g->state == GUEST_WAITING || g->state == GUEST_STARTING) && g->source == GUEST_IS_NEW);
}

void guest_end(struct guest *g)
{
        struct err err = {0};

        if (g->state == GUEST_ENDING)
                return;
        g->are_files_worthless = is_awake(g) && !g->lost;
        warm_forget(g);
        (void)err_set(&err, ERR_GONE, "sandbox %s has ended", g->record.id);
        deferred_fail(g, &err); /* requests from here on mean another sandbox of that name */
        guest_go(g, GUEST_ENDING);
        if (g->death.fd >= 0)
                end_process(g);
        if (!g->death.loop)
                guest_remove(g); /* it never had a process, or one that is dead or cannot be watched */
}

void guest_fail(struct guest *g, const struct err *err)
{
        log_warn("sandbox.failed", "sandbox=%s error=\"%s\"", g->record.id, err->msg);
        fail_request(g, err);
        if (g->source == GUEST_IS_NEW)
                guest_end(g);
        else
                guest_stop(g);
}

void guest_kill(struct guest *g, struct ask *a)
{
        struct err none = {0}, killed = {0};

        (void)err_set(&killed, ERR_CONFLICT, "sandbox %s was killed while it was being made", g->record.id);
        fail_request(g, &killed);
        if (g->state == GUEST_ENDING)
                deferred_fail(g, &killed); /* the next one of that name */
        guest_answer_at_end(g, a, &none);
        if (g->state == GUEST_KILLED)
                return;
        if (g->state == GUEST_BUSY || (g->job && !guest_job_give_up(g)))
                guest_go(g, GUEST_KILLED); /* not before the job process is done, and what it leaves is known */
        else
                guest_end(g);
}
