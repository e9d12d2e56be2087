#include "engine/guest/standalone_job.h"

#include <stdlib.h>

#include "base/err.h"
#include "engine/guest/ask.h"
#include "engine/guest/engine.h"
#include "engine/jobs/job_queue.h"

struct standalone_job {
        struct queued_job job;
        struct engine *engine;
        struct ask *ask;
        json_t *base; /* owned; NULL: it is answered */
        int (*complete)(struct engine *e, json_t *base, const struct job_answer *said, struct err *err);
        void (*orphaned)(struct engine *e, const json_t *base);
        struct timer patience;
        struct task free_task;
};

static void standalone_job_free(struct task *t)
{
        free(CONTAINER_OF(t, struct standalone_job, free_task));
}

static void standalone_job_end(struct standalone_job *er)
{
        timer_clear(&er->patience);
        er->free_task.run = standalone_job_free;
        loop_post(er->engine->loop, &er->free_task);
}

static void answer_fail(struct standalone_job *er, const struct err *err)
{
        json_decref(TAKE_PTR(er->base));
        ask_fail(TAKE_PTR(er->ask), err);
}

static void answer_ok(struct standalone_job *er, const struct job_answer *said)
{
        struct err err = {0};

        if (said && said->report)
                (void)json_object_update(er->base, said->report);
        if (er->complete && er->complete(er->engine, er->base, said, &err) < 0)
                answer_fail(er, &err);
        else {
                if (er->orphaned && !er->ask->client)
                        er->orphaned(er->engine, er->base);
                ask_ok(TAKE_PTR(er->ask), TAKE_PTR(er->base), -1);
        }
}

static void standalone_job_done(struct queued_job *j, struct job_answer *answer)
{
        struct standalone_job *er = CONTAINER_OF(j, struct standalone_job, job);
        const struct err died = {.kind = ERR_INTERRUPTED, .msg = "the job process died: try again"};
        const struct err *err = answer ? &answer->err : &died;

        if (er->base && err->kind == ERR_NONE)
                answer_ok(er, answer);
        else if (er->base)
                answer_fail(er, err);
        standalone_job_end(er);
}

/* What it would have learned is not worth the wait for a disk that stalls. */
static void standalone_job_late(struct timer *t)
{
        struct standalone_job *er = CONTAINER_OF(t, struct standalone_job, patience);

        answer_ok(er, NULL);
        if (job_queue_cancel(&er->job))
                standalone_job_end(er);
}

void standalone_job_run(struct engine *e, const struct standalone_job_how *how, struct ask *a)
{
        struct standalone_job *er = calloc(1, sizeof(*er));
        json_t *message = job_encode(&how->job);

        if (!er || !message) {
                free(er);
                json_decref(message);
                json_decref(how->base);
                ask_fail(a, &(struct err){.kind = ERR_INTERNAL, .msg = "out of memory"});
                return;
        }
        *er = (struct standalone_job){.job = {.kind = how->job.kind,
                                              .message = message,
                                              .is_brief = !how->is_long,
                                              .is_long = how->is_long,
                                              .on_done = standalone_job_done,
                                              .is_repeatable = true},
                                      .engine = e,
                                      .ask = a,
                                      .base = how->base ? how->base : json_object(),
                                      .complete = how->complete,
                                      .orphaned = how->orphaned,
                                      .patience.on = standalone_job_late};
        if (how->patience_ms)
                timer_set(e->loop, &er->patience, how->patience_ms);
        job_queue_run(&e->job_queue, &er->job);
}
