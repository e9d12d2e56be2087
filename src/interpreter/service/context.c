#include "interpreter/service/context.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "interpreter/jupyter/json_text.h"
#include "interpreter/service/context_impl.h"
#include "interpreter/service/contexts.h"
#include "interpreter/service/envs_fetch.h"
#include "interpreter/service/run.h"
#include "model/ids.h"

#define STARTS_MAX 3 /* a kernel that dies this often while it starts is given up */
/* A silent execution of ours that is not over after so many looks: the kernel hangs.  A pause of the sandbox counts as one
 * look, however long it was. */
#define HOUSEKEEPING_MS 1000
#define HOUSEKEEPING_LOOKS 30
#define SEND_AGAIN_MS 100
#define SENDS_MAX 30
#define ABORTS_MAX 20
#define PUT_BACKS_MAX 2    /* a run that was not sent waits for so many new kernels */
#define LATE_OUTPUT_MS 30  /* from the end to what some kernels publish after it */
#define OTHER_HALF_MS 3000 /* from the answer to idle without any output, or from idle to the answer */
#define INTERRUPT_MS 1000
#define INTERRUPTS_MAX 8
#define FENCE_MS 20 /* how often it is looked whether an interrupt was answered */
#define FENCE_MAX 100
#define STATEMENTS_MAX (48u << 20) /* quoted in a message, they are at most twice as much */
#define LONG_LIFE_MS 1000          /* a kernel that lived so long did start */

#define TO(s) (1u << (s))
#define TO_END (TO(CONTEXT_STARTING) | TO(CONTEXT_STOPPING) | TO(CONTEXT_REMOVING)) /* died, restarted, removed */
static const unsigned context_may[] = {
        [CONTEXT_STARTING] = TO(CONTEXT_STARTING) | TO(CONTEXT_IDLE) | TO(CONTEXT_BROKEN) | TO(CONTEXT_REMOVING),
        [CONTEXT_IDLE] = TO(CONTEXT_FETCHING) | TO(CONTEXT_PREPARING) | TO(CONTEXT_RUNNING) | TO_END,
        [CONTEXT_FETCHING] = TO(CONTEXT_PREPARING) | TO(CONTEXT_RUNNING) | TO(CONTEXT_IDLE) | TO_END,
        [CONTEXT_PREPARING] = TO(CONTEXT_RUNNING) | TO(CONTEXT_SETTLING) | TO(CONTEXT_IDLE) | TO_END,
        [CONTEXT_RUNNING] = TO(CONTEXT_ABANDONED) | TO(CONTEXT_SETTLING) | TO(CONTEXT_IDLE) | TO_END,
        [CONTEXT_ABANDONED] = TO(CONTEXT_SETTLING) | TO(CONTEXT_IDLE) | TO_END,
        [CONTEXT_SETTLING] = TO(CONTEXT_SETTLING) | TO(CONTEXT_IDLE) | TO_END,
        [CONTEXT_STOPPING] = TO(CONTEXT_STARTING) | TO(CONTEXT_REMOVING),
        [CONTEXT_BROKEN] = TO(CONTEXT_STARTING) | TO(CONTEXT_REMOVING),
        [CONTEXT_REMOVING] = 0,
};

static const struct kernel_events context_events;

static void context_go(struct context *c, enum context_state next) /* the only writer of c->state */
{
        assert(context_may[c->state] & TO(next));
        c->state = next;
        c->tries = 0;
        timer_clear(&c->timer);
}

static struct loop *loop_of(const struct context *c)
{
        return c->contexts->opt.loop;
}

/* ---- telling ---- */

static void tell_waiters(struct list *waiters, struct context *c, const char *failure)
{
        struct list *at;

        while ((at = list_pop_front(waiters))) {
                struct context_waiter *w = LIST_ENTRY(at, struct context_waiter, node);

                w->done(w, c, failure);
        }
}

static void fail_run(struct run *run, const char *name, const char *value)
{
        run_add_error(run, name, value);
        run_end(run);
}

/* The two errors of a run whose kernel was taken away from it, or never reached. */
static void fail_run_lost(struct run *run, const char *value)
{
        run_add_error(run, "WebSocketError", value);
        fail_run(run, "UnexpectedEndOfExecution",
                 "Connection to the execution was closed before the execution was finished");
}

#define LOST "The connections was lost, rerun the code to get the results"
#define NOT_SENT "Failed to send execution request"
#define RESTARTING "ContextRestarting", "Context was restarted"

static void fail_queue(struct context *c, const char *value)
{
        struct list *at;

        while ((at = list_pop_front(&c->queue)))
                fail_run_lost(LIST_ENTRY(at, struct run, node), value);
}

static void drop_current(struct context *c, const char *value)
{
        c->fetch = envs_fetch_cancel(c->fetch);
        if (c->run)
                fail_run_lost(TAKE_PTR(c->run), value);
}

/* ---- executing ---- */

static void context_advance(struct context *c);
static void context_settle(struct context *c);

static bool is_silent_state(const struct context *c)
{
        return c->state != CONTEXT_RUNNING && c->state != CONTEXT_ABANDONED;
}

/* The kernel takes no requests, or does not answer ours: it is killed, and its end does the rest.  The run is not put back:
 * the next kernel would hang as long. */
static void context_kill_kernel(struct context *c, const char *why)
{
        log_warn("context.kernel_hangs", "context=%s why=\"%s\"", c->id, why);
        if (c->run)
                fail_run(TAKE_PTR(c->run), RESTARTING);
        timer_clear(&c->timer);
        c->request[0] = 0;
        kernel_stop(c->kernel, true);
}

static void context_not_sent(struct context *c)
{
        if (c->run)
                fail_run_lost(TAKE_PTR(c->run), NOT_SENT);
        context_kill_kernel(c, "takes no requests");
}

/* Beyond ASCII, code grows when it becomes a message, and kernels have limits. */
static void context_too_large(struct context *c)
{
        kernel_hold_output(c->kernel, false);
        fail_run(TAKE_PTR(c->run), "CodeTooLarge", "The code is too large for a message to a kernel");
        context_settle(c);
}

/* Hand the execution of this state to the kernel: the run's code, or our statements. */
static void context_send(struct context *c)
{
        bool is_silent = is_silent_state(c);
        struct str code = is_silent ? (struct str){(const char *)buf_at(&c->statements), c->statements.len}
                                    : (struct str){c->run->code, c->run->code_len};
        int r = kernel_execute(c->kernel, code, is_silent, c->request);

        if (r == -EAGAIN && c->tries++ < SENDS_MAX) {
                timer_set(loop_of(c), &c->timer, SEND_AGAIN_MS);
                return;
        }
        if (r == -E2BIG && !is_silent) {
                context_too_large(c);
                return;
        }
        if (r < 0) {
                context_not_sent(c);
                return;
        }
        c->tries = 0;
        if (is_silent)
                timer_set(loop_of(c), &c->timer, HOUSEKEEPING_MS);
        else
                timer_clear(&c->timer);
}

/* The kernel has begun: the code may be large, and is not needed any more. */
static void context_forget_code(struct context *c)
{
        buf_done(&c->statements);
        if (c->run) {
                reservation_drop(&c->run->memory);
                free(c->run->code);
                c->run->code = NULL;
                c->run->code_len = 0;
        }
}

/* After an error or an interrupt a kernel may drop requests that have arrived meanwhile (IRkernel does, whatever was asked
 * for), and answers them as aborted.  The code of such a request did not run: it is sent again, unless the kernel goes on
 * like that.  An abort without such a reason is not trusted to mean that nothing ran: it is told, and never sent again. */
static bool context_send_again_if_aborted(struct context *c, const struct jupyter_message *answer)
{
        if (!str_is(json_text_get_raw(answer->content, "status"), "aborted") || !c->may_drop || c->has_begun ||
            c->state == CONTEXT_ABANDONED || c->aborts++ == ABORTS_MAX)
                return false;
        log_debug("context.aborted", "context=%s times=%u", c->id, c->aborts);
        c->request[0] = 0;
        c->has_idle = false;
        timer_set(loop_of(c), &c->timer, SEND_AGAIN_MS);
        return true;
}

static void context_note_answer(struct context *c, const struct jupyter_message *answer)
{
        c->may_drop = c->state == CONTEXT_ABANDONED || !str_is(json_text_get_raw(answer->content, "status"), "ok");
}

static void context_execute(struct context *c, enum context_state state)
{
        context_go(c, state);
        c->request[0] = 0;
        c->has_answer = c->has_idle = c->has_begun = c->waits_for_late = false;
        c->aborts = 0;
        context_send(c);
}

/* ---- one run ---- */

static void context_begin_code(struct context *c)
{
        if (!run_has_client(c->run)) { /* its code never runs */
                c->run = run_free(c->run);
                context_settle(c);
                return;
        }
        kernel_hold_output(c->kernel, run_is_full(c->run));
        context_execute(c, CONTEXT_RUNNING);
}

static void context_prepare(struct context *c)
{
        int r;

        buf_done(&c->statements);
        r = context_add_preparation(c, &c->statements);
        if (r < 0) {
                buf_done(&c->statements);
                log_warn("context.variables", "context=%s why=\"%s\"", c->id, strerror(-r));
        }
        if (c->statements.len)
                context_execute(c, CONTEXT_PREPARING);
        else
                context_begin_code(c);
}

static void context_fetched(json_t *variables, void *arg)
{
        struct context *c = arg;

        c->fetch = NULL;
        json_decref(c->fetched);
        c->fetched = variables;
        context_prepare(c);
}

static void context_begin_run(struct context *c)
{
        struct list *first = list_pop_front(&c->queue);

        c->run = LIST_ENTRY(first, struct run, node);
        c->failed_starts = 0;
        context_notice_copy(c);
        if (c->sandbox_variables || !c->dialect ||
            envs_fetch_start(loop_of(c), &c->contexts->opt.envd, str_of(c->run->token), context_fetched, c, &c->fetch) <
                    0)
                context_prepare(c);
        else
                context_go(c, CONTEXT_FETCHING);
}

/* After the run: first the execution that a late interrupt may hit, then the undo. */
static void context_settle(struct context *c)
{
        int r;

        buf_done(&c->statements);
        if (c->needs_fence) {
                (void)language_fence(c->dialect, &c->statements); /* without memory: the execution of nothing */
                context_execute(c, CONTEXT_SETTLING);
                return;
        }
        if (c->undo) {
                r = context_add_undo(c, &c->statements);
                if (r < 0)
                        log_warn("context.undo", "context=%s why=\"%s\"", c->id, strerror(-r));
                if (r == 0 && c->statements.len) {
                        context_execute(c, CONTEXT_SETTLING);
                        return;
                }
        }
        context_go(c, CONTEXT_IDLE);
        context_advance(c);
}

static void context_run_over(struct context *c)
{
        c->request[0] = 0;
        kernel_hold_output(c->kernel, false);
        if (c->run)
                run_end(TAKE_PTR(c->run));
        context_settle(c);
}

/* Jupyter lets threads of a kernel publish after idle.  What comes shortly after the end still belongs to the run. */
static void context_wait_for_late_output(struct context *c)
{
        if (c->waits_for_late)
                return;
        c->waits_for_late = true;
        timer_set(loop_of(c), &c->timer, LATE_OUTPUT_MS);
}

static void context_check_over(struct context *c)
{
        if (c->has_answer && (c->state == CONTEXT_ABANDONED || (c->has_idle && c->spec.idle_is_last)))
                context_run_over(c);
        else if (c->has_answer && c->has_idle)
                context_wait_for_late_output(c);
        else if (c->state == CONTEXT_RUNNING && (c->has_answer || c->has_idle))
                timer_set(loop_of(c), &c->timer, OTHER_HALF_MS);
}

/* ---- what the kernel says ---- */

static void context_on_output(const struct jupyter_message *m, void *arg)
{
        struct context *c = arg;

        if (is_silent_state(c) || !c->request[0] || !str_is(m->parent_id, c->request))
                return;
        if (str_is(m->type, "status")) {
                if (!str_is(json_text_get_raw(m->content, "execution_state"), "idle"))
                        return;
                c->has_idle = true;
        } else if (c->run) {
                c->has_begun = true;
                context_forget_code(c);
                run_add_output(c->run, m);
                if (run_is_full(c->run))
                        kernel_hold_output(c->kernel, true);
        }
        context_check_over(c);
}

static void context_silent_done(struct context *c, const struct jupyter_message *m)
{
        char text[LOG_ESCAPED_MAX];

        if (context_send_again_if_aborted(c, m))
                return;
        context_note_answer(c, m);
        c->request[0] = 0;
        timer_clear(&c->timer);
        if (!str_is(json_text_get_raw(m->content, "status"), "ok"))
                log_warn("context.statement", "context=%s name=%s", c->id,
                         log_escape(json_text_get_raw(m->content, "ename"), text));
        if (c->state == CONTEXT_PREPARING) {
                context_begin_code(c);
                return;
        }
        c->has_answer = true;
        c->tries = 0;
        if (c->needs_fence && !kernel_has_interrupted(c->kernel)) {
                timer_set(loop_of(c), &c->timer, FENCE_MS);
                return;
        }
        c->needs_fence = false;
        context_settle(c);
}

static void context_on_answer(const struct jupyter_message *m, void *arg)
{
        struct context *c = arg;

        if (!c->request[0] || !str_is(m->parent_id, c->request) || !str_is(m->type, "execute_reply"))
                return;
        if (is_silent_state(c)) {
                context_silent_done(c, m);
                return;
        }
        if (c->has_answer)
                return; /* twice */
        if (context_send_again_if_aborted(c, m))
                return;
        context_note_answer(c, m);
        context_forget_code(c);
        c->has_answer = true;
        if (c->run)
                run_add_answer(c->run, m);
        context_check_over(c);
}

static void context_on_too_large(void *arg)
{
        struct context *c = arg;
        char text[100];

        (void)snprintf(text, sizeof(text), "An output was dropped: it is larger than %u bytes",
                       c->contexts->opt.kernels->output_max);
        if (c->state == CONTEXT_RUNNING && c->run)
                run_add_error(c->run, "OutputTooLarge", text);
}

/* ---- time ---- */

static void context_interrupt(struct context *c)
{
        if (c->tries++ == INTERRUPTS_MAX) {
                context_kill_kernel(c, "still busy after interrupts");
                return;
        }
        c->needs_fence = c->may_drop = true;
        kernel_interrupt(c->kernel);
        timer_set(loop_of(c), &c->timer, INTERRUPT_MS);
}

/* Late output had its time; or half of the end of the run is missing: the answer, or that the kernel is idle. */
static void context_end_is_due(struct context *c)
{
        if (kernel_output_is_held(c->kernel)) { /* it may be among what was not read yet */
                timer_set(loop_of(c), &c->timer, c->waits_for_late ? LATE_OUTPUT_MS : OTHER_HALF_MS);
                return;
        }
        if (c->waits_for_late) {
                context_run_over(c);
                return;
        }
        log_warn("context.half_an_end", "context=%s missing=%s", c->id, c->has_answer ? "idle" : "answer");
        context_run_over(c);
}

static void context_on_timer(struct timer *t)
{
        struct context *c = CONTAINER_OF(t, struct context, timer);

        if (c->state == CONTEXT_ABANDONED && c->request[0]) {
                context_interrupt(c);
        } else if (c->state == CONTEXT_RUNNING && c->request[0]) {
                context_end_is_due(c);
        } else if (c->state == CONTEXT_SETTLING && c->has_answer) {
                if (!kernel_has_interrupted(c->kernel) && c->tries++ < FENCE_MAX) {
                        timer_set(loop_of(c), &c->timer, FENCE_MS);
                        return;
                }
                c->needs_fence = false;
                context_settle(c);
        } else if (!c->request[0]) {
                context_send(c);
        } else if (++c->tries < HOUSEKEEPING_LOOKS) {
                timer_set(loop_of(c), &c->timer, HOUSEKEEPING_MS);
        } else {
                context_kill_kernel(c, "does not answer a silent execution");
        }
}

/* ---- what clients do ---- */

static void context_client_gone(struct run *run)
{
        struct context *c = run->context;

        if (run != c->run) { /* it never ran */
                (void)run_free(run);
                return;
        }
        switch (c->state) {
        case CONTEXT_FETCHING:
                c->fetch = envs_fetch_cancel(c->fetch);
                c->run = run_free(c->run);
                context_go(c, CONTEXT_IDLE);
                context_advance(c);
                break;
        case CONTEXT_RUNNING:
                kernel_hold_output(c->kernel, false);
                if (!c->request[0]) { /* not sent yet */
                        c->run = run_free(c->run);
                        context_settle(c);
                        break;
                }
                c->run = run_free(c->run);
                if (c->has_answer) {
                        context_run_over(c);
                        break;
                }
                context_go(c, CONTEXT_ABANDONED);
                context_interrupt(c);
                break;
        default: break; /* PREPARING: the code is not run when that is done */
        }
}

static void context_client_drained(struct run *run)
{
        struct context *c = run->context;

        if (run == c->run && c->state == CONTEXT_RUNNING)
                kernel_hold_output(c->kernel, false);
}

void context_add_run(struct context *c, struct run *run)
{
        run->context = c;
        run->on_gone = context_client_gone;
        run->on_drain = context_client_drained;
        list_push_back(&c->queue, &run->node);
        context_advance(c);
}

void context_wait(struct context *c, struct context_waiter *w)
{
        list_push_back(&c->waiters, &w->node);
}

/* ---- start ---- */

static void context_release(struct task *t)
{
        context_free(CONTAINER_OF(t, struct context, release));
}

static void context_gone(struct context *c)
{
        if (c->state != CONTEXT_REMOVING)
                context_go(c, CONTEXT_REMOVING);
        tell_waiters(&c->waiters, NULL, "the context was removed");
        tell_waiters(&c->removers, NULL, NULL);
        loop_post(loop_of(c), &c->release);
}

static void context_start_failed(struct context *c, const char *why)
{
        char text[LOG_ESCAPED_MAX];

        log_warn("context.failed", "context=%s language=%s why=\"%s\"", c->id, c->language,
                 log_escape(str_of(why), text));
        tell_waiters(&c->waiters, NULL, why);
        if (!c->is_created) {
                context_gone(c);
                return;
        }
        context_go(c, CONTEXT_BROKEN);
        c->failed_starts = 0;
        fail_queue(c, NOT_SENT);
}

static void context_start_kernel(struct context *c)
{
        struct err err = {0};

        context_go(c, CONTEXT_STARTING);
        if (kernel_start(c->contexts->opt.kernels, &c->spec, c->directory, &context_events, c, &c->kernel, &err) < 0)
                context_start_failed(c, err.msg);
}

static void context_on_ready(void *arg)
{
        struct context *c = arg;

        context_forget_variables(c);
        c->is_created = true;
        c->ready_ms = clock_mono_ms();
        context_go(c, CONTEXT_IDLE);
        tell_waiters(&c->waiters, c, NULL);
        context_advance(c);
}

static bool has_sent_code(const struct context *c)
{
        return c->request[0] && (c->state == CONTEXT_RUNNING || c->state == CONTEXT_ABANDONED);
}

/* A run whose code was not sent is the first for the next kernel, unless kernels die at its preparation again and again. */
static void context_kernel_left_run(struct context *c, bool had_code)
{
        if (!c->run)
                return;
        if (!run_has_client(c->run))
                c->run = run_free(c->run);
        else if (had_code || c->run->put_backs++ == PUT_BACKS_MAX)
                fail_run(TAKE_PTR(c->run), RESTARTING);
        else
                list_push_front(&c->queue, &TAKE_PTR(c->run)->node);
}

static void context_on_end(const char *why, bool was_ready, bool is_slow, void *arg)
{
        struct context *c = arg;
        bool had_code = has_sent_code(c);

        c->kernel = NULL;
        c->request[0] = 0;
        buf_done(&c->statements);
        switch (c->state) {
        case CONTEXT_REMOVING: context_gone(c); return;
        case CONTEXT_STOPPING: context_start_kernel(c); return;
        default: break;
        }
        c->fetch = envs_fetch_cancel(c->fetch);
        if (was_ready && clock_mono_ms() - c->ready_ms >= LONG_LIFE_MS)
                c->failed_starts = 0;
        context_kernel_left_run(c, had_code);
        if (c->state == CONTEXT_STARTING && (is_slow || ++c->failed_starts >= STARTS_MAX))
                context_start_failed(c, why);
        else if (c->state == CONTEXT_IDLE && ++c->failed_starts > STARTS_MAX) { /* dies as soon as it is there */
                context_go(c, CONTEXT_STARTING);
                context_start_failed(c, why);
        } else
                context_start_kernel(c);
}

static const struct kernel_events context_events = {
        .on_ready = context_on_ready,
        .on_output = context_on_output,
        .on_answer = context_on_answer,
        .on_too_large = context_on_too_large,
        .on_end = context_on_end,
};

/* What can be done now is done. */
static void context_advance(struct context *c)
{
        if (list_is_empty(&c->queue))
                return;
        if (c->state == CONTEXT_IDLE)
                context_begin_run(c);
        else if (c->state == CONTEXT_BROKEN)
                context_start_kernel(c);
}

/* ---- restart and removal ---- */

static bool is_busy(const struct context *c)
{
        return c->state != CONTEXT_IDLE;
}

void context_restart(struct context *c, struct context_waiter *w)
{
        bool by_force = is_busy(c);

        context_wait(c, w);
        if (c->state == CONTEXT_STARTING || c->state == CONTEXT_STOPPING)
                return;
        if (c->state == CONTEXT_BROKEN) {
                context_start_kernel(c);
                return;
        }
        drop_current(c, LOST);
        context_go(c, CONTEXT_STOPPING);
        c->failed_starts = 0;
        c->request[0] = 0;
        kernel_stop(c->kernel, by_force);
}

void context_remove(struct context *c, struct context_waiter *w)
{
        bool by_force = is_busy(c);

        if (w)
                list_push_back(&c->removers, &w->node);
        if (c->state == CONTEXT_REMOVING)
                return;
        drop_current(c, LOST);
        fail_queue(c, LOST);
        context_go(c, CONTEXT_REMOVING);
        c->request[0] = 0;
        if (c->kernel)
                kernel_stop(c->kernel, by_force);
        else
                context_gone(c);
}

/* ---- life ---- */

void context_free(struct context *c)
{
        timer_clear(&c->timer);
        loop_unpost(&c->release);
        c->fetch = envs_fetch_cancel(c->fetch);
        c->run = run_free(c->run);
        LIST_EACH (at, &c->queue)
                (void)run_free(LIST_ENTRY(at, struct run, node));
        json_decref(c->fetched);
        json_decref(c->sandbox_variables);
        json_decref(c->former_variables);
        json_decref(c->undo);
        buf_done(&c->statements);
        kernelspec_done(&c->spec);
        free(c->language);
        free(c->cwd);
        free(c->directory);
        list_remove(&c->node);
        c->contexts->count--;
        free(c);
}

static char *absolute_directory(const char *cwd, const char *home)
{
        char *path = NULL;

        if (cwd[0] == '/')
                return strdup(cwd);
        return asprintf(&path, "%s/%s", home, cwd) < 0 ? NULL : path;
}

static bool is_directory(const char *path)
{
        struct stat st;

        return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static struct context *context_alloc(struct contexts *cs, const char *language, const char *cwd)
{
        struct context *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->contexts = cs;
        c->timer.on = context_on_timer;
        c->release.run = context_release;
        c->statements = BUF_INIT(STATEMENTS_MAX);
        list_init(&c->waiters);
        list_init(&c->removers);
        list_init(&c->queue);
        uuid_make(c->id);
        list_push_back(&cs->all, &c->node);
        cs->count++;
        c->language = strdup(language);
        c->cwd = strdup(cwd);
        c->directory = absolute_directory(cwd, cs->opt.home);
        if (c->language && c->cwd && c->directory)
                return c;
        context_free(c);
        return NULL;
}

static int context_begin(struct context *c, bool *ret_bad_directory, struct err *err)
{
        const struct contexts_options *opt = &c->contexts->opt;
        int r = kernelspec_find(opt->kernel_dirs, language_kernel(c->language), &c->spec, err);

        if (r < 0)
                return r;
        c->dialect = language_find(c->spec.language[0] ? c->spec.language : c->language);
        if (!is_directory(c->directory) && !c->is_default && !language_ignores_missing_directory(c->dialect)) {
                *ret_bad_directory = true;
                return err_set(err, ERR_INVALID, "no such directory");
        }
        r = kernel_start(opt->kernels, &c->spec, c->directory, &context_events, c, &c->kernel, err);
        return r;
}

int context_create(struct contexts *cs, const char *language, const char *cwd, bool is_default, struct context **ret,
                   bool *ret_bad_directory, struct err *err)
{
        struct context *c;
        int r;

        *ret_bad_directory = false;
        if (cs->count >= CONTEXTS_MAX)
                return err_set(err, ERR_LIMIT, "there are %d contexts already", CONTEXTS_MAX);
        c = context_alloc(cs, language, cwd);
        if (!c)
                return err_sys(err, -ENOMEM, "context");
        c->is_default = is_default;
        r = context_begin(c, ret_bad_directory, err);
        if (r < 0) {
                context_free(c);
                return r;
        }
        *ret = c;
        return 0;
}
