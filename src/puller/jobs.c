#include "puller/jobs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "puller/limits.h"

static void run_next(struct job_list *l);

struct puller_job *job_create(struct job_list *l, struct err *err)
{
        struct puller_job *job;

        if (l->count >= l->limits->jobs_max) {
                (void)err_set(err, ERR_LIMIT, "too many images are being pulled (%u)", l->limits->jobs_max);
                return NULL;
        }
        job = calloc(1, sizeof(*job));
        if (!job) {
                (void)err_sys(err, -ENOMEM, "job");
                return NULL;
        }
        job->jobs = l;
        job->pull = (struct pull){.conf = l->conf, .limits = l->limits, .blobs = l->blobs, .archive = -1};
        l->count++;
        return job;
}

struct puller_job *job_free(struct puller_job *job)
{
        struct job_list *l = job->jobs;

        list_remove(&job->node);
        l->count--;
        if (job->pull.archive >= 0)
                (void)close(job->pull.archive);
        registry_auth_done(&job->pull.auth);
        json_decref(job->answer);
        free(job->asked);
        free(job);
        if (l->count == 0)
                l->on_idle(l);
        return NULL;
}

static void *job_thread(void *arg)
{
        struct puller_job *job = arg;
        int wake = job->jobs->wake.fd;

        (void)job->run(&job->pull, &job->answer, &job->err);
        atomic_store(&job->is_over, true); /* the loop may free the job from here on */
        (void)eventfd_write(wake, 1);
        return NULL;
}

/* In the loop: the thread has nothing more to do but to end. */
static void job_finish(struct puller_job *job)
{
        json_t *answer = job->answer;

        (void)pthread_join((pthread_t)job->thread, NULL);
        job->jobs->run_count--;
        list_remove(&job->node);
        job->answer = NULL;
        if (!atomic_load(&job->pull.is_cancelled))
                job->on_done(job, answer, answer ? NULL : &job->err);
        json_decref(answer);
        (void)job_free(job);
}

static void job_run(struct puller_job *job)
{
        pthread_t thread;
        int r;

        job->pull.asked = job->asked ? job->asked : "";
        r = pthread_create(&thread, NULL, job_thread, job);
        if (r != 0) {
                (void)err_sys(&job->err, -r, "start a thread");
                job->on_done(job, NULL, &job->err);
                (void)job_free(job);
                return;
        }
        job->thread = (unsigned long)thread;
        job->is_running = true;
        job->jobs->run_count++;
        list_push_back(&job->jobs->running, &job->node);
}

static void run_next(struct job_list *l)
{
        while (l->run_count < l->limits->jobs_at_once && !list_is_empty(&l->waiting))
                job_run(LIST_ENTRY(list_pop_front(&l->waiting), struct puller_job, node));
}

void job_begin(struct puller_job *job)
{
        struct job_list *l = job->jobs;

        list_push_back(&l->waiting, &job->node);
        run_next(l);
        if (!timer_is_armed(&l->tick))
                timer_set(l->loop, &l->tick, l->limits->progress_ms);
}

void job_cancel(struct puller_job *job)
{
        atomic_store(&job->pull.is_cancelled, true);
        if (!job->is_running)
                (void)job_free(job);
}

static void on_wake(struct io *io, uint32_t events)
{
        struct job_list *l = CONTAINER_OF(io, struct job_list, wake);
        eventfd_t ignored;

        (void)events;
        (void)eventfd_read(io->fd, &ignored);
        LIST_EACH (node, &l->running) {
                struct puller_job *job = LIST_ENTRY(node, struct puller_job, node);

                if (atomic_load(&job->is_over))
                        job_finish(job);
        }
        run_next(l);
}

static void on_tick(struct timer *t)
{
        struct job_list *l = CONTAINER_OF(t, struct job_list, tick);

        LIST_EACH (node, &l->running) {
                struct puller_job *job = LIST_ENTRY(node, struct puller_job, node);
                uint64_t done = job->pull.done, total = job->pull.total;

                if (atomic_load(&job->pull.is_cancelled) || (done == job->told_done && total == job->told_total))
                        continue;
                job->told_done = done;
                job->told_total = total;
                job->on_progress(job, done, total);
        }
        if (l->count > 0)
                timer_set(l->loop, &l->tick, l->limits->progress_ms);
}

int jobs_start(struct job_list *l)
{
        int r;

        list_init(&l->running);
        list_init(&l->waiting);
        l->tick.on = on_tick;
        l->wake.on = on_wake;
        l->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (l->wake.fd < 0)
                return -errno;
        r = loop_add(l->loop, &l->wake, EPOLLIN);
        return r;
}

void jobs_stop(struct job_list *l)
{
        if (!l->running.next)
                return;
        timer_clear(&l->tick);
        while (!list_is_empty(&l->waiting))
                job_cancel(LIST_ENTRY(l->waiting.next, struct puller_job, node));
        LIST_EACH (node, &l->running)
                job_cancel(LIST_ENTRY(node, struct puller_job, node));
        while (!list_is_empty(&l->running))
                job_finish(LIST_ENTRY(l->running.next, struct puller_job, node));
        if (l->wake.fd >= 0) {
                loop_del(&l->wake);
                (void)close(l->wake.fd);
                l->wake.fd = -1;
        }
}
