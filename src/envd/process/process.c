#include "envd/process/process.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "envd/process/process_input.h"
#include "envd/process/restart.h"
#include "envd/process/subscriber.h"

#define LABEL_MAX 256u
#define READS_PER_TURN 4           /* then other processes get their turn */
#define LAST_READ_MAX (256u << 10) /* bytes still read from a pipe whose end is not waited for */

#define TO(s) (1u << (s))

static const unsigned process_may[] = {
        [PROCESS_RUNNING] = TO(PROCESS_EXITED),
        [PROCESS_EXITED] = TO(PROCESS_ENDED),
        [PROCESS_ENDED] = 0,
};

static void process_go(struct process *p, enum process_state next) /* the only writer of p->state */
{
        assert(process_may[p->state] & TO(next));
        p->state = next;
}

/* The table */

void process_table_init(struct process_table *t, struct loop *loop)
{
        *t = (struct process_table){.loop = loop};
        list_init(&t->live);
        ended_process_table_init(&t->ended, loop);
        replay_pool_init(&t->pool, REPLAY_POOL_MAX);
}

struct process *process_find_pid(struct process_table *t, pid_t pid)
{
        LIST_EACH (at, &t->live) {
                struct process *p = LIST_ENTRY(at, struct process, node);

                if (p->pid == pid)
                        return p;
        }
        return NULL;
}

struct process *process_find_tag(struct process_table *t, const char *tag)
{
        LIST_EACH (at, &t->live) {
                struct process *p = LIST_ENTRY(at, struct process, node);

                if (p->tag && strcmp(p->tag, tag) == 0)
                        return p;
        }
        return NULL;
}

/* Output */

static void process_close_io(struct io *io)
{
        loop_del(io);
        close_fd(&io->fd);
}

static bool process_any_subscriber_full(const struct process *p)
{
        LIST_EACH (at, &p->subscribers) {
                if (subscriber_is_full(LIST_ENTRY(at, struct subscriber, node)))
                        return true;
        }
        return false;
}

/* Reading stops by taking the fds out of the loop: epoll reports hang-ups whether they are asked for or not. */
void process_hold(struct process *p)
{
        loop_del(&p->out);
        loop_del(&p->err);
}

static void process_resume_reading(struct process *p, struct io *io)
{
        if (io->fd >= 0 && !io->loop)
                (void)loop_add(p->table->loop, io, EPOLLIN); /* cannot fail: the fd was in the loop before */
}

void process_drained(struct process *p)
{
        if (process_any_subscriber_full(p))
                return;
        process_resume_reading(p, &p->out);
        process_resume_reading(p, &p->err);
}

static void process_send_to(struct process *p, struct str envelope, bool with_offsets)
{
        LIST_EACH (at, &p->subscribers) {
                struct subscriber *s = LIST_ENTRY(at, struct subscriber, node);

                if (subscriber_has_offsets(s) == with_offsets)
                        subscriber_send(s, envelope);
        }
}

static void process_broadcast(struct process *p, enum output_kind kind, const void *data, size_t n)
{
        bool any_plain = false, any_with_offsets = false;

        replay_add(p->replay, kind, data, n);
        LIST_EACH (at, &p->subscribers) {
                if (subscriber_has_offsets(LIST_ENTRY(at, struct subscriber, node)))
                        any_with_offsets = true;
                else
                        any_plain = true;
        }
        if (any_plain)
                process_send_to(p, process_event_data(kind, data, n), false);
        if (any_with_offsets)
                process_send_to(p, process_event_data_at(kind, data, n, p->replay->offset - n, 0), true);
}

/* One read and its event: bytes, 0 at the end, -EAGAIN. */
static ssize_t process_read_output(struct process *p, struct io *io)
{
        enum output_kind kind = p->is_pty ? OUTPUT_PTY : io == &p->out ? OUTPUT_STDOUT : OUTPUT_STDERR;
        ssize_t n;

        do {
                n = read(io->fd, process_event_read_buffer(), p->is_pty ? OUTPUT_PTY_READ_MAX : OUTPUT_READ_MAX);
        } while (n < 0 && errno == EINTR);
        if (n < 0 && errno == EAGAIN)
                return -EAGAIN;
        if (n <= 0)
                return 0; /* a PTY whose other side is closed says EIO */
        process_broadcast(p, kind, process_event_read_buffer(), (size_t)n);
        return n;
}

static void process_advance(struct process *p);

static void process_on_output(struct io *io, struct process *p)
{
        for (int i = 0; i < READS_PER_TURN; i++) {
                ssize_t n = process_read_output(p, io);

                if (n == -EAGAIN)
                        return;
                if (n == 0) {
                        process_close_io(io);
                        process_advance(p);
                        return;
                }
                if (process_any_subscriber_full(p)) {
                        process_hold(p);
                        return;
                }
                if (n < (p->is_pty ? 1 : (ssize_t)OUTPUT_READ_MAX))
                        return; /* probably the pipe is empty; epoll reports if not */
        }
}

static void process_stdout_readable(struct io *io, uint32_t events)
{
        (void)events;
        process_on_output(io, CONTAINER_OF(io, struct process, out));
}

static void process_stderr_readable(struct io *io, uint32_t events)
{
        (void)events;
        process_on_output(io, CONTAINER_OF(io, struct process, err));
}

static void process_read_last(struct process *p, struct io *io)
{
        size_t total = 0;
        ssize_t n;

        while (io->fd >= 0 && total < LAST_READ_MAX && (n = process_read_output(p, io)) > 0)
                total += (size_t)n;
}

/* The end */

static void process_free(struct task *t)
{
        struct process *p = CONTAINER_OF(t, struct process, gone);

        json_decref(p->config);
        replay_unref(p->replay);
        free(p->tag);
        free(p);
}

static void process_let_go(struct process *p) /* of everything but the memory */
{
        list_remove(&p->node);
        timer_clear(&p->kill);
        process_close_io(&p->out);
        process_close_io(&p->err);
        process_inputs_drop(p);
        process_close_io(&p->in);
}

/* What a list shows of a process that has ended: the last word of its command line, which of a shell is what it ran. */
static char *process_label(const struct process *p)
{
        const json_t *args = json_object_get(p->config, "args");
        const json_t *last = json_array_get(args, json_array_size(args) - 1);
        const char *text = json_string_value(last ? last : json_object_get(p->config, "cmd"));
        size_t n = text ? strlen(text) : 0;

        if (n > LABEL_MAX)
                for (n = LABEL_MAX; n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80;)
                        n--; /* not through a character */
        return text ? strndup(text, n) : NULL;
}

static void process_end(struct process *p)
{
        struct ended_process kept = {.pid = p->pid, .code = p->exit_code, .status = p->exit_status};
        struct list *at;

        process_go(p, PROCESS_ENDED);
        process_let_go(p);
        replay_finish(p->replay);
        while ((at = list_pop_front(&p->subscribers))) {
                struct subscriber *s = LIST_ENTRY(at, struct subscriber, node);

                s->process = NULL;
                subscriber_end(s, p->exit_code, p->exit_status);
        }
        kept.label = p->tag ? process_label(p) : NULL;
        kept.tag = TAKE_PTR(p->tag);
        kept.replay = TAKE_PTR(p->replay);
        ended_process_keep(&p->table->ended, &kept);
        loop_post(p->table->loop, &p->gone);
}

static void process_advance(struct process *p)
{
        if (p->state != PROCESS_EXITED)
                return;
        if (p->no_wait) {
                process_read_last(p, &p->out);
                process_read_last(p, &p->err);
        } else if (p->out.fd >= 0 || p->err.fd >= 0) {
                return;
        }
        process_end(p);
}

void process_reap(struct process_table *t)
{
        for (;;) {
                siginfo_t si = {0};
                struct process *p;

                if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG) < 0 || si.si_pid == 0)
                        return;
                if (t->restarts)
                        restarts_on_end(t->restarts, si.si_pid, si.si_code, si.si_status);
                p = process_find_pid(t, si.si_pid);
                if (!p || p->state != PROCESS_RUNNING)
                        continue; /* an orphan that the daemon adopted */
                process_go(p, PROCESS_EXITED);
                p->exit_code = si.si_code;
                p->exit_status = si.si_status;
                process_advance(p);
        }
}

void process_table_done(struct process_table *t)
{
        struct list *at;

        while ((at = t->live.next) != &t->live) {
                struct process *p = LIST_ENTRY(at, struct process, node);
                struct list *s;

                process_let_go(p);
                while ((s = list_pop_front(&p->subscribers)))
                        LIST_ENTRY(s, struct subscriber, node)->process = NULL;
                process_free(&p->gone);
        }
        ended_process_table_done(&t->ended);
}

static void process_kill_due(struct timer *timer)
{
        struct process *p = CONTAINER_OF(timer, struct process, kill);

        (void)process_signal(p, SIGKILL);
}

struct process *process_add(struct process_table *t, const struct process *from)
{
        struct process *p = calloc(1, sizeof(*p));

        if (!p)
                return NULL;
        *p = (struct process){.table = t, .pid = from->pid, .is_pty = from->is_pty, .kill.on = process_kill_due};
        p->out = (struct io){.fd = from->out.fd, .on = process_stdout_readable};
        p->err = (struct io){.fd = from->err.fd, .on = process_stderr_readable};
        p->gone.run = process_free;
        p->replay = replay_create(&t->pool);
        process_inputs_init(p, from->in.fd);
        list_init(&p->subscribers);
        if (!p->replay || loop_add(t->loop, &p->out, EPOLLIN) < 0 ||
            (p->err.fd >= 0 && loop_add(t->loop, &p->err, EPOLLIN) < 0)) {
                loop_del(&p->out);
                replay_unref(p->replay);
                free(p);
                return NULL;
        }
        p->tag = from->tag;
        p->config = from->config;
        ended_process_forget(&t->ended, p->pid, p->tag);
        list_push_back(&t->live, &p->node);
        return p;
}

/* Requests from outside */

void process_subscribe(struct process *p, struct subscriber *s)
{
        s->process = p;
        list_push_back(&p->subscribers, &s->node);
}

void process_unsubscribe(struct subscriber *s)
{
        struct process *p = s->process;

        if (!p)
                return;
        list_remove(&s->node);
        s->process = NULL;
        process_drained(p);
}

void process_kill_after(struct process *p, uint64_t ms)
{
        timer_set(p->table->loop, &p->kill, ms);
}

static int process_send_signal(struct process *p, pid_t to, int sig)
{
        p->no_wait = true;
        if (p->state == PROCESS_RUNNING)
                return kill(to, sig) < 0 ? -errno : 0;
        process_advance(
                p); /* reaped already, only its output is held open; the pid may belong to another process by now */
        return 0;
}

int process_signal(struct process *p, int sig)
{
        return process_send_signal(p, p->pid, sig);
}

int process_signal_group(struct process *p, int sig)
{
        return process_send_signal(p, -p->pid, sig);
}

int process_resize(struct process *p, uint32_t cols, uint32_t rows)
{
        struct winsize size = {.ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows};

        if (!p->is_pty)
                return -ENOTTY;
        return p->out.fd >= 0 && ioctl(p->out.fd, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}
