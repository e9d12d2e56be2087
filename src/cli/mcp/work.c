#include "cli/mcp/work.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "cli/mcp/platform.h"
#include "io/loop.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/shorten.h"

#define STACK_BYTES (512u << 10)
#define UNDO_TIMEOUT_MS 15000u
#define KILL_MS 15000u

struct workers {
        struct platform *platform;
        struct io wake; /* an eventfd: `done` or `news` has something */
        pthread_t threads[WORKERS_MAX];
        unsigned thread_count;
        pthread_mutex_t lock; /* for all that follows, and for what a job says is locked */
        pthread_cond_t more;
        unsigned idle_count, long_count;
        struct list queued, running, done; /* struct job, by node */
        struct list news;                  /* struct job, by news_node */
        bool is_over;
};

struct job {
        struct work work;
        struct workers *workers;
        work_fn *run;
        bool is_long;
        struct call *call; /* of the loop; NULL: cancelled */
        struct list node, news_node;
        struct buf told;   /* of the thread: progress that was not handed over yet */
        struct buf pieces; /* locked: progress for the client */
};

static struct job *job_of(struct work *w)
{
        return CONTAINER_OF(w, struct job, work);
}

static void job_free(struct job *j)
{
        json_decref((json_t *)(uintptr_t)j->work.args);
        json_decref(j->work.made);
        json_decref(j->work.result);
        free(j->work.killed);
        sg_cancel_free(j->work.wait.cancel);
        buf_done(&j->told);
        buf_done(&j->pieces);
        free(j);
}

static void wake_loop(struct workers *ws)
{
        const uint64_t one = 1;

        (void)!write(ws->wake.fd, &one, sizeof(one)); /* the counter cannot overflow */
}

/* ---- in a thread ---- */

static void add_newest(struct buf *b, struct str piece)
{
        if (piece.n > PROGRESS_BYTES)
                piece = (struct str){piece.p + piece.n - PROGRESS_BYTES, PROGRESS_BYTES};
        if (piece.n > buf_room(b))
                buf_consume(b, piece.n - buf_room(b));
        (void)buf_add(b, piece.p, piece.n);
}

void work_progress(struct work *w, struct str text)
{
        add_newest(&job_of(w)->told, text);
}

static void on_tick(void *arg)
{
        struct job *j = arg;
        struct workers *ws = j->workers;

        if (j->told.len == 0)
                return;
        (void)pthread_mutex_lock(&ws->lock);
        add_newest(&j->pieces, (struct str){(const char *)buf_at(&j->told), j->told.len});
        if (!list_is_hooked(&j->news_node))
                list_push_back(&ws->news, &j->news_node);
        (void)pthread_mutex_unlock(&ws->lock);
        buf_reset(&j->told);
        wake_loop(ws);
}

/* To the command and all that it has started: a signal of the API reaches only the command itself.  Other servers may not make
 * groups; there it is the API's signal. */
int work_signal_all(struct sg_sandbox *box, uint32_t pid, int number, struct sg_error *err)
{
        const struct sg_call wait = {.timeout_ms = KILL_MS};
        const struct sg_command_options opt = {.user = "root", .timeout_ms = KILL_MS};
        struct sg_result *went = NULL;
        char script[64];
        int r;

        (void)snprintf(script, sizeof(script), "kill -%d -- -%u", number, pid);
        r = sg_run(box, script, &opt, &wait, &went, NULL);
        if (r == 0 && went->exit_code != 0)
                r = -ESRCH;
        sg_free(went);
        return r == 0 ? 0 : sg_process_signal(box, pid, number, &wait, err);
}

static void undo_command(struct work *w)
{
        const struct sg_call wait = {.timeout_ms = UNDO_TIMEOUT_MS};
        struct sg_sandbox *box = NULL;
        struct sg_error err;

        if (sg_sandbox_open(w->platform->client, work_id(w), &wait, &box, &err) < 0 ||
            work_signal_all(box, w->pid, SIGKILL, &err) < 0)
                if (err.kind != SG_NOT_FOUND)
                        log_warn("mcp.undo", "sandbox=%s pid=%u why=\"%s\"", work_id(w), w->pid, err.message);
        sg_sandbox_free(box);
}

static bool has_made(const struct work *w)
{
        return w->made || w->pid;
}

static void undo(struct work *w)
{
        const struct sg_call wait = {.timeout_ms = UNDO_TIMEOUT_MS};
        struct sg_error err;
        json_t *id;
        size_t i;

        json_array_foreach (w->made, i, id) {
                if (sg_sandbox_kill(w->platform->client, json_string_value(id), &wait, &err) < 0 &&
                    err.kind != SG_NOT_FOUND)
                        log_warn("mcp.undo", "sandbox=%s why=\"%s\"", json_string_value(id), err.message);
        }
        if (w->pid)
                undo_command(w);
}

static void run_job(struct job *j)
{
        j->run(&j->work);
        on_tick(j);
}

/* The first job that may run now; NULL: none. */
static struct job *next_job(struct workers *ws)
{
        LIST_EACH (at, &ws->queued) {
                struct job *j = LIST_ENTRY(at, struct job, node);

                if (j->is_long && ws->long_count >= WORKERS_LONG_MAX)
                        continue;
                list_remove(&j->node);
                ws->long_count += j->is_long;
                return j;
        }
        return NULL;
}

static void *worker_thread(void *arg)
{
        struct workers *ws = arg;

        (void)pthread_mutex_lock(&ws->lock);
        while (!ws->is_over) {
                struct job *j = next_job(ws);

                if (!j) {
                        ws->idle_count++;
                        (void)pthread_cond_wait(&ws->more, &ws->lock);
                        ws->idle_count--;
                        continue;
                }
                list_push_back(&ws->running, &j->node);
                (void)pthread_mutex_unlock(&ws->lock);
                run_job(j);
                (void)pthread_mutex_lock(&ws->lock);
                ws->long_count -= j->is_long;
                list_remove(&j->node);
                list_push_back(&ws->done, &j->node);
                wake_loop(ws);
        }
        (void)pthread_mutex_unlock(&ws->lock);
        return NULL;
}

/* ---- results ---- */

static void set_result(struct work *w, json_t *result)
{
        json_decref(w->result);
        w->result = result;
}

void work_text(struct work *w, struct str text, json_t *structured)
{
        set_result(w, tool_result(json_pack("[o]", tool_text_content(text)), structured, false));
}

void work_textf(struct work *w, json_t *structured, const char *fmt, ...)
{
        char text[2048];
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        work_text(w, str_of(text), structured);
}

void work_failed(struct work *w, const char *fmt, ...)
{
        char text[2048];
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        set_result(w, tool_result(json_pack("[o]", tool_text_content(str_of(text))), NULL, true));
}

/* Requests to a paused sandbox fail in several ways; the model needs to know this one. */
static bool is_paused(struct work *w)
{
        const struct sg_call wait = {.timeout_ms = UNDO_TIMEOUT_MS, .cancel = w->wait.cancel};
        struct sg_info *info = NULL;
        bool is = work_id(w)[0] && sg_sandbox_get(w->platform->client, work_id(w), &wait, &info, NULL) == 0 &&
                  info->state == SG_STATE_PAUSED;

        sg_free(info);
        return is;
}

void work_error(struct work *w, const struct sg_error *err)
{
        if (err->kind == SG_UNAVAILABLE || err->kind == SG_CONFLICT || err->kind == SG_NOT_FOUND) {
                if (is_paused(w)) {
                        work_failed(w, "%s. The sandbox is paused: resume_sandbox lets it run again.", err->message);
                        return;
                }
        }
        if (err->kind == SG_UNAVAILABLE)
                work_failed(w, "%s. Trying again later may help.", err->message);
        else if (err->retry_after_s)
                work_failed(w, "%s. Try again in %u s.", err->message, err->retry_after_s);
        else
                work_failed(w, "%s", err->message);
}

const char *work_id(const struct work *w)
{
        return arg_text(w->args, "sandbox_id", "");
}

struct sg_sandbox *work_open(struct work *w)
{
        struct sg_sandbox *box = NULL;
        struct sg_error err;

        if (sg_sandbox_open(w->platform->client, work_id(w), &w->wait, &box, &err) == 0)
                return box;
        if (err.kind == SG_NOT_FOUND)
                work_failed(w, "There is no sandbox %s: list_sandboxes shows those that there are.", work_id(w));
        else
                work_error(w, &err);
        return NULL;
}

void work_add_made(struct work *w, const char *id)
{
        if (!w->made)
                w->made = json_array();
        (void)json_array_append_new(w->made, json_string(id));
}

double work_seconds(const struct work *w)
{
        return (double)(clock_mono_us() - w->begun_us) / 1e6;
}

/* ---- in the loop ---- */

static void note_sandboxes(struct platform *p, const struct work *w)
{
        json_t *id;
        size_t i;

        json_array_foreach (w->made, i, id) {
                (void)json_object_set_new(p->made, json_string_value(id), json_true());
        }
        if (w->killed)
                (void)json_object_del(p->made, w->killed);
}

static int enqueue(struct workers *ws, struct job *j);

/* Nobody will use what a cancelled work has made.  True: the job goes on to undo it. */
static bool undo_later(struct workers *ws, struct job *j)
{
        if (j->call || !has_made(&j->work) || j->run == undo)
                return false;
        j->run = undo;
        j->is_long = false;
        return enqueue(ws, j) == 0;
}

static void job_done(struct workers *ws, struct job *j)
{
        struct call *c = j->call;

        if (undo_later(ws, j))
                return;
        if (j->run != undo)
                note_sandboxes(ws->platform, &j->work);
        if (c) {
                c->on_cancel = NULL;
                call_result(c, TAKE_PTR(j->work.result));
        }
        job_free(j);
}

static void tell_progress(struct workers *ws, struct job *j)
{
        AUTO_BUF struct buf text = BUF_INIT(4 * PROGRESS_BYTES);

        (void)pthread_mutex_lock(&ws->lock);
        if (j->pieces.len)
                (void)text_clean((struct str){(const char *)buf_at(&j->pieces), j->pieces.len}, &text);
        buf_reset(&j->pieces);
        (void)pthread_mutex_unlock(&ws->lock);
        if (j->call && text.len)
                call_progress(j->call, 1, buf_cstr(&text));
}

static struct job *take(struct workers *ws, struct list *from)
{
        struct list *node;

        (void)pthread_mutex_lock(&ws->lock);
        node = list_pop_front(from);
        (void)pthread_mutex_unlock(&ws->lock);
        if (!node)
                return NULL;
        return from == &ws->news ? LIST_ENTRY(node, struct job, news_node) : LIST_ENTRY(node, struct job, node);
}

static void on_wake(struct io *io, uint32_t events)
{
        struct workers *ws = CONTAINER_OF(io, struct workers, wake);
        struct job *j;
        uint64_t n;

        (void)events;
        (void)!read(io->fd, &n, sizeof(n));
        while ((j = take(ws, &ws->news)))
                tell_progress(ws, j);
        while ((j = take(ws, &ws->done))) {
                (void)pthread_mutex_lock(&ws->lock);
                list_remove(&j->news_node); /* its last words may have come meanwhile */
                (void)pthread_mutex_unlock(&ws->lock);
                tell_progress(ws, j);
                job_done(ws, j);
        }
}

static void on_cancel(struct call *c)
{
        struct job *j = c->user;
        struct workers *ws = j->workers;
        bool is_queued = false;

        j->call = NULL;
        (void)pthread_mutex_lock(&ws->lock);
        LIST_EACH (at, &ws->queued)
                is_queued = is_queued || at == &j->node;
        if (is_queued)
                list_remove(&j->node);
        (void)pthread_mutex_unlock(&ws->lock);
        if (is_queued)
                job_free(j);
        else
                sg_cancel_now(j->work.wait.cancel);
        call_result(c, json_object());
}

/* A thread takes no signals: they are the loop's. */
static int start_thread(struct workers *ws)
{
        pthread_attr_t attr;
        sigset_t all, before;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_attr_init(&attr);
        if (r == 0) {
                (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
                r = pthread_create(&ws->threads[ws->thread_count], &attr, worker_thread, ws);
                (void)pthread_attr_destroy(&attr);
        }
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (r == 0)
                ws->thread_count++;
        return -r;
}

/* 0, or negative: there is no thread at all, and the job was not taken. */
static int enqueue(struct workers *ws, struct job *j)
{
        unsigned waiting = 0, idle;
        int r = 0;

        (void)pthread_mutex_lock(&ws->lock);
        LIST_EACH (at, &ws->queued)
                waiting++;
        idle = ws->idle_count;
        (void)pthread_mutex_unlock(&ws->lock);
        if (waiting >= idle && ws->thread_count < WORKERS_MAX)
                r = start_thread(ws);
        if (r < 0 && ws->thread_count == 0)
                return r;
        (void)pthread_mutex_lock(&ws->lock);
        list_push_back(&ws->queued, &j->node);
        (void)pthread_cond_signal(&ws->more);
        (void)pthread_mutex_unlock(&ws->lock);
        return 0;
}

static struct job *job_create(struct workers *ws, struct call *c, json_t *args)
{
        const struct platform_tool *tool = CONTAINER_OF(c->tool, const struct platform_tool, tool);
        struct job *j = calloc(1, sizeof(*j));

        if (!j)
                return NULL;
        j->workers = ws;
        j->run = tool->work;
        j->is_long = tool->is_long || arg_number(args, "wait_s", 0) > 0;
        j->call = c;
        j->work.platform = ws->platform;
        j->work.args = json_deep_copy(args);
        j->work.begun_us = c->begun_us;
        buf_init(&j->told, PROGRESS_BYTES);
        buf_init(&j->pieces, PROGRESS_BYTES);
        if (!j->work.args || sg_cancel_create(&j->work.wait.cancel, NULL) < 0) {
                job_free(j);
                return NULL;
        }
        j->work.wait.on_tick = on_tick;
        j->work.wait.tick_arg = j;
        j->work.wait.tick_ms = PROGRESS_MS;
        return j;
}

void work_start(struct call *c, json_t *args)
{
        struct platform *p = c->mcp->user;
        struct job *j = job_create(p->workers, c, args);

        if (!j || enqueue(p->workers, j) < 0) {
                if (j)
                        job_free(j);
                tool_failed(c, "out of memory");
                return;
        }
        c->user = j;
        c->on_cancel = on_cancel;
}

/* ---- life ---- */

int workers_create(struct loop *loop, struct platform *p, struct workers **ret, struct err *err)
{
        struct workers *ws = calloc(1, sizeof(*ws));
        int r;

        if (!ws)
                return err_sys(err, -ENOMEM, "start");
        ws->platform = p;
        ws->wake = (struct io){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .on = on_wake};
        (void)pthread_mutex_init(&ws->lock, NULL);
        (void)pthread_cond_init(&ws->more, NULL);
        list_init(&ws->queued);
        list_init(&ws->running);
        list_init(&ws->done);
        list_init(&ws->news);
        r = ws->wake.fd < 0 ? -errno : loop_add(loop, &ws->wake, EPOLLIN);
        if (r < 0) {
                workers_free(ws);
                return err_sys(err, r, "start");
        }
        *ret = ws;
        return 0;
}

/* A job whose call was never answered: the client is gone. */
static void settle(struct workers *ws, struct job *j)
{
        bool is_to_undo = j->work.pid || (j->work.made && !ws->platform->kills_on_exit);

        if (is_to_undo && j->run != undo && !j->call)
                undo(&j->work);
        else if (j->run != undo)
                note_sandboxes(ws->platform, &j->work);
        job_free(j);
}

struct workers *workers_free(struct workers *ws)
{
        struct list *node;

        if (!ws)
                return NULL;
        (void)pthread_mutex_lock(&ws->lock);
        ws->is_over = true;
        LIST_EACH (at, &ws->running) {
                struct job *j = LIST_ENTRY(at, struct job, node);

                if (j->run != undo)
                        sg_cancel_now(j->work.wait.cancel);
        }
        (void)pthread_cond_broadcast(&ws->more);
        (void)pthread_mutex_unlock(&ws->lock);
        for (unsigned i = 0; i < ws->thread_count; i++)
                (void)pthread_join(ws->threads[i], NULL);
        while ((node = list_pop_front(&ws->queued))) {
                struct job *j = LIST_ENTRY(node, struct job, node);

                if (j->run == undo)
                        undo(&j->work);
                job_free(j);
        }
        while ((node = list_pop_front(&ws->done)))
                settle(ws, LIST_ENTRY(node, struct job, node));
        loop_del(&ws->wake);
        close_fd(&ws->wake.fd);
        (void)pthread_cond_destroy(&ws->more);
        (void)pthread_mutex_destroy(&ws->lock);
        free(ws);
        return NULL;
}
