#include "control/lives.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "control/feed.h"
#include "control/keys.h"
#include "store/store.h"

#define CREATE_TIMEOUT_MS 30000
#define KILL_TIMEOUT_MS 30000
#define KILL_RETRY_MS_MIN 100
#define KILL_RETRY_MS_MAX 10000
#define TIDY_MS 1000
/* The real-time clock may be set: look at it at least this often while anything can expire. */
#define LOOK_MS_MAX 60000

/* ---- bookkeeping ---- */

static void on_call(struct engine_call *c, const json_t *answer, const struct err *err);
static void on_retry(struct timer *t);

static struct life *life_free(struct life *l)
{
        if (!l)
                return NULL;
        engine_call_cancel(&l->call);
        timer_clear(&l->retry);
        deadlines_remove(&l->lives->deadlines, &l->deadline);
        (void)map_remove(&l->lives->by_id, str_of(l->sandbox.id));
        list_remove(&l->node);
        sandbox_done(&l->sandbox);
        free(l);
        return NULL;
}

/* s is moved from on success. */
static int life_create(struct lives *ls, struct sandbox *s, struct team *team, struct life **ret)
{
        struct life *l = calloc(1, sizeof(*l));
        int r;

        if (!l)
                return -ENOMEM;
        r = map_put(&ls->by_id, str_of(s->id), l, NULL);
        if (r < 0) {
                free(l);
                return r;
        }
        l->lives = ls;
        l->sandbox = *s;
        *s = (struct sandbox){0};
        l->team = team;
        l->call.on = on_call;
        l->retry.on = on_retry;
        l->retry_ms = KILL_RETRY_MS_MIN;
        list_init(&l->waiters);
        list_push_back(&ls->all, &l->node);
        *ret = l;
        return 0;
}

/* The only place that changes a life's state: counters and deadlines follow it. */
static void life_go(struct life *l, enum sandbox_state next)
{
        bool was_counted = l->sandbox.state == SANDBOX_STARTING || l->sandbox.state == SANDBOX_RUNNING;

        if (l->sandbox.state == SANDBOX_RUNNING)
                l->lives->running--;
        sandbox_go(&l->sandbox, next);
        if (next == SANDBOX_RUNNING)
                l->lives->running++;
        else
                deadlines_remove(&l->lives->deadlines, &l->deadline);
        if (was_counted && next >= SANDBOX_KILLING && l->team)
                l->team->sandbox_count--;
}

/* After the last write of a busy time, not in the middle of it: tidying may wait for the disk. */
static void tidy_later(struct lives *ls)
{
        timer_set(ls->o.loop, &ls->tidy, TIDY_MS);
}

static void on_tidy(struct timer *t)
{
        struct lives *ls = CONTAINER_OF(t, struct lives, tidy);

        if (store_wants_tidy(ls->o.store))
                store_tidy(ls->o.store);
}

/* A row that cannot be removed is harmless: at the next start the engine will not know its sandbox. */
static void remove_row(struct life *l)
{
        struct err err;

        if (store_sandbox_remove(l->lives->o.store, l->sandbox.id, &err) < 0)
                log_error("store.remove", "sandbox=%s failed=\"%s\"", l->sandbox.id, err.msg);
        tidy_later(l->lives);
}

/* It is over, one way or the other: tell those who wait, and forget it. */
static void life_end(struct life *l)
{
        struct list *node;

        life_go(l, SANDBOX_GONE);
        while ((node = list_pop_front(&l->waiters))) {
                struct life_waiter *w = LIST_ENTRY(node, struct life_waiter, node);

                w->on(w, NULL);
        }
        life_free(l);
}

/* ---- deadlines ---- */

static void arm(struct lives *ls)
{
        const struct deadline *first = deadlines_first(&ls->deadlines);
        int64_t ms;

        if (!first) {
                timer_clear(&ls->timer);
                return;
        }
        ms = (first->at_ns - ls->o.now_ns() + 999999) / 1000000;
        if (ms < 0)
                ms = 0;
        timer_set(ls->o.loop, &ls->timer, (uint64_t)(ms < LOOK_MS_MAX ? ms : LOOK_MS_MAX));
}

static void on_deadline(struct timer *t)
{
        struct lives *ls = CONTAINER_OF(t, struct lives, timer);
        struct deadline *first;

        while ((first = deadlines_first(&ls->deadlines)) && first->at_ns <= ls->o.now_ns())
                life_kill(CONTAINER_OF(first, struct life, deadline), "expired", NULL);
        arm(ls);
}

int life_set_end(struct life *l, int64_t end_ns, struct err *err)
{
        int r;

        r = store_sandbox_set_end(l->lives->o.store, l->sandbox.id, end_ns, err);
        if (r < 0)
                return r;
        tidy_later(l->lives);
        l->sandbox.end_ns = end_ns;
        (void)deadlines_set(&l->lives->deadlines, &l->deadline, end_ns); /* moves only: it is in there */
        arm(l->lives);
        return 0;
}

/* ---- starting ---- */

static void tell_starter(struct life *l, const struct err *err)
{
        void (*on)(struct life *, const struct err *, void *) = TAKE_PTR(l->on_started);

        if (on)
                on(err ? NULL : l, err, l->arg);
}

/* It runs: give it its deadline, make that durable, and only then tell anybody. */
static int begin_running(struct life *l, struct err *err)
{
        struct lives *ls = l->lives;
        int64_t now = ls->o.now_ns() / 1000 * 1000; /* as precise as clients see it, so that filters agree */
        int r;

        l->sandbox.started_ns = now;
        l->sandbox.end_ns = now + (int64_t)l->timeout_s * 1000000000;
        r = deadlines_set(&ls->deadlines, &l->deadline, l->sandbox.end_ns);
        if (r < 0)
                return err_sys(err, r, "start sandbox");
        r = store_sandbox_started(ls->o.store, l->sandbox.id, now, l->sandbox.end_ns, err);
        if (r < 0)
                return r;
        life_go(l, SANDBOX_RUNNING);
        arm(ls);
        feed_route(ls->o.feed, ls->o.route(&l->sandbox, ls->o.arg));
        return 0;
}

static void on_created(struct life *l, const struct err *err)
{
        struct err why = {0};

        if (err && err->kind != ERR_TIMEOUT) {
                remove_row(l);
                life_go(l, SANDBOX_GONE);
                tell_starter(l, err);
                life_free(l);
        } else if (err) {
                tell_starter(l, err);
                life_kill(l, "no answer to its creation", NULL);
        } else if (!l->on_started) {
                life_kill(l, "its client left", NULL);
        } else if (begin_running(l, &why) < 0) {
                tell_starter(l, &why);
                life_kill(l, "it could not be recorded", NULL);
        } else {
                log_info("sandbox.started", "sandbox=%s template=%s", l->sandbox.id, l->sandbox.template_id);
                tell_starter(l, NULL);
        }
}

int lives_start(struct lives *ls, struct sandbox *s, json_t *plan, uint32_t timeout_s,
                void (*on_started)(struct life *l, const struct err *err, void *arg), void *arg, struct err *err)
{
        struct team *team = keys_team(ls->o.keys, s->team);
        struct life *l;
        int r;

        s->state = SANDBOX_STARTING;
        s->started_ns = ls->o.now_ns();
        s->end_ns = s->started_ns + (int64_t)timeout_s * 1000000000;
        r = store_sandbox_add(ls->o.store, s, err);
        if (r == 0 && life_create(ls, s, team, &l) < 0) {
                (void)store_sandbox_remove(ls->o.store, s->id, NULL);
                r = err_sys(err, -ENOMEM, "start sandbox");
        }
        if (r < 0) {
                json_decref(plan);
                return r;
        }
        json_decref(l->sandbox.mcp); /* nobody asks for it; the store has it */
        l->sandbox.mcp = NULL;
        l->timeout_s = timeout_s;
        l->on_started = on_started;
        l->arg = arg;
        if (team)
                team->sandbox_count++;
        tidy_later(ls);
        engine_call(ls->o.engine, &l->call, json_pack("{s:s,s:o}", "op", "create", "plan", plan), CREATE_TIMEOUT_MS);
        return 0;
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
                remove_row(l); /* the engine never heard of it */
                life_end(l);
        }
}

/* ---- ending ---- */

static void ask_kill(struct life *l)
{
        timer_clear(&l->retry);
        if (!engine_call_is_started(&l->call))
                engine_call(l->lives->o.engine, &l->call, json_pack("{s:s,s:s}", "op", "kill", "id", l->sandbox.id),
                            KILL_TIMEOUT_MS);
}

static void on_retry(struct timer *t)
{
        ask_kill(CONTAINER_OF(t, struct life, retry));
}

static void on_killed(struct life *l, const struct err *err)
{
        struct list *node;

        if (!err || err->kind == ERR_NOT_FOUND) {
                log_info("sandbox.gone", "sandbox=%s", l->sandbox.id);
                life_end(l);
                return;
        }
        log_warn("sandbox.kill", "sandbox=%s failed=\"%s\", trying again in %u ms", l->sandbox.id, err->msg,
                 l->retry_ms);
        timer_set(l->lives->o.loop, &l->retry, l->retry_ms);
        l->retry_ms = l->retry_ms * 2 < KILL_RETRY_MS_MAX ? l->retry_ms * 2 : KILL_RETRY_MS_MAX;
        if (err->kind == ERR_UNAVAILABLE)
                return; /* the engine is restarting: those who wait learn the end of it */
        while ((node = list_pop_front(&l->waiters))) {
                struct life_waiter *w = LIST_ENTRY(node, struct life_waiter, node);

                w->on(w, err);
        }
}

static void on_call(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct life *l = CONTAINER_OF(c, struct life, call);

        (void)answer; /* both answers say no more than "ok" that concerns us */
        if (l->sandbox.state == SANDBOX_STARTING)
                on_created(l, err);
        else
                on_killed(l, err);
}

void life_kill(struct life *l, const char *why, struct life_waiter *w)
{
        if (w)
                list_push_back(&l->waiters, &w->node);
        if (l->sandbox.state == SANDBOX_KILLING)
                return;
        log_info("sandbox.kill", "sandbox=%s reason=\"%s\"", l->sandbox.id, why);
        life_go(l, SANDBOX_KILLING);
        feed_gone(l->lives->o.feed, l->sandbox.id);
        remove_row(l);
        ask_kill(l);
}

void lives_exited(struct lives *ls, const char *id)
{
        struct life *l = lives_find(ls, id);

        if (!l || l->sandbox.state != SANDBOX_RUNNING)
                return; /* the answer to its create or kill tells */
        log_info("sandbox.exited", "sandbox=%s", id);
        feed_gone(ls->o.feed, id);
        remove_row(l);
        life_end(l);
}

/* ---- reconciling ---- */

static void end_stranger(struct lives *ls, const char *id)
{
        struct sandbox s = {.state = SANDBOX_KILLING};
        struct life *l;

        memcpy(s.id, id, SANDBOX_ID_MAX);
        log_warn("sandbox.stranger", "sandbox=%s is not in the store, ending it", id);
        feed_gone(ls->o.feed, id);
        if (life_create(ls, &s, NULL, &l) == 0)
                ask_kill(l);
}

static void mark_listed(struct lives *ls, const json_t *sandboxes)
{
        json_t *v;
        size_t i;

        json_array_foreach (sandboxes, i, v) {
                const char *id = json_string_value(json_object_get(v, "id"));
                struct life *l = lives_find(ls, id ? id : "");

                if (l && l->sandbox.state != SANDBOX_STARTING)
                        l->is_listed = true;
                else if (!l && sandbox_id_is_valid(str_of(id)))
                        end_stranger(ls, id);
        }
}

void lives_reconcile(struct lives *ls, const json_t *sandboxes)
{
        mark_listed(ls, sandboxes);
        LIST_EACH (node, &ls->all) {
                struct life *l = LIST_ENTRY(node, struct life, node);
                bool is_alive = l->is_listed;

                l->is_listed = false;
                switch (l->sandbox.state) {
                case SANDBOX_RUNNING:
                        if (!is_alive)
                                lives_exited(ls, l->sandbox.id);
                        break;
                case SANDBOX_KILLING:
                        if (is_alive || !l->team)
                                ask_kill(l);
                        else
                                life_end(l);
                        break;
                case SANDBOX_STARTING: /* its create has not left yet: what leaves is sent after this */
                case SANDBOX_GONE: break;
                }
        }
}

/* ---- all of them ---- */

struct life *lives_find(const struct lives *ls, const char *id)
{
        return map_get(&ls->by_id, str_of(id));
}

struct life *lives_find_of(const struct lives *ls, const char *id, const struct team *t)
{
        struct life *l = lives_find(ls, id);

        return l && l->team == t && l->sandbox.state != SANDBOX_STARTING ? l : NULL;
}

static int take_row(struct sandbox *row, void *arg)
{
        struct lives *ls = arg;
        struct team *team = keys_team(ls->o.keys, row->team);
        bool was_running = row->state == SANDBOX_RUNNING;
        struct life *l;
        int r;

        json_decref(row->mcp);
        row->mcp = NULL;
        row->state = SANDBOX_STARTING;
        r = life_create(ls, row, team, &l);
        if (r < 0)
                return r;
        if (team)
                team->sandbox_count++;
        if (!was_running)
                return 0;
        r = deadlines_set(&ls->deadlines, &l->deadline, l->sandbox.end_ns);
        if (r == 0)
                life_go(l, SANDBOX_RUNNING);
        return r;
}

/* Rows of starts that control did not live to see: forgotten, so that the engine's are strangers, and ended. */
static void drop_unfinished(struct lives *ls)
{
        LIST_EACH (node, &ls->all) {
                struct life *l = LIST_ENTRY(node, struct life, node);

                if (l->sandbox.state == SANDBOX_STARTING) {
                        remove_row(l);
                        life_end(l);
                }
        }
}

int lives_init(struct lives *ls, const struct lives_options *o, struct err *err)
{
        int r;

        *ls = (struct lives){.o = *o, .timer.on = on_deadline, .tidy.on = on_tidy};
        list_init(&ls->all);
        r = store_sandbox_each(o->store, take_row, ls, err);
        if (r < 0)
                return r;
        drop_unfinished(ls);
        arm(ls);
        if (!list_is_empty(&ls->all))
                log_info("sandbox.loaded", "running=%zu", ls->running);
        return 0;
}

void lives_done(struct lives *ls)
{
        while (ls->all.next && ls->all.next != &ls->all)
                life_free(LIST_ENTRY(ls->all.next, struct life, node));
        deadlines_done(&ls->deadlines);
        map_done(&ls->by_id);
        timer_clear(&ls->timer);
        timer_clear(&ls->tidy);
}
