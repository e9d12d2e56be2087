#include "engine/guest/standalone_job.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/guest/ask.h"
#include "engine/guest/engine.h"
#include "engine/jobs/job_queue.h"

struct standalone_job {
        struct queued_job job;
        struct engine *engine;
        struct ask *ask;
        json_t *base; /* owned; NULL: it is answered */
        int (*complete)(struct engine *e, json_t *base, const json_t *said, const int *fds, size_t nfds,
                        struct err *err);
        struct timer patience;
        struct task free_task;
};

static void free_standalone_job(struct task *t)
{
        free(CONTAINER_OF(t, struct standalone_job, free_task));
}

static void end(struct standalone_job *er)
{
        timer_clear(&er->patience);
        er->free_task.run = free_standalone_job;
        loop_post(er->engine->loop, &er->free_task);
}

static void answer_fail(struct standalone_job *er, const struct err *err)
{
        json_decref(TAKE_PTR(er->base));
        ask_fail(TAKE_PTR(er->ask), err);
}

static void answer_ok(struct standalone_job *er, const json_t *said, const int *fds, size_t nfds)
{
        struct err err = {0};

        if (said)
                (void)json_object_update(er->base, (json_t *)(size_t)said); /* changes only the first */
        if (er->complete && er->complete(er->engine, er->base, said, fds, nfds, &err) < 0)
                answer_fail(er, &err);
        else
                ask_ok(TAKE_PTR(er->ask), TAKE_PTR(er->base), -1);
}

void standalone_job_join(int fd, json_t *to)
{
        json_t *large = lseek(fd, 0, SEEK_SET) < 0 ? NULL : json_loadfd(fd, 0, NULL);

        if (large)
                (void)json_object_update(to, large);
        json_decref(large);
}

static void on_done(struct queued_job *j, const json_t *answer, int *fds, size_t nfds)
{
        struct standalone_job *er = CONTAINER_OF(j, struct standalone_job, job);
        const json_t *e = json_object_get(answer, "error");
        struct err err = {0};

        if (!answer)
                (void)err_set(&err, ERR_INTERRUPTED, "the process that was at it died: try again");
        else if (e)
                (void)err_set(&err, err_kind_from_name(json_string_value(json_object_get(e, "kind"))), "%s",
                              json_string_value(json_object_get(e, "message")));
        if (er->base && err.kind == ERR_NONE)
                answer_ok(er, answer, fds, nfds);
        else if (er->base)
                answer_fail(er, &err);
        while (nfds > 0)
                close_fd(&fds[--nfds]);
        end(er);
}

/* What it would have learned is not worth the wait for a disk that stalls. */
static void on_late(struct timer *t)
{
        struct standalone_job *er = CONTAINER_OF(t, struct standalone_job, patience);

        answer_ok(er, NULL, NULL, 0);
        if (job_queue_cancel(&er->job))
                end(er);
}

void standalone_job_run(struct engine *e, const struct standalone_job_how *how, struct ask *a)
{
        struct standalone_job *er = calloc(1, sizeof(*er));

        if (!er || !how->what) {
                free(er);
                json_decref(how->what);
                json_decref(how->base);
                ask_fail(a, &(struct err){.kind = ERR_INTERNAL, .msg = "out of memory"});
                return;
        }
        *er = (struct standalone_job){.job = {.what = how->what,
                                              .is_brief = !how->is_long,
                                              .is_long = how->is_long,
                                              .on_done = on_done,
                                              .is_repeatable = true},
                                      .engine = e,
                                      .ask = a,
                                      .base = how->base ? how->base : json_object(),
                                      .complete = how->complete,
                                      .patience.on = on_late};
        if (how->patience_ms)
                timer_set(e->loop, &er->patience, how->patience_ms);
        job_queue_run(&e->job_queue, &er->job);
}
