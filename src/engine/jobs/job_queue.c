#include "engine/jobs/job_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "sys/scm.h"

#define RETRY_MIN_MS 100u
#define RETRY_MAX_MS 5000u
#define TRIES_MAX 5u

static void queue_pump(struct job_queue *v);

/* ------------------------------------------------------------- how a job ends */

static void queued_job_count(struct job_queue *v, const struct queued_job *j, int by)
{
        v->busy += (unsigned)(j->only_waits || j->is_brief ? 0 : by);
        v->busy_brief += (unsigned)(j->is_brief ? by : 0);
        v->busy_long += (unsigned)(j->is_long ? by : 0);
}

static bool queue_has_room(const struct job_queue *v, const struct queued_job *j)
{
        if (j->is_brief)
                return v->busy_brief < v->busy_max;
        return j->only_waits || (v->busy < v->busy_max && !(j->is_long && v->busy_long >= v->busy_long_max));
}

static void queued_job_forget(struct queued_job *j)
{
        loop_del(&j->io);
        close_fd(&j->io.fd);
        list_remove(&j->node);
        json_decref(j->message);
        j->message = NULL;
}

static void queued_job_ended(struct queued_job *j, struct job_answer *answer)
{
        struct job_queue *v = j->job_queue;

        queued_job_forget(j);
        queued_job_count(v, j, -1);
        j->on_done(j, answer);
        queue_pump(v);
}

/* JOB_WAITS: the rest depends on the sandbox alone, and other jobs need not wait for it. */
static void queued_job_only_waits_now(struct queued_job *j)
{
        queued_job_count(j->job_queue, j, -1);
        j->only_waits = true;
        j->is_long = false;
        queue_pump(j->job_queue);
}

/* The job queue died before a job process had the job, or the job process of a job that may be repeated died. */
static void queued_job_give_again(struct queued_job *j)
{
        struct job_queue *v = j->job_queue;

        j->is_begun = false;
        log_warn("job.again", "tries=%u", j->tries);
        loop_del(&j->io);
        close_fd(&j->io.fd);
        queued_job_count(v, j, -1);
        list_remove(&j->node);
        list_push_back(&v->queued, &j->node);
        queue_pump(v);
}

/* An answer that cannot be decoded counts as none: the disk says how the job ended. */
static void queued_job_take_answer(struct queued_job *j, const char *text, size_t len, int *fds, size_t nfds)
{
        struct job_answer answer;
        struct err err = {0};

        if (job_answer_read(j->kind, text, len, fds, nfds, &answer, &err) < 0) {
                log_error("job.unclear", "kind=%s error=\"%s\"", job_kind_name(j->kind), err.msg);
                queued_job_ended(j, NULL);
                return;
        }
        queued_job_ended(j, &answer);
        job_answer_done(&answer);
}

static void queued_job_on_packet(struct io *io, uint32_t events)
{
        struct queued_job *j = CONTAINER_OF(io, struct queued_job, io);
        static char text[JOB_ANSWER_TEXT_MAX];
        int fds[JOB_ANSWER_FDS_MAX] = {-1, -1};
        size_t nfds = 0;
        ssize_t n;

        (void)events;
        n = scm_recv(io->fd, text, sizeof(text), fds, JOB_ANSWER_FDS_MAX, &nfds);
        if (n == -EAGAIN)
                return;
        if (n == 1 && text[0] == JOB_BEGINS) {
                j->is_begun = true;
                return;
        }
        if (n == 1 && text[0] == JOB_WAITS) {
                queued_job_only_waits_now(j);
                return;
        }
        if (n <= 0 && (!j->is_begun || j->is_repeatable) && j->tries < TRIES_MAX) {
                queued_job_give_again(j);
                return;
        }
        if (n > 0)
                queued_job_take_answer(j, text, (size_t)n, fds, nfds);
        else
                queued_job_ended(j, NULL);
}

/* ------------------------------------------------------------- how it begins */

static int write_message(const json_t *message)
{
        AUTO_CLOSE int fd = memfd_create("job", MFD_CLOEXEC);
        AUTO_FREE char *text = json_dumps(message, JSON_COMPACT); /* json_dumpfd() writes every quote by itself */
        size_t n = text ? strlen(text) : 0;

        if (fd < 0 || !text)
                return fd < 0 ? -errno : -ENOMEM;
        return write(fd, text, n) == (ssize_t)n ? TAKE_FD(fd) : -ENOMEM;
}

static int queued_job_begin(struct job_queue *v, struct queued_job *j)
{
        int pair[2], fds[2], r;
        AUTO_CLOSE int text = write_message(j->message), theirs = -1;

        if (text < 0)
                return text;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return -errno;
        j->io = (struct io){.fd = pair[0], .on = queued_job_on_packet};
        fds[0] = text;
        fds[1] = theirs = pair[1];
        j->tries++;
        r = loop_add(v->loop, &j->io, EPOLLIN);
        if (r == 0)
                r = helper_send(&v->helper, "j", 1, fds, 2);
        if (r < 0) {
                loop_del(&j->io);
                close_fd(&j->io.fd);
        }
        return r;
}

static void queue_retry_later(struct job_queue *v)
{
        uint64_t ms = (uint64_t)RETRY_MIN_MS << (v->failures < 8 ? v->failures : 8);

        v->failures++;
        timer_set(v->loop, &v->retry, ms > RETRY_MAX_MS ? RETRY_MAX_MS : ms);
}

static void queue_pump(struct job_queue *v)
{
        LIST_EACH (node, &v->queued) {
                struct queued_job *j = LIST_ENTRY(node, struct queued_job, node);

                if (!helper_is_running(&v->helper) || timer_is_armed(&v->retry))
                        return;
                if (!queue_has_room(v, j))
                        continue;
                if (queued_job_begin(v, j) < 0) {
                        queue_retry_later(v);
                        return;
                }
                v->failures = 0;
                list_remove(&j->node);
                list_push_back(&v->running, &j->node);
                queued_job_count(v, j, 1);
        }
}

void job_queue_run(struct job_queue *v, struct queued_job *j)
{
        j->job_queue = v;
        j->io.fd = -1;
        j->is_begun = false;
        j->tries = 0;
        list_push_back(&v->queued, &j->node);
        queue_pump(v);
}

bool job_queue_cancel(struct queued_job *j)
{
        if (j->io.fd >= 0)
                return false;
        queued_job_forget(j);
        return true;
}

/* ------------------------------------------------------------- the process */

static void queue_on_message(struct helper *h, const void *p, size_t n, int *fds, size_t nfds)
{
        (void)h, (void)p, (void)n; /* the job queue sends nothing; its job processes do */
        for (size_t i = 0; i < nfds; i++)
                close_fd(&fds[i]);
}

static int queue_start_helper(struct job_queue *v, struct err *err)
{
        int keep[JOB_KEEP_MAX], sock = -1, r;
        unsigned n = job_conf_fds(&v->conf, keep);
        pid_t pid = helper_fork("sg-job-queue", keep, n, &sock);

        if (pid < 0)
                return err_sys(err, pid, "fork job queue");
        if (pid == 0)
                job_process_serve(&v->conf, sock);
        r = helper_start(&v->helper, v->loop, sock);
        return r < 0 ? err_sys(err, r, "watch job queue") : 0;
}

static void queue_on_gone(struct helper *h)
{
        struct job_queue *v = CONTAINER_OF(h, struct job_queue, helper);

        if (v->is_stopped)
                return;
        log_error("job_queue.died", "running=%u, starting another", v->busy);
        queue_retry_later(v);
}

static void queue_on_retry(struct timer *t)
{
        struct job_queue *v = CONTAINER_OF(t, struct job_queue, retry);
        struct err err = {0};

        if (!helper_is_running(&v->helper) && queue_start_helper(v, &err) < 0) {
                log_error("helper.failed", "error=\"%s\"", err.msg);
                queue_retry_later(v);
                return;
        }
        queue_pump(v);
}

int job_queue_start(struct job_queue *v, struct loop *l, const struct job_conf *c, struct err *err)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN);

        *v = (struct job_queue){.loop = l, .conf = *c, .busy_max = cores < 1 ? 2 : 2 * (unsigned)cores};
        v->busy_long_max = v->busy_max - (v->busy_max + 3) / 4;
        list_init(&v->queued);
        list_init(&v->running);
        v->helper.on_message = queue_on_message;
        v->helper.on_gone = queue_on_gone;
        v->retry.on = queue_on_retry;
        return queue_start_helper(v, err);
}

void job_queue_stop(struct job_queue *v)
{
        v->is_stopped = true;
        if (!v->loop)
                return;
        timer_clear(&v->retry);
        LIST_EACH (node, &v->queued)
                queued_job_forget(LIST_ENTRY(node, struct queued_job, node));
        LIST_EACH (node, &v->running)
                queued_job_forget(LIST_ENTRY(node, struct queued_job, node));
        helper_stop(&v->helper);
}
