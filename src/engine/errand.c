#include "engine/errand.h"

#include <stdlib.h>

#include "base/err.h"
#include "engine/ask.h"
#include "engine/engine.h"
#include "engine/vault.h"

struct errand {
        struct vault_job job;
        struct engine *engine;
        struct ask *ask;
        json_t *base; /* owned */
        struct task free_task;
};

static void free_errand(struct task *t)
{
        free(CONTAINER_OF(t, struct errand, free_task));
}

static void on_done(struct vault_job *j, const json_t *answer, int *fds, size_t nfds)
{
        struct errand *er = CONTAINER_OF(j, struct errand, job);
        const json_t *e = json_object_get(answer, "error");
        struct err err = {0};

        (void)fds, (void)nfds;
        if (!answer)
                (void)err_set(&err, ERR_INTERNAL, "the process that was at it died");
        else if (e)
                (void)err_set(&err, err_kind_from_name(json_string_value(json_object_get(e, "kind"))), "%s",
                              json_string_value(json_object_get(e, "message")));
        if (err.kind == ERR_NONE) {
                (void)json_object_update_missing(er->base, (json_t *)answer); /* changes only the first */
                ask_ok(er->ask, er->base, -1);
        } else {
                json_decref(er->base);
                ask_fail(er->ask, &err);
        }
        er->free_task.run = free_errand;
        loop_post(er->engine->loop, &er->free_task);
}

void errand_run(struct engine *e, json_t *what, json_t *base, bool is_long, struct ask *a)
{
        struct errand *er = calloc(1, sizeof(*er));

        if (!er || !what) {
                free(er);
                json_decref(what);
                json_decref(base);
                ask_fail(a, &(struct err){.kind = ERR_INTERNAL, .msg = "out of memory"});
                return;
        }
        *er = (struct errand){.job = {.what = what,
                                      .lock = -1,
                                      .is_brief = !is_long,
                                      .is_long = is_long,
                                      .on_done = on_done,
                                      .is_repeatable = true},
                              .engine = e,
                              .ask = a,
                              .base = base ? base : json_object()};
        vault_run(&e->vault, &er->job);
}
