/* Sandboxes, checkpoints and layers that the engine has and no row knows: they are moved aside (the engine's lost/), not deleted. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/catalogue/refs.h"
#include "control/life/life.h"

#define LOSE_TIMEOUT_MS 900000 /* a job process may be working on it */

struct stranger { /* a sandbox that no row knows, until it is moved aside */
        struct list node;
        struct lives *lives;
        struct engine_call call;
        char id[SANDBOX_ID_MAX];
};

static void stranger_free(struct stranger *s)
{
        engine_call_cancel(&s->call);
        list_remove(&s->node);
        free(s);
}

void lives_forget_strangers(struct lives *ls)
{
        while (ls->strangers.next && ls->strangers.next != &ls->strangers)
                stranger_free(LIST_ENTRY(ls->strangers.next, struct stranger, node));
}

static void stranger_moved(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct stranger *s = CONTAINER_OF(c, struct stranger, call);
        struct lives *ls = s->lives;

        (void)answer;
        if (err)
                log_warn("sandbox.stranger", "sandbox=%s failed=\"%s\", until the next list", s->id, err->msg);
        stranger_free(s);
        if (list_is_empty(&ls->strangers))
                lives_list_again(ls); /* which tells the checkpoints and layers that they left */
}

void lives_lose(struct lives *ls, const char *id, const char *why)
{
        struct stranger *s = calloc(1, sizeof(*s));

        log_warn("sandbox.stranger", "sandbox=%s %s, moving it aside", id, why);
        ls->o.on_gone(id, ls->o.arg);
        if (!s)
                return;
        s->lives = ls;
        s->call.on = stranger_moved;
        memcpy(s->id, id, sizeof(s->id));
        list_push_back(&ls->strangers, &s->node);
        engine_call(ls->o.engine, &s->call, json_pack("{s:s,s:s,s:s}", "op", "lose", "id", id, "why", why),
                    LOSE_TIMEOUT_MS);
}

static void lives_names_moved(struct engine_call *c, const json_t *answer, const struct err *err)
{
        (void)c, (void)answer;
        if (err)
                log_warn("refs.strangers", "failed=\"%s\", until the next list", err->msg);
}

void lives_lose_names(struct lives *ls, const json_t *answer)
{
        json_t *checkpoints = refs_unknown(ls->o.refs, json_object_get(answer, "checkpoints"));
        json_t *layers = refs_unknown(ls->o.refs, json_object_get(answer, "layers"));

        if (json_array_size(checkpoints) + json_array_size(layers) == 0 || engine_call_is_started(&ls->lose)) {
                json_decref(checkpoints);
                json_decref(layers);
                return;
        }
        log_warn("refs.strangers", "checkpoints=%zu layers=%zu are not in the store, moving them aside",
                 json_array_size(checkpoints), json_array_size(layers));
        ls->lose.on = lives_names_moved;
        engine_call(ls->o.engine, &ls->lose,
                    json_pack("{s:s,s:o,s:o,s:s}", "op", "lose", "checkpoints", checkpoints, "layers", layers, "why",
                              "no row of the store names it"),
                    LOSE_TIMEOUT_MS);
}
