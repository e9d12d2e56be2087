#include "engine/guest.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/start.h"
#include "sys/fs.h"

#define TO(s) (1u << (s))
static const unsigned guest_may[] = {
        [GUEST_WAITING] = TO(GUEST_STARTING) | TO(GUEST_ENDING),
        [GUEST_STARTING] = TO(GUEST_RUNNING) | TO(GUEST_ENDING),
        [GUEST_RUNNING] = TO(GUEST_ENDING),
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
        *ret = s;
        return 0;
}

void guest_create(struct engine *e, struct plan_create *plan, struct ask *a)
{
        struct err err = {0};
        struct guest *s;

        if (guest_add(e, plan->id, &s, &err) < 0) {
                ask_fail(a, &err);
                plan_done(plan);
                return;
        }
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

        if (!e->filter && wanted && (net->allow_count > 0 || net->deny_count > 0))
                return err_set(err, ERR_UNAVAILABLE, "network rules cannot be enforced on this host: %s",
                               e->filter_why);
        if (!e->filter && !wanted)
                log_warn("sandbox.offline", "sandbox=%s reason=\"%s\"", s->record.id, e->filter_why);
        if (e->filter && (wanted || s->has_rules)) {
                r = filter_replace(e->filter, s->record.slot, s->has_rules ? &s->record.net : NULL, net, err);
                if (r < 0)
                        return r;
                s->has_rules = wanted;
        }
        plan_net_done(&s->record.net);
        s->record.net = *net;
        *net = (struct plan_net){0};
        return 0;
}

int guest_save(struct guest *s, struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(s->engine->sandboxes_dir, s->record.id);

        if (dir < 0)
                return err_sys(err, dir, "open directory of sandbox %s", s->record.id);
        return record_write(dir, &s->record, err);
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

static void answer_at_end(struct guest *s, struct ask *a, const struct err *err)
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

static void move_to_trash(struct guest *s)
{
        struct engine *e = s->engine;
        char name[SANDBOX_ID_MAX + 8];

        (void)snprintf(name, sizeof(name), "%s-", s->record.id);
        random_id(name + strlen(name), 6);
        if (renameat(e->sandboxes_dir, s->record.id, e->trash_dir, name) < 0) {
                if (errno != ENOENT)
                        log_error("sandbox.left", "sandbox=%s error=\"%s\", until the engine starts again",
                                  s->record.id, strerror(errno));
                return;
        }
        (void)helper_send(&e->sweeper, "s", 1, NULL, 0); /* no sweeper: the next start sweeps */
}

static void tell_exited(struct guest *s)
{
        LIST_EACH (node, &s->engine->controls) {
                struct client *c = LIST_ENTRY(node, struct client, node);

                if (c->channel)
                        (void)channel_send(c->channel, json_pack("{s:s,s:s}", "event", "exited", "id", s->record.id),
                                           NULL, 0);
        }
}

static void free_guest(struct task *t)
{
        free(CONTAINER_OF(t, struct guest, free_task));
}

void guest_bury(struct guest *s)
{
        struct engine *e = s->engine;
        struct err err = {0};

        loop_del(&s->death);
        close_fd(&s->death.fd);
        if (s->has_rules && filter_replace(e->filter, s->record.slot, &s->record.net, NULL, &err) < 0)
                log_error("filter.stale", "sandbox=%s error=\"%s\"", s->record.id, err.msg);
        move_to_trash(s);
        if (s->record.slot)
                slots_return(&e->pool.slots, s->record.slot, TAKE_FD(s->netns));
        (void)map_remove(&e->sandboxes, str_of(s->record.id));
        answer_waiting(s);
        record_done(&s->record);
        s->free_task.run = free_guest;
        loop_post(e->loop, &s->free_task);
}

static void on_death(struct io *io, uint32_t events)
{
        struct guest *s = CONTAINER_OF(io, struct guest, death);
        struct err err = {0};

        (void)events;
        switch (s->state) {
        case GUEST_WAITING: assert(0 && "a waiting sandbox has no process"); break;
        case GUEST_STARTING:
                (void)err_set(&err, ERR_INTERNAL, "envd ended while starting");
                guest_fail(s, &err); /* and once more through here */
                return;
        case GUEST_RUNNING:
                guest_go(s, GUEST_ENDING);
                s->engine->alive--;
                log_info("sandbox.exited", "sandbox=%s", s->record.id);
                tell_exited(s);
                break;
        case GUEST_ENDING: log_info("sandbox.ended", "sandbox=%s", s->record.id); break;
        }
        guest_bury(s);
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
        if (!s->start)
                return;
        answer_at_end(s, TAKE_PTR(s->start->ask), err);
        s->start = start_free(s->start);
}

static void end_guest(struct guest *s)
{
        if (s->state == GUEST_ENDING)
                return;
        if (s->state == GUEST_RUNNING)
                s->engine->alive--;
        guest_go(s, GUEST_ENDING);
        if (s->death.fd >= 0)
                end_process(s);
        if (!s->death.loop)
                guest_bury(s); /* it never had a process, or one that cannot be watched */
}

void guest_fail(struct guest *s, const struct err *err)
{
        log_warn("sandbox.failed", "sandbox=%s error=\"%s\"", s->record.id, err->msg);
        fail_maker(s, err);
        end_guest(s);
}

void guest_kill(struct guest *s, struct ask *a)
{
        struct err none = {0}, killed = {0};

        (void)err_set(&killed, ERR_CONFLICT, "sandbox %s was killed while it was being made", s->record.id);
        fail_maker(s, &killed);
        answer_at_end(s, a, &none);
        end_guest(s);
}
