#include "control/life/ended_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "model/ids.h"

#define DROP_TIMEOUT_MS 60000
#define DROP_MAX 256     /* sandboxes in one message */
#define DROP_AFTER_MS 50 /* no request waits for that */

struct ended_sandbox {
        struct list node;
        char id[SANDBOX_ID_MAX];
};

static void ended_files_drop_later(struct ended_files *e)
{
        if (!timer_is_armed(&e->go) && !list_is_empty(&e->all))
                timer_set(e->loop, &e->go, DROP_AFTER_MS);
}

static void ended_files_dropped(struct engine_call *c, const json_t *answer, const struct err *err)
{
        (void)answer;
        if (err)
                log_warn("ended.drop", "failed=\"%s\", until the next list", err->msg);
        ended_files_drop_later(CONTAINER_OF(c, struct ended_files, drop));
}

static json_t *ended_files_take_some(struct ended_files *e)
{
        json_t *list = json_array();
        struct list *node;

        while (json_array_size(list) < DROP_MAX && (node = list_pop_front(&e->all))) {
                struct ended_sandbox *s = LIST_ENTRY(node, struct ended_sandbox, node);

                (void)json_array_append_new(list, json_string(s->id)); /* out of memory: the engine lists it again */
                free(s);
        }
        return list;
}

static void ended_files_flushed(struct durable_waiter *w, int result)
{
        struct ended_files *e = CONTAINER_OF(w, struct ended_files, flushed);

        if (result < 0) { /* logged; the disk may recover */
                ended_files_drop_later(e);
                return;
        }
        engine_call(e->engine, &e->drop, json_pack("{s:s,s:o}", "op", "drop", "sandboxes", ended_files_take_some(e)),
                    DROP_TIMEOUT_MS);
}

static void ended_files_drop_timer(struct timer *t)
{
        struct ended_files *e = CONTAINER_OF(t, struct ended_files, go);

        if (!engine_call_is_started(&e->drop) && !durable_is_waiting(&e->flushed))
                durable_wait(e->durable, &e->flushed);
}

void ended_files_drop(struct ended_files *e, const char *sandbox)
{
        struct ended_sandbox *s = calloc(1, sizeof(*s));

        if (!s)
                return; /* the engine lists it again after a restart of control or engine */
        memcpy(s->id, sandbox, sizeof(s->id));
        list_push_back(&e->all, &s->node);
        ended_files_drop_later(e);
}

void ended_files_init(struct ended_files *e, struct loop *loop, struct engine_link *engine, struct durable *durable)
{
        *e = (struct ended_files){.loop = loop,
                                  .engine = engine,
                                  .durable = durable,
                                  .go.on = ended_files_drop_timer,
                                  .flushed.on = ended_files_flushed,
                                  .drop.on = ended_files_dropped};
        list_init(&e->all);
}

void ended_files_done(struct ended_files *e)
{
        struct list *node;

        if (!e->loop)
                return;
        engine_call_cancel(&e->drop);
        durable_cancel(&e->flushed);
        timer_clear(&e->go);
        while ((node = list_pop_front(&e->all)))
                free(LIST_ENTRY(node, struct ended_sandbox, node));
        e->loop = NULL;
}
