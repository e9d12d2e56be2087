#include "engine/guest/standby.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/guest/guest_job.h"
#include "engine/guest/resume.h"
#include "engine/guest/warm.h"
#include "engine/records/job_note.h"
#include "model/conf.h"
#include "model/ids.h"
#include "sys/proc.h"

#define REFILL_MS 300u     /* after a create, which most often has more to do */
#define LOOK_MS 5000u      /* at the machine's memory */
#define RETRY_MIN_MS 1000u /* after a failure */
#define RETRY_MAX_MS 60000u
#define SHORT_MS 30000u /* after memory or slots ran short */
#define STOP_MS 5000u
#define STOP_STEP_MS 10

bool guest_is_standby(const struct guest *g)
{
        return standby_id_is_valid(str_of(g->record.id));
}

static struct standbys *of(const struct engine *e)
{
        return e->standbys;
}

static uint64_t budget(const struct engine *e)
{
        return e->conf->standbys ? (uint64_t)e->conf->standby_memory_mb << 20 : 0;
}

/* ------------------------------------------------------------- one of them */

void standbys_unlist(struct guest *g)
{
        struct standby *s = g->standby;

        if (!s || !list_is_hooked(&s->node))
                return;
        list_remove(&s->node);
        of(g->engine)->count--;
        of(g->engine)->bytes -= s->bytes;
}

void standbys_forget(struct guest *g)
{
        struct standby *s = g->standby;

        if (!s)
                return;
        standbys_unlist(g);
        if (of(g->engine)->making == g)
                of(g->engine)->making = NULL;
        plan_done(&s->plan);
        json_decref(s->request);
        free(s);
        g->standby = NULL;
}

static void standby_drop(struct guest *g, const char *why)
{
        log_info("standby.dropped", "standby=%s checkpoint=%s reason=%s", g->record.id, g->standby->plan.checkpoint,
                 why);
        standbys_unlist(g);
        if (of(g->engine)->making == g)
                of(g->engine)->making = NULL;
        if (g->job)
                g->ops->kill(g); /* its job process need not finish it */
        guest_kill(g, NULL);
}

static struct standby_want *find_want(struct standbys *ss, const struct plan_create *plan)
{
        for (size_t i = 0; i < ss->want_count; i++)
                if (plan_begins_alike(&ss->wants[i].plan, plan))
                        return &ss->wants[i];
        return NULL;
}

/* ------------------------------------------------------------- making one */

/* The earliest look counts: creates in a row put none off. */
static void look_in(struct engine *e, unsigned ms)
{
        struct standbys *ss = of(e);
        uint64_t at = clock_mono_ms() + ms;

        if (ss->is_stopped || (timer_is_armed(&ss->look) && ss->look_ms <= at))
                return;
        ss->look_ms = at;
        timer_set(e->loop, &ss->look, ms);
}

static void make_none_for(struct standbys *ss, unsigned ms)
{
        ss->make_after_ms = clock_mono_ms() + ms;
        look_in(ss->engine, ms);
}

void standbys_look_later(struct engine *e)
{
        if (of(e) && of(e)->want_count > 0 && !of(e)->making)
                look_in(e, REFILL_MS);
}

static void making_failed(struct standbys *ss, const struct err *err)
{
        uint64_t ms = (uint64_t)RETRY_MIN_MS << (ss->failures < 8 ? ss->failures : 8);

        log_warn("standby.failed", "error=\"%s\", trying again later", err->msg);
        ss->failures++;
        make_none_for(ss, ms > RETRY_MAX_MS ? RETRY_MAX_MS : (unsigned)ms);
}

/* Those with other files of the host are out of date. */
static void drop_outdated(struct standbys *ss, const char *host_version)
{
        LIST_EACH (node, &ss->all) {
                struct standby *s = LIST_ENTRY(node, struct standby, node);

                if (strcmp(s->host_version, host_version) != 0)
                        standby_drop(s->guest, "host_files");
        }
}

static void standby_is_made(struct guest *g, const struct job_answer *answer)
{
        struct standbys *ss = of(g->engine);
        struct standby_want *want = find_want(ss, &g->standby->plan);
        struct guest_usage u = {0};
        struct err err = {0};

        (void)g->ops->stats(g, &u, &err);
        memcpy(g->standby->host_version, answer->host_version, sizeof(g->standby->host_version));
        g->standby->bytes = u.memory_bytes;
        if (want)
                want->bytes = u.memory_bytes;
        drop_outdated(ss, answer->host_version);
        guest_go(g, GUEST_STANDBY);
        list_push_back(&ss->all, &g->standby->node);
        ss->count++;
        ss->bytes += g->standby->bytes;
        ss->failures = 0;
        log_info("standby.ready", "standby=%s checkpoint=%s bytes=%llu", g->record.id, g->standby->plan.checkpoint,
                 (unsigned long long)u.memory_bytes);
}

/* Its job process died, or kept what it has to give: when nobody is at it any more, what there is of it is ended. */
static void end_when_alone(struct guest *g)
{
        if (g->state != GUEST_KILLED)
                guest_go(g, GUEST_KILLED);
        g->ops->kill(g);
        guest_job_recheck(g, NULL, ADOPT_NOTHING);
}

static void on_made(struct guest_job *w, struct job_answer *answer, const struct err *why)
{
        struct guest *g = w->guest;
        struct standbys *ss = of(g->engine);
        struct err err = *why;
        bool is_wanted = g->state != GUEST_KILLED;

        if (ss->making == g)
                ss->making = NULL;
        if (!answer || (err.kind == ERR_NONE && resume_take_over(g, answer, &err) < 0))
                end_when_alone(g);
        else if (err.kind != ERR_NONE || !is_wanted || guest_is_dead(g))
                guest_end(g);
        else {
                standby_is_made(g, answer);
                look_in(g->engine, 0); /* for the next one */
                return;
        }
        if (is_wanted && err.kind == ERR_NONE)
                (void)err_set(&err, ERR_INTERNAL, "its processes died");
        if (is_wanted)
                making_failed(ss, &err);
        else
                look_in(g->engine, 0);
}

static int make_job(struct guest *g, struct plan_create *plan, struct guest_job **ret, struct err *err)
{
        struct job job = {.kind = JOB_RESTORE, .makes_directory = true};
        int r;

        job.restore.plan = plan;
        job.restore.is_standby = true;
        r = g->ops->resume(g, &job, err);
        if (r < 0)
                return r;
        job.note.facts = g->record.facts;
        job.note.net = plan->net;
        memcpy(job.note.checkpoint, plan->checkpoint, sizeof(job.note.checkpoint));
        *ret = guest_job_create(g, &job, NULL);
        if (!*ret)
                return err_sys(err, -ENOMEM, "make a standby");
        (*ret)->on_done = on_made;
        (*ret)->queued.is_long = true; /* requests come first */
        return 0;
}

/* Of the plan: a name of its own, and no rules of its own, which would have to be taken back when it is handed over (a change of the
 * firewall costs more than all the rest).  Nothing of it runs; and connections that were saved with the template have an address
 * that the firewall does not let out. */
static int plan_next(const struct standby_want *want, struct plan_create *ret, struct err *err)
{
        int r = plan_decode_standby(want->message, ret, err);

        if (r < 0)
                return r;
        standby_id_make(ret->id);
        plan_net_done(&ret->net);
        ret->net.internet = true;
        return 0;
}

static int begin_making(struct guest *g, struct err *err)
{
        struct plan_net none = {.internet = true};
        struct guest_job *w = NULL;
        int r;

        guest_go(g, GUEST_RESUMING);
        g->source = GUEST_IS_NEW;
        r = make_job(g, &g->standby->plan, &w, err);
        if (r < 0)
                return r;
        r = g->ops->set_net(g, &none, err);
        if (r < 0)
                guest_job_discard(w);
        else
                guest_job_start(w);
        return r;
}

static int standby_make(struct standbys *ss, const struct standby_want *want, struct err *err)
{
        struct standby *s = calloc(1, sizeof(*s));
        struct guest *g = NULL;
        int r = s ? plan_next(want, &s->plan, err) : err_sys(err, -ENOMEM, "make a standby");

        if (r == 0) {
                r = guest_add(ss->engine, s->plan.id, ss->engine->kinds[0], &g, err);
                if (r < 0)
                        plan_done(&s->plan);
        }
        if (r < 0) {
                free(s);
                return r;
        }
        s->guest = g;
        g->standby = s;
        ss->making = g;
        r = begin_making(g, err);
        if (r < 0) {
                ss->making = NULL;
                guest_end(g);
        }
        return r;
}

/* ------------------------------------------------------------- what is there, and what should be */

static unsigned count_of(const struct standbys *ss, const struct standby_want *want)
{
        unsigned n = 0;

        LIST_EACH (node, &ss->all)
                n += plan_begins_alike(&LIST_ENTRY(node, struct standby, node)->plan, &want->plan);
        return n;
}

static void drop_one_of(struct standbys *ss, const struct standby_want *want, const char *why)
{
        LIST_EACH (node, &ss->all) {
                struct standby *s = LIST_ENTRY(node, struct standby, node);

                if (plan_begins_alike(&s->plan, &want->plan)) {
                        standby_drop(s->guest, why);
                        return;
                }
        }
}

static void drop_unwanted(struct standbys *ss)
{
        if (ss->making && !find_want(ss, &ss->making->standby->plan))
                standby_drop(ss->making, "unwanted");
        LIST_EACH (node, &ss->all) {
                struct standby *s = LIST_ENTRY(node, struct standby, node);

                if (!find_want(ss, &s->plan))
                        standby_drop(s->guest, "unwanted");
        }
}

static bool has_room(const struct engine *e)
{
        return !e->kinds[0]->has_room || e->kinds[0]->has_room(e);
}

static bool may_make(const struct standbys *ss)
{
        return !ss->making && !ss->engine->checkpoints_why[0] && clock_mono_ms() >= ss->make_after_ms;
}

/* One step: make one, or drop one. */
static void take_step(struct standbys *ss)
{
        const struct standby_budget b = {ss->bytes, budget(ss->engine)};
        struct standby_state states[STANDBY_KINDS_MAX];
        struct standby_step step;
        struct err err = {0};

        for (size_t i = 0; i < ss->want_count; i++)
                states[i] = (struct standby_state){ss->wants[i].count, count_of(ss, &ss->wants[i]), ss->wants[i].bytes};
        step = standby_next(states, ss->want_count, &b);
        if (step.what == STANDBY_DROP) {
                drop_one_of(ss, &ss->wants[step.of], "budget");
                look_in(ss->engine, 0);
        } else if (step.what == STANDBY_MAKE && may_make(ss) && standby_make(ss, &ss->wants[step.of], &err) < 0)
                making_failed(ss, &err);
}

static void drop_all(struct standbys *ss, const char *why);

static void look(struct standbys *ss)
{
        struct engine *e = ss->engine;

        look_in(e, LOOK_MS);
        drop_unwanted(ss);
        if (!has_room(e))
                drop_all(ss, "slots");
        else if (warm_is_machine_full(e))
                drop_all(ss, "memory");
        else
                take_step(ss);
        if (ss->want_count == 0 && ss->count == 0 && !ss->making)
                timer_clear(&ss->look);
}

static void on_look(struct timer *t)
{
        look(CONTAINER_OF(t, struct standbys, look));
}

struct guest *standbys_find(struct engine *e, const struct plan_create *plan)
{
        struct standbys *ss = of(e);

        if (!ss || !find_want(ss, plan))
                return NULL;
        LIST_EACH (node, &ss->all) {
                struct standby *s = LIST_ENTRY(node, struct standby, node);

                if (plan_begins_alike(&s->plan, plan))
                        return s->guest;
        }
        return NULL;
}

void standbys_count(struct engine *e, const struct plan_create *plan, bool is_hit)
{
        struct standbys *ss = of(e);

        if (is_hit)
                ss->hits++;
        else if (ss && find_want(ss, plan))
                ss->misses++;
}

/* ------------------------------------------------------------- their memory, their files */

bool standbys_give_one(struct engine *e, const char *why)
{
        struct standbys *ss = of(e);

        if (!ss || list_is_empty(&ss->all))
                return false;
        standby_drop(LIST_ENTRY(ss->all.prev, struct standby, node)->guest, why);
        make_none_for(ss, SHORT_MS);
        return true;
}

static void drop_all(struct standbys *ss, const char *why)
{
        if (ss->making)
                standby_drop(ss->making, why);
        while (standbys_give_one(ss->engine, why))
                continue;
        make_none_for(ss, SHORT_MS);
}

void standbys_drop_like(struct engine *e, const struct plan_create *plan)
{
        struct standbys *ss = of(e);

        LIST_EACH (node, &ss->all) {
                struct standby *s = LIST_ENTRY(node, struct standby, node);

                if (plan_begins_alike(&s->plan, plan))
                        standby_drop(s->guest, "hand_over_failed");
        }
        make_none_for(ss, RETRY_MIN_MS);
}

static bool plan_uses(const struct plan_create *p, const char *name)
{
        bool is_used = strcmp(p->checkpoint, name) == 0;

        for (size_t i = 0; i < p->layer_count && !is_used; i++)
                is_used = strcmp(p->layers[i], name) == 0;
        return is_used;
}

static void want_done(struct standby_want *w)
{
        json_decref(w->message);
        plan_done(&w->plan);
        *w = (struct standby_want){0};
}

static void forget_wants_of(struct standbys *ss, const char *name)
{
        size_t n = 0;

        for (size_t i = 0; i < ss->want_count; i++)
                if (plan_uses(&ss->wants[i].plan, name))
                        want_done(&ss->wants[i]);
                else
                        ss->wants[n++] = ss->wants[i];
        for (size_t i = n; i < ss->want_count; i++)
                ss->wants[i] = (struct standby_want){0}; /* moved down */
        ss->want_count = n;
}

bool standbys_let_go_of(struct engine *e, const char *name)
{
        bool has_any = false;

        if (!of(e))
                return false;
        forget_wants_of(of(e), name);
        drop_unwanted(of(e));
        MAP_EACH (slot, &e->sandboxes) {
                const struct guest *g = slot->value;

                has_any = has_any || (g->standby && plan_uses(&g->standby->plan, name)) ||
                          (guest_is_standby(g) && !g->standby); /* of another engine: it is not known what it uses */
        }
        return has_any;
}

/* ------------------------------------------------------------- what control wants */

static int want_decode(const json_t *msg, unsigned count_max, struct standby_want *ret, struct err *err)
{
        json_t *plan = json_object_get(msg, "plan");
        const json_t *count = json_object_get(msg, "count");
        int r;

        if (!json_is_integer(count) || json_integer_value(count) < 0)
                return err_set(err, ERR_INVALID, "count: not a number");
        r = plan_decode_standby(plan, &ret->plan, err);
        if (r < 0)
                return err_wrap(err, "plan");
        ret->message = json_incref(plan);
        ret->count =
                json_integer_value(count) > (json_int_t)count_max ? count_max : (unsigned)json_integer_value(count);
        return 0;
}

static int wants_decode(const json_t *list, unsigned count_max, struct standby_want *out, size_t *ret, struct err *err)
{
        const json_t *v;
        size_t i;

        if (!json_is_array(list) || json_array_size(list) > STANDBY_KINDS_MAX)
                return err_set(err, ERR_INVALID, "wants: not a list of at most %u", STANDBY_KINDS_MAX);
        json_array_foreach (list, i, v) {
                int r = want_decode(v, count_max, &out[i], err);

                if (r < 0) {
                        while (i-- > 0)
                                want_done(&out[i]);
                        return err_wrap(err, "wants");
                }
        }
        *ret = i;
        return 0;
}

int standbys_want(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        struct standby_want wants[STANDBY_KINDS_MAX] = {0};
        struct standbys *ss = of(e);
        size_t count = 0;
        int r = wants_decode(json_object_get(msg, "wants"), e->conf->standbys, wants, &count, err);

        if (r < 0)
                return r;
        for (size_t i = 0; i < count; i++) {
                const struct standby_want *before = find_want(ss, &wants[i].plan);

                wants[i].bytes = before ? before->bytes : 0;
        }
        for (size_t i = 0; i < ss->want_count; i++)
                want_done(&ss->wants[i]);
        memcpy(ss->wants, wants, sizeof(wants));
        ss->want_count = count;
        drop_unwanted(ss);
        look_in(e, REFILL_MS);
        ask_ok(a, NULL, -1);
        return 0;
}

void standbys_describe(const struct engine *e, json_t *info)
{
        const struct standbys *ss = of(e);
        json_t *more =
                json_pack("{s:i,s:I,s:I,s:I}", "standbys", (int)ss->count, "standby_bytes", (json_int_t)ss->bytes,
                          "standby_hits", (json_int_t)ss->hits, "standby_misses", (json_int_t)ss->misses);

        (void)json_object_update(info, more);
        json_decref(more);
}

/* ------------------------------------------------------------- with the engine */

int standbys_start(struct engine *e, struct err *err)
{
        struct standbys *ss = calloc(1, sizeof(*ss));

        if (!ss)
                return err_sys(err, -ENOMEM, "start");
        ss->engine = e;
        list_init(&ss->all);
        ss->look.on = on_look;
        e->standbys = ss;
        return 0;
}

/* Its job process restores it: CRIU dies with the group, and the job process gives up.  One that has not made its directory yet is
 * about to. */
static void end_job(struct guest *g)
{
        if (guest_job_give_up(g))
                return;
        for (unsigned ms = 0; ms < STOP_MS; ms += STOP_STEP_MS) {
                AUTO_CLOSE int lock = job_lock(g->engine->sandboxes_dir, g->record.id);

                if (lock != -EWOULDBLOCK && lock != -ENOENT)
                        return;
                g->ops->kill(g);
                (void)poll(NULL, 0, STOP_STEP_MS); /* a lock has no event */
        }
}

void standbys_stop(struct engine *e)
{
        if (!of(e))
                return;
        of(e)->is_stopped = true;
        timer_clear(&of(e)->look);
        MAP_EACH (slot, &e->sandboxes) {
                struct guest *g = slot->value;

                if (guest_is_standby(g))
                        g->ops->kill(g);
        }
        MAP_EACH (slot, &e->sandboxes) {
                struct guest *g = slot->value;

                if (!guest_is_standby(g))
                        continue;
                if (g->job)
                        end_job(g);
                g->ops->kill(g);
                if (g->death.fd >= 0)
                        (void)sys_pidfd_wait(g->death.fd, (int)STOP_MS);
                g->ops->release(g);
                (void)disk_throw(&e->disk, DISK_SANDBOXES, g->record.id, NULL, NULL);
        }
}
