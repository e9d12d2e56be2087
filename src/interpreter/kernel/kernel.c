#include "interpreter/kernel/kernel.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "interpreter/jupyter/kernelspec.h"
#include "interpreter/kernel/kernel_process.h"
#include "interpreter/kernel/kernel_socket.h"

#define NUDGE_MS 20        /* how often a starting kernel is tried */
#define NUDGE_AGAIN_MS 500 /* an unanswered request is sent again after this long */
#define POLITE_MS 2000     /* from a shutdown request to SIGKILL */
#define LOOK_MS_MAX 500
#define LAST_WORDS_MS 200        /* without output, after the process has ended: then all of its output has come */
#define CONTENT_MAX (120u << 20) /* of a request: kernels of ours take 128 MiB */
#define WHY_MAX (KERNEL_TAIL_BYTES + 200)

enum kernel_state { KERNEL_STARTING, KERNEL_READY, KERNEL_GONE /* its process; output may come */, KERNEL_STOPPING };

struct kernel {
        struct list node; /* in kernels.all */
        struct kernels *kernels;
        enum kernel_state state;
        struct kernel_process process;
        struct kernel_socket *shell, *control, *output; /* NULL once it stops */
        char key[KERNEL_ID_MAX], session[KERNEL_ID_MAX];
        const struct kernel_events *events;
        void *arg;
        struct timer timer; /* starting: the next try; stopping: force */
        uint64_t started_ms, nudged_ms, looked_ms;
        uint64_t waited_ms; /* for its start; a pause of the sandbox in between counts as LOOK_MS_MAX */
        bool has_answered, has_published, was_ready, is_slow, interrupts_by_message;
        unsigned interrupts_open; /* requests that the kernel has not answered */
        struct task end;          /* posted when its process is gone, and its last output was heard */
        int exit_status;          /* as waitpid() says */
};

static void id_make(char out[KERNEL_ID_MAX])
{
        uint8_t bytes[(KERNEL_ID_MAX - 1) / 2];

        random_bytes(bytes, sizeof(bytes));
        hex_encode(bytes, sizeof(bytes), out);
}

/* ---- requests ---- */

static int kernel_send(struct kernel *k, struct kernel_socket *to, const char *type, struct str content,
                       char ret_id[KERNEL_ID_MAX])
{
        struct jupyter_frames frames;
        char id[KERNEL_ID_MAX];
        int r;

        if (!to)
                return -ENOTCONN;
        id_make(id);
        r = jupyter_encode(&(struct jupyter_request){.type = type, .id = id, .session = k->session, .content = content},
                           str_of(k->key), &frames);
        if (r < 0)
                return r;
        r = kernel_socket_send(to, frames.at, JUPYTER_FRAMES_SENT);
        jupyter_frames_done(&frames);
        if (r == 0 && ret_id)
                memcpy(ret_id, id, sizeof(id));
        return r;
}

int kernel_execute(struct kernel *k, struct str code, bool is_silent, char ret_id[KERNEL_ID_MAX])
{
        AUTO_BUF struct buf content = BUF_INIT(CONTENT_MAX);
        int r;

        if (k->state == KERNEL_GONE) /* libzmq may not know it yet, and would take what nobody reads */
                return -EAGAIN;
        r = jupyter_execute_content(code, is_silent, &content);
        if (r < 0)
                return r;
        return kernel_send(k, k->shell, "execute_request", (struct str){(const char *)buf_at(&content), content.len},
                           ret_id);
}

void kernel_interrupt(struct kernel *k)
{
        if (!k->interrupts_by_message)
                kernel_process_signal(&k->process, SIGINT);
        else if (kernel_send(k, k->control, "interrupt_request", STR("{}"), NULL) == 0)
                k->interrupts_open++;
}

bool kernel_has_interrupted(const struct kernel *k)
{
        return k->interrupts_open == 0;
}

void kernel_hold_output(struct kernel *k, bool is_held)
{
        if (k->output)
                kernel_socket_hold(k->output, is_held);
}

bool kernel_output_is_held(const struct kernel *k)
{
        return k->output && kernel_socket_is_held(k->output);
}

/* ---- messages ---- */

static bool kernel_decode(struct kernel *k, const struct str *frames, size_t count, struct jupyter_message *ret)
{
        int r = jupyter_decode(frames, count, str_of(k->key), ret);

        if (r < 0)
                log_warn("kernel.message", "pid=%d why=\"%s\"", (int)k->process.pid,
                         r == -EACCES ? "wrong signature" : "malformed");
        return r == 0;
}

static void kernel_check_ready(struct kernel *k)
{
        if (k->state != KERNEL_STARTING || !k->has_answered || !k->has_published)
                return;
        k->state = KERNEL_READY;
        k->was_ready = true;
        timer_clear(&k->timer);
        log_info("kernel.ready", "pid=%d ms=%llu", (int)k->process.pid,
                 (unsigned long long)(clock_mono_ms() - k->started_ms));
        k->events->on_ready(k->arg);
}

static void kernel_on_shell(const struct str *frames, size_t count, void *arg)
{
        struct kernel *k = arg;
        struct jupyter_message m;

        if (!kernel_decode(k, frames, count, &m))
                return;
        if (k->state == KERNEL_STARTING) {
                k->has_answered |= str_is(m.type, "kernel_info_reply");
                kernel_check_ready(k);
        } else {
                k->events->on_answer(&m, k->arg);
        }
}

static void kernel_on_control(const struct str *frames, size_t count, void *arg)
{
        struct kernel *k = arg;
        struct jupyter_message m;

        if (kernel_decode(k, frames, count, &m) && str_is(m.type, "interrupt_reply") && k->interrupts_open)
                k->interrupts_open--;
}

static void kernel_on_feed(const struct str *frames, size_t count, void *arg)
{
        struct kernel *k = arg;
        struct jupyter_message m;

        if (!kernel_decode(k, frames, count, &m))
                return;
        if (k->state == KERNEL_STARTING) {
                k->has_published = true;
                kernel_check_ready(k);
        } else {
                if (k->state == KERNEL_GONE)
                        timer_set(k->kernels->loop, &k->timer, LAST_WORDS_MS);
                k->events->on_output(&m, k->arg);
        }
}

static void kernel_on_too_large(size_t bytes, void *arg)
{
        struct kernel *k = arg;

        log_warn("kernel.message", "pid=%d why=\"too large\" bytes=%zu", (int)k->process.pid, bytes);
        k->events->on_too_large(k->arg);
}

static void ignore_too_large(size_t bytes, void *arg)
{
        (void)bytes;
        (void)arg;
}

/* ---- start ---- */

static int kernel_open_socket(struct kernel *k, uint16_t port, void (*on)(const struct str *, size_t, void *),
                              struct kernel_socket **ret)
{
        bool is_feed = on == kernel_on_feed;

        return kernel_socket_create(
                &(struct kernel_socket_options){.threads = k->kernels->threads,
                                                .loop = k->kernels->loop,
                                                .kind = is_feed ? KERNEL_SOCKET_FEED : KERNEL_SOCKET_REQUESTS,
                                                .port = port,
                                                .bytes_max = k->kernels->output_max,
                                                .identity = k->session,
                                                .on_message = on,
                                                .on_too_large = is_feed ? kernel_on_too_large : ignore_too_large,
                                                .arg = k},
                ret);
}

/* Requests are sent until the kernel has answered one and was heard on its output channel too: what a kernel publishes
 * before our subscription reached it is lost. */
static void kernel_nudge(struct kernel *k)
{
        uint64_t now = clock_mono_ms();

        k->waited_ms += now - k->looked_ms < LOOK_MS_MAX ? now - k->looked_ms : LOOK_MS_MAX;
        k->looked_ms = now;
        if (k->waited_ms > k->kernels->start_ms_max) {
                k->is_slow = true;
                kernel_process_signal(&k->process, SIGKILL);
                return;
        }
        if (k->nudged_ms == 0 || now - k->nudged_ms >= NUDGE_AGAIN_MS)
                if (kernel_send(k, k->shell, "kernel_info_request", STR("{}"), NULL) == 0)
                        k->nudged_ms = now;
        timer_set(k->kernels->loop, &k->timer, NUDGE_MS);
}

static void kernel_on_timer(struct timer *t)
{
        struct kernel *k = CONTAINER_OF(t, struct kernel, timer);

        if (k->state == KERNEL_STARTING)
                kernel_nudge(k);
        else if (k->state == KERNEL_STOPPING)
                kernel_process_signal(&k->process, SIGKILL);
        else if (kernel_output_is_held(k)) /* the client has not read yet what came before */
                timer_set(k->kernels->loop, &k->timer, LAST_WORDS_MS);
        else
                loop_post(k->kernels->loop, &k->end);
}

static void kernel_close_sockets(struct kernel *k)
{
        k->shell = kernel_socket_free(k->shell);
        k->control = kernel_socket_free(k->control);
        k->output = kernel_socket_free(k->output);
}

static void kernel_run_end(struct task *t);

static struct kernel *kernel_alloc(struct kernels *ks, const struct kernelspec *spec)
{
        struct kernel *k = calloc(1, sizeof(*k));

        if (!k)
                return NULL;
        k->kernels = ks;
        k->timer.on = kernel_on_timer;
        k->end.run = kernel_run_end;
        k->interrupts_by_message = spec->interrupts_by_message;
        k->started_ms = k->looked_ms = clock_mono_ms();
        id_make(k->key);
        id_make(k->session);
        return k;
}

static int kernel_connect(struct kernel *k, const struct kernel_ports *ports)
{
        int r = kernel_open_socket(k, ports->shell, kernel_on_shell, &k->shell);

        if (r == 0)
                r = kernel_open_socket(k, ports->control, kernel_on_control, &k->control);
        return r < 0 ? r : kernel_open_socket(k, ports->iopub, kernel_on_feed, &k->output);
}

int kernel_start(struct kernels *ks, const struct kernelspec *spec, const char *cwd, const struct kernel_events *events,
                 void *arg, struct kernel **ret, struct err *err)
{
        struct kernel *k = kernel_alloc(ks, spec);
        struct kernel_ports ports;
        int r;

        if (!k)
                return err_sys(err, -ENOMEM, "kernel");
        k->events = events;
        k->arg = arg;
        r = kernel_process_start(&k->process,
                                 &(struct kernel_process_options){.loop = ks->loop,
                                                                  .spec = spec,
                                                                  .runtime_dir = ks->runtime_dir,
                                                                  .name = k->session,
                                                                  .key = k->key,
                                                                  .cwd = cwd,
                                                                  .home = ks->home,
                                                                  .files = ks->files},
                                 &ports, err);
        if (r < 0) {
                free(k);
                return r;
        }
        list_push_back(&ks->all, &k->node);
        r = kernel_connect(k, &ports);
        if (r < 0) { /* the process is there: it ends like any other, and then says why */
                log_warn("kernel.connect", "why=\"%s\"", strerror(-r));
                kernel_process_signal(&k->process, SIGKILL);
        }
        timer_set(ks->loop, &k->timer, NUDGE_MS);
        *ret = k;
        return 0;
}

/* ---- end ---- */

void kernel_stop(struct kernel *k, bool by_force)
{
        if (!k->process.pid) { /* nobody wants to hear the rest */
                timer_clear(&k->timer);
                loop_post(k->kernels->loop, &k->end);
                return;
        }
        if (k->state != KERNEL_READY ||
            kernel_send(k, k->control, "shutdown_request", STR("{\"restart\":false}"), NULL) < 0)
                by_force = true;
        k->state = KERNEL_STOPPING;
        kernel_hold_output(k, true);
        if (by_force)
                kernel_process_signal(&k->process, SIGKILL);
        else
                timer_set(k->kernels->loop, &k->timer, POLITE_MS);
}

static void describe_end(struct kernel *k, char why[WHY_MAX])
{
        struct str tail = kernel_process_tail(&k->process);
        int status = k->exit_status, n;

        if (k->is_slow)
                n = snprintf(why, WHY_MAX, "the kernel did not answer within %u s", k->kernels->start_ms_max / 1000);
        else if (WIFSIGNALED(status))
                n = snprintf(why, WHY_MAX, "the kernel was killed by signal %d", WTERMSIG(status));
        else
                n = snprintf(why, WHY_MAX, "the kernel exited with status %d", WEXITSTATUS(status));
        if (tail.n && n > 0 && n < WHY_MAX)
                (void)snprintf(why + n, (size_t)(WHY_MAX - n), ": %.*s", STR_ARG(tail));
}

static void kernel_free(struct kernel *k)
{
        timer_clear(&k->timer);
        loop_unpost(&k->end);
        kernel_close_sockets(k);
        kernel_process_done(&k->process);
        list_remove(&k->node);
        free(k);
}

static void kernel_run_end(struct task *t)
{
        struct kernel *k = CONTAINER_OF(t, struct kernel, end);
        char why[WHY_MAX], escaped[LOG_ESCAPED_MAX];

        describe_end(k, why);
        log_info("kernel.ended", "was_ready=%d why=\"%s\"", k->was_ready, log_escape(str_of(why), escaped));
        kernel_close_sockets(k); /* no callback of theirs any more */
        timer_clear(&k->timer);
        list_remove(&k->node);
        k->events->on_end(why, k->was_ready, k->is_slow, k->arg);
        kernel_free(k);
}

static void kernel_gone(struct kernel *k, int status)
{
        k->exit_status = status;
        k->process.pid = 0; /* the number may belong to another process now */
        if (k->state != KERNEL_READY) {
                loop_post(k->kernels->loop, &k->end);
                return;
        }
        k->state = KERNEL_GONE;
        timer_set(k->kernels->loop, &k->timer, LAST_WORDS_MS);
}

static struct kernel *kernel_of_pid(const struct kernels *ks, pid_t pid)
{
        LIST_EACH (at, &ks->all) {
                struct kernel *k = LIST_ENTRY(at, struct kernel, node);

                if (k->process.pid == pid)
                        return k;
        }
        return NULL;
}

void kernels_reap(struct kernels *ks)
{
        siginfo_t info = {0};

        /* First only look: as long as the process is not reaped, its number, which is that of its group, is its own. */
        while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) {
                struct kernel *k = kernel_of_pid(ks, info.si_pid);
                int status = 0;

                if (k)
                        kernel_process_signal(&k->process, SIGKILL); /* what else is in its group */
                (void)waitpid(info.si_pid, &status, 0);
                if (k)
                        kernel_gone(k, status);
                info.si_pid = 0;
        }
}

/* ---- all of them ---- */

int kernels_init(struct kernels *ks)
{
        list_init(&ks->all);
        return zmq_threads_create(&ks->threads);
}

void kernels_done(struct kernels *ks)
{
        struct list *at;

        while ((at = list_pop_front(&ks->all))) {
                struct kernel *k = LIST_ENTRY(at, struct kernel, node);

                kernel_process_signal(&k->process, SIGKILL);
                if (k->process.pid)
                        (void)waitpid(k->process.pid, NULL, 0);
                kernel_free(k);
        }
        ks->threads = zmq_threads_free(ks->threads);
}
