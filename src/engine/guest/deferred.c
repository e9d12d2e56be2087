#include "engine/guest/deferred.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

struct deferred {
        struct list node;
        request_op *run;
        json_t *msg;
        struct ask *ask;
};

int deferred_add(struct guest *s, request_op *run, const json_t *msg, struct ask *a, struct err *err)
{
        struct deferred *d = calloc(1, sizeof(*d));

        if (!d)
                return err_sys(err, -ENOMEM, "wait for sandbox %s", s->record.id);
        *d = (struct deferred){.run = run, .msg = json_incref((json_t *)(size_t)msg), .ask = a};
        list_push_back(&s->deferred, &d->node);
        return 0;
}

static void deferred_finish(struct deferred *d, const struct err *err)
{
        if (err)
                ask_fail(d->ask, err);
        json_decref(d->msg);
        free(d);
}

/* One request may change the state again, or end the sandbox: each of the others then looks for itself. */
void deferred_run(struct guest *s)
{
        struct engine *e = s->engine;
        struct list all, *node;

        list_init(&all);
        while ((node = list_pop_front(&s->deferred)))
                list_push_back(&all, node);
        while ((node = list_pop_front(&all))) {
                struct deferred *d = LIST_ENTRY(node, struct deferred, node);
                struct err err = {0};
                int r = -ECONNRESET;

                if (!d->ask || d->ask->client)
                        r = d->run(e, d->msg, d->ask, &err);
                else
                        (void)err_set(&err, ERR_CONFLICT,
                                      "the caller is gone"); /* nobody would know what the request began */
                deferred_finish(d, r < 0 ? &err : NULL);
        }
}

void deferred_fail(struct guest *s, const struct err *err)
{
        struct list *node;

        while ((node = list_pop_front(&s->deferred)))
                deferred_finish(LIST_ENTRY(node, struct deferred, node), err);
}
