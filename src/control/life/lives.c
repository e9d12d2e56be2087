#include "control/life/lives.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "control/access/keys.h"
#include "control/catalogue/refs.h"
#include "control/life/life.h"
#include "model/conf.h"
#include "store/store.h"

#define KILL_RETRY_MS_MIN 100
#define TIDY_MS 1000
/* While a sandbox can expire, the real-time clock is looked at every LOOK_MS_MAX.  A jump of SET_NS_MIN or more between two
 * looks means that somebody has set the clock; less than that is how the system keeps the clock right. */
#define LOOK_MS_MAX 60000
#define SET_NS_MIN INT64_C(500000000)

/* ---- bookkeeping ---- */

static void life_step_done(struct life *l, const struct err *err)
{
        switch (l->sandbox.state) {
        case SANDBOX_STARTING: life_on_created(l, err); break;
        case SANDBOX_PAUSING: (life_is_build(l) ? life_on_commit_step : life_on_paused)(l, err); break;
        case SANDBOX_RESUMING: life_on_resumed(l, err); break;
        case SANDBOX_COPYING: life_on_copied(l, err); break;
        case SANDBOX_SNAPSHOTTING: life_on_snapshotted(l, err); break;
        case SANDBOX_COPYING_PAUSED: life_on_copied_paused(l, err); break;
        case SANDBOX_ROLLING_BACK: life_on_rolled_back(l, err); break;
        case SANDBOX_ROLLING_BACK_PAUSED: life_on_rolled_back_paused(l, err); break;
        case SANDBOX_KILLING: life_ask_kill(l); break; /* the kill waited for this step */
        case SANDBOX_RUNNING:
        case SANDBOX_PAUSED:
        case SANDBOX_GONE: break;
        }
}

static void life_call_done(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct life *l = CONTAINER_OF(c, struct life, call);
        const json_t *silent =
                json_object_get(answer, "envd_silent"); /* no other answer says more than "ok" that concerns us */

        if (silent && l->sandbox.state == SANDBOX_RESUMING)
                life_on_envd_silent(l, silent);
        else
                life_step_done(l, err);
}

static void life_synced(struct durable_waiter *w, int result)
{
        struct life *l = CONTAINER_OF(w, struct life, synced);
        struct err err;

        if (result < 0)
                err_sys(&err, result, "the store could not be written to disk");
        if (l->step == STEP_SYNC_FIRST && l->sandbox.state != SANDBOX_KILLING)
                life_end_now(l); /* also when the disk failed: the sandbox is to be ended all the same */
        else
                life_step_done(l, result < 0 ? &err : NULL);
}

void life_call(struct life *l, enum life_step step, json_t *msg, unsigned timeout_ms)
{
        l->step = step;
        engine_call(l->lives->o.engine, &l->call, msg, timeout_ms);
}

void life_sync(struct life *l)
{
        l->step = STEP_SYNC;
        durable_wait(l->lives->o.durable, &l->synced);
}

/* A call that is lost with the link, or that gets no answer: the engine's next list shows what became of the call. */
bool life_step_is_unknown(struct life *l, const struct err *err)
{
        struct engine_link *engine = l->lives->o.engine;

        if (!err || l->step == STEP_SYNC)
                return false;
        if (err->kind == ERR_TIMEOUT && l->call.is_unanswered) {
                log_warn("sandbox.no_answer", "sandbox=%s, asking the engine anew", l->sandbox.id);
                l->step = STEP_NONE;
                engine_link_reset(engine);
                return true;
        }
        if (err->kind != ERR_UNAVAILABLE || engine->state == ENGINE_UP)
                return false;
        l->step = STEP_NONE;
        return true;
}

static void life_release_names(struct life *l)
{
        json_decref(l->held_layers);
        l->held_layers = NULL;
        life_forget_merged_layers(l);
        life_drop_sealing(l);
}

/* From here on lives_find() does not find it. */
static void life_unlist(struct life *l)
{
        if (list_is_empty(&l->node))
                return;
        list_remove(&l->node);
        (void)map_remove(&l->lives->by_id, str_of(l->sandbox.id));
}

struct life *life_free(struct life *l)
{
        if (!l)
                return NULL;
        engine_call_cancel(&l->call);
        engine_call_cancel(&l->kill);
        durable_cancel(&l->synced);
        timer_clear(&l->retry);
        if (l->taker)
                l->taker->life = NULL;
        while (list_pop_front(&l->waiters)) /* at the end of control: waiters are not told, and left on no list */
                ;
        life_release_names(l);
        deadlines_remove(&l->lives->deadlines, &l->deadline);
        life_unlist(l);
        l->lives->count--;
        sandbox_done(&l->sandbox);
        free(l);
        return NULL;
}

int life_create(struct lives *ls, struct sandbox *s, struct team *team, struct life **ret)
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
        l->team = life_is_build(l) ? NULL : team;
        l->call.on = life_call_done;
        l->synced.on = life_synced;
        l->retry_ms = KILL_RETRY_MS_MIN;
        list_init(&l->waiters);
        list_push_back(&ls->all, &l->node);
        ls->count++;
        life_set_names(l, l->sandbox.checkpoint, l->sandbox.layers);
        if (l->team && sandbox_is_counted(&l->sandbox))
                l->team->sandbox_count++;
        ls->running += l->sandbox.state == SANDBOX_RUNNING;
        *ret = l;
        return 0;
}

void life_go(struct life *l, enum sandbox_state next)
{
        bool was_counted = sandbox_is_counted(&l->sandbox);
        enum sandbox_state before = l->sandbox.state;

        l->lives->running -= l->sandbox.state == SANDBOX_RUNNING;
        sandbox_go(&l->sandbox, next);
        if (!life_is_build(l))
                journal_note(&l->lives->journal, &l->sandbox, l->team, before, l->end_reason, l->lives->o.now_ns());
        l->lives->running += next == SANDBOX_RUNNING;
        if (next != SANDBOX_RUNNING)
                deadlines_remove(&l->lives->deadlines, &l->deadline);
        if (l->team)
                l->team->sandbox_count += (size_t)sandbox_is_counted(&l->sandbox) - (size_t)was_counted;
}

int64_t lives_now(struct lives *ls)
{
        return lives_real_ns(ls) / 1000 * 1000;
}

/* After the last write of a busy time, not in the middle of it: tidying may wait for the disk. */
void lives_tidy_later(struct lives *ls)
{
        timer_set(ls->o.loop, &ls->tidy, TIDY_MS);
}

void life_show(struct life *l)
{
        if (life_is_build(l))
                return;
        l->lives->o.on_changed(&l->sandbox, l->lives->o.arg);
}

/* ---- rows that could not be written ---- */

static void lives_write_again(struct lives *ls)
{
        struct err err;

        ls->has_unwritten = false;
        LIST_EACH (node, &ls->all) {
                struct life *l = LIST_ENTRY(node, struct life, node);

                if (l->sandbox.state < SANDBOX_KILLING && life_write_again(l, &err) < 0) {
                        ls->has_unwritten = true;
                        lives_tidy_later(ls);
                }
        }
}

/* The disk was full: what the store sets aside for such times (store.h) is taken again as soon as there is room. */
static void lives_look_for_room(struct lives *ls)
{
        if (!store_keep_room(ls->o.store))
                lives_tidy_later(ls);
}

static void lives_tidy(struct timer *t)
{
        struct lives *ls = CONTAINER_OF(t, struct lives, tidy);

        if (ls->has_unwritten)
                lives_write_again(ls);
        lives_remove_rows_again(ls);
        if (store_wants_tidy(ls->o.store))
                store_tidy(ls->o.store);
        lives_look_for_room(ls);
}

/* ---- waiters ---- */

void life_tell(struct life *l, enum sandbox_state reached, const struct err *err)
{
        struct list told, *node;

        list_init(&told);
        while ((node = list_pop_front(&l->waiters)))
                list_push_back(&told, node);
        while ((node = list_pop_front(&told))) {
                struct life_waiter *w = LIST_ENTRY(node, struct life_waiter, node);

                w->on(w, reached, err);
        }
}

void life_transition_done(struct life *l, const struct err *err)
{
        l->step = STEP_NONE;
        l->pause_cause = PAUSE_ASKED;
        l->is_retried = false;
        l->failure = (struct err){0};
        life_tell(l, l->sandbox.state, err);
}

void life_leave(struct life *l)
{
        life_go(l, SANDBOX_GONE);
        life_unlist(l);
}

void life_finish(struct life *l)
{
        if (l->sandbox.state != SANDBOX_GONE)
                life_leave(l);
        life_give_image(l, &(struct err){.kind = ERR_GONE, .msg = "the sandbox has ended"});
        life_tell(l, SANDBOX_GONE, NULL);
        life_no_job_left(l);
        life_free(l);
}

/* ---- deadlines ---- */

/* All ends are moved alike, so the order of the deadlines stays. */
static void life_move_end(struct life *l, int64_t by_ns)
{
        struct err err;

        if (!sandbox_is_shown_running(&l->sandbox) && l->sandbox.state != SANDBOX_PAUSING)
                return;
        l->sandbox.end_ns += by_ns;
        l->deadline.at_ns += by_ns;
        if (store_sandbox_set_end(l->lives->o.store, l->sandbox.id, l->sandbox.end_ns, &err) < 0)
                log_error("store.update", "sandbox=%s failed=\"%s\"", l->sandbox.id, err.msg);
}

int64_t lives_real_ns(struct lives *ls)
{
        int64_t now = ls->o.now_ns(), began = now - ls->o.boot_ns(), by_ns = began - ls->boot_real_ns;

        ls->boot_real_ns = began;
        if (by_ns > -SET_NS_MIN && by_ns < SET_NS_MIN)
                return now;
        log_warn("clock.set", "by_ms=%lld, moving the ends of sandboxes along", (long long)(by_ns / 1000000));
        LIST_EACH (node, &ls->all)
                life_move_end(LIST_ENTRY(node, struct life, node), by_ns);
        lives_tidy_later(ls);
        return now;
}

static void lives_arm_timer(struct lives *ls)
{
        const struct deadline *first = deadlines_first(&ls->deadlines);
        int64_t ms;

        if (!first) {
                timer_clear(&ls->timer);
                return;
        }
        ms = (first->at_ns - lives_real_ns(ls) + 999999) / 1000000;
        if (ms < 0)
                ms = 0;
        timer_set(ls->o.loop, &ls->timer, (uint64_t)(ms < LOOK_MS_MAX ? ms : LOOK_MS_MAX));
}

static void lives_deadline_passed(struct timer *t)
{
        struct lives *ls = CONTAINER_OF(t, struct lives, timer);
        int64_t now = lives_real_ns(ls);
        struct deadline *first;

        while ((first = deadlines_first(&ls->deadlines)) && first->at_ns <= now)
                life_expire(CONTAINER_OF(first, struct life, deadline));
        lives_arm_timer(ls);
}

int life_set_deadline(struct life *l, int64_t end_ns)
{
        int r = life_is_build(l) ? 0 : deadlines_set(&l->lives->deadlines, &l->deadline, end_ns);

        lives_arm_timer(l->lives);
        return r;
}

int life_set_end(struct life *l, int64_t end_ns, struct err *err)
{
        int r;

        r = store_sandbox_set_end(l->lives->o.store, l->sandbox.id, end_ns, err);
        if (r < 0)
                return r;
        lives_tidy_later(l->lives);
        l->sandbox.end_ns = end_ns;
        if (l->sandbox.state == SANDBOX_RUNNING)    /* COPYING: the deadline is set when the copy is done */
                (void)life_set_deadline(l, end_ns); /* cannot fail: the deadline is only moved */
        return 0;
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

int lives_check_limit(const struct lives *ls, const struct team *t, struct err *err)
{
        uint32_t max = ls->o.conf->sandboxes_max;

        if (t->sandbox_count < max)
                return 0;
        return err_set(err, ERR_LIMIT,
                       "you have reached the maximum number of concurrent E2B sandboxes (%u). If you need more, raise "
                       "sandboxes_max in the server's configuration.",
                       max);
}

bool lives_has_stopped(const struct lives *ls, const char *id, const struct team *t)
{
        for (size_t i = 0; i < ls->stopped_count && i < LIVES_STOPPED_MAX; i++)
                if (ls->stopped[i].team == t && strcmp(ls->stopped[i].id, id) == 0)
                        return true;
        return false;
}

static int lives_take_row(struct sandbox *row, void *arg)
{
        struct lives *ls = arg;
        struct team *team = keys_team(ls->o.keys, row->team);
        struct life *l;
        int r;

        json_decref(row->mcp);
        row->mcp = NULL;
        r = refs_load_row(ls->o.refs, row->checkpoint, row->layers);
        if (r == 0)
                r = life_create(ls, row, team, &l);
        if (r < 0)
                return r;
        if (life_is_build(l))
                return 0;
        l->was_paused = true; /* it may have been */
        return l->sandbox.state == SANDBOX_RUNNING ? deadlines_set(&ls->deadlines, &l->deadline, l->sandbox.end_ns) : 0;
}

/* Rows of sandboxes that were being started when control died: no client was told of them, and they are ended.  STARTING means
 * just that at a start of control, so the rows need not be written.  Those of builds are ended as well: each build begins again,
 * and finds what was done in its cache. */
static void lives_end_unfinished(struct lives *ls)
{
        LIST_EACH (node, &ls->all) {
                struct life *l = LIST_ENTRY(node, struct life, node);

                if (l->sandbox.state == SANDBOX_STARTING || (life_is_build(l) && l->sandbox.state < SANDBOX_KILLING)) {
                        l->was_starting = !life_is_build(l);
                        life_go(l, SANDBOX_KILLING);
                }
        }
}

int lives_init(struct lives *ls, const struct lives_options *o, struct err *err)
{
        int r;

        *ls = (struct lives){.o = *o, .timer.on = lives_deadline_passed, .tidy.on = lives_tidy};
        journal_init(&ls->journal, o->loop);
        list_init(&ls->all);
        list_init(&ls->strangers);
        list_init(&ls->unremoved);
        ls->boot_real_ns = o->now_ns() - o->boot_ns();
        r = store_sandbox_each(o->store, lives_take_row, ls, err);
        if (r < 0)
                return r;
        lives_end_unfinished(ls);
        lives_look_for_room(ls);
        lives_arm_timer(ls);
        if (!list_is_empty(&ls->all))
                log_info("sandbox.loaded", "all=%zu running=%zu", ls->count, ls->running);
        return 0;
}

void lives_done(struct lives *ls)
{
        engine_call_cancel(&ls->list);
        engine_call_cancel(&ls->lose);
        lives_forget_strangers(ls);
        while (ls->all.next && ls->all.next != &ls->all)
                life_free(LIST_ENTRY(ls->all.next, struct life, node));
        lives_forget_rows(ls);
        journal_done(&ls->journal);
        deadlines_done(&ls->deadlines);
        map_done(&ls->by_id);
        timer_clear(&ls->timer);
        timer_clear(&ls->tidy);
}
