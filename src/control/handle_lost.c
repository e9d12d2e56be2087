/* GET /sandglass/lost, POST /sandglass/lost/{lostID}/restore, DELETE /sandglass/lost/{lostID}: what was moved aside since no row
 * knew it (engine/lost.h).
 *
 *   restore   engine: what is noted of it → engine: put it back, with the checkpoint and the layers it needs → row PAUSED → on
 *             disk → the answer.  The files go first: what a crash leaves without a row is moved aside again.  Where there is
 *             a row, and only its files were missing, they are put back.
 *
 * For the server's first team only: what lies there may be anybody's. */
#include "control/handlers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/control.h"
#include "control/exchange.h"
#include "control/life.h"
#include "control/origins.h"
#include "control/show.h"
#include "wire/url.h"

#define LOOK_TIMEOUT_MS 60000
#define RESTORE_TIMEOUT_MS 60000

static bool is_first_team(struct exchange *x)
{
        if (x->team == LIST_ENTRY(x->control->keys.teams.next, struct team, node))
                return true;
        answer_error(x, 403, NULL, "what was lost is for the server's first team only");
        return false;
}

/* Into x->id.  false: answered. */
static bool take_lost_id(struct exchange *x)
{
        AUTO_FREE char *text = NULL;
        struct str id;

        if (url_decode_dup(x->segment, false, &text) == 0) {
                id = str_of(text);
                if (sandbox_id_is_valid(id) || checkpoint_id_is_valid(id) || sealed_id_is_valid(id)) {
                        memcpy(x->id, id.p, id.n + 1);
                        return true;
                }
        }
        answer_error(x, 400, NULL, "Invalid ID: neither of a sandbox nor of a checkpoint or layer");
        return false;
}

/* ---- list, remove ---- */

static void on_listed(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct exchange *x = CONTAINER_OF(c, struct exchange, call);

        if (err)
                answer_err(x, err);
        else
                answer_json(x, 200,
                            json_pack("{s:O,s:O}", "lost", json_object_get(answer, "lost"), "more",
                                      json_object_get(answer, "more")));
}

void handle_list_lost(struct exchange *x)
{
        AUTO_FREE char *after = NULL;

        if (!is_first_team(x))
                return;
        (void)url_query_get(x->rq->url.query, "after", &after); /* there is none: from the first on */
        x->call.on = on_listed;
        engine_call(&x->control->engine, &x->call, json_pack("{s:s,s:s*}", "op", "lost", "after", after),
                    LOOK_TIMEOUT_MS);
}

static void on_removed(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct exchange *x = CONTAINER_OF(c, struct exchange, call);

        (void)answer;
        if (err)
                answer_err(x, err);
        else
                answer_empty(x, 204);
}

void handle_remove_lost(struct exchange *x)
{
        if (!is_first_team(x) || !take_lost_id(x))
                return;
        x->call.on = on_removed;
        engine_call(&x->control->engine, &x->call, json_pack("{s:s,s:s}", "op", "remove", "id", x->id),
                    LOOK_TIMEOUT_MS);
}

/* ---- restore ---- */

struct restore { /* goes on without its client: files that are back need their row */
        struct list node;
        struct control *control;
        struct exchange *x; /* NULL: the client is gone */
        struct sandbox sandbox;
        char token[TOKEN_MAX];    /* envd has it in the checkpoint */
        char id[EXCHANGE_ID_MAX]; /* of what was lost: a sandbox, or a checkpoint */
        struct engine_call call;
        struct durable_waiter synced;
};

static void restore_free(struct restore *r)
{
        engine_call_cancel(&r->call);
        durable_cancel(&r->synced);
        list_remove(&r->node);
        if (r->x)
                r->x->job = NULL;
        sandbox_done(&r->sandbox);
        free(r);
}

void handle_lost_done(struct list *restores)
{
        while (restores->next && restores->next != restores)
                restore_free(LIST_ENTRY(restores->next, struct restore, node));
}

static void on_over(struct exchange *x, bool is_complete)
{
        struct restore *r = x->job;

        (void)is_complete;
        if (r)
                r->x = NULL;
}

static void restore_fail(struct restore *r, const struct err *err)
{
        struct exchange *x = r->x;
        struct err why = *err;

        log_warn("lost.restore", "id=%s failed=\"%s\"", r->id, err->msg);
        restore_free(r);
        if (x)
                answer_err(x, &why);
}

static void on_synced(struct durable_waiter *w, int result)
{
        struct restore *r = CONTAINER_OF(w, struct restore, synced);
        struct life *l = lives_find(&r->control->lives, r->sandbox.id);
        struct exchange *x = r->x;

        if (result < 0 || !l) {
                restore_fail(r, &(struct err){.kind = ERR_INTERNAL, .msg = "the store could not be written to disk"});
                return;
        }
        restore_free(r);
        if (x)
                answer_json(x, 201, show_detail(x->control, &l->sandbox));
}

/* The token envd has is not the one this store would give it: it is from another one. */
static int keep_token(struct restore *r, struct err *err)
{
        struct control *c = r->control;
        char derived[TOKEN_MAX];
        int res;

        token_envd(c->seed, r->sandbox.image_of, derived);
        if (!r->sandbox.checkpoint[0] || !r->token[0] || strcmp(derived, r->token) == 0)
                return 0;
        res = store_image_token_add(c->store, r->sandbox.checkpoint, r->token, err);
        if (res == 0 && json_object_set_new(c->image_tokens, r->sandbox.checkpoint, json_string(r->token)) < 0)
                res = err_sys(err, -ENOMEM, "restore");
        return res;
}

static int add_row(struct restore *r, struct err *err)
{
        struct control *c = r->control;
        char id[SANDBOX_ID_MAX];
        struct life *l;
        int res = keep_token(r, err);

        if (res == 0)
                res = life_add_row(&c->lives, &r->sandbox, err);
        if (res < 0)
                return res;
        memcpy(id, r->sandbox.id, sizeof(id));
        json_decref(r->sandbox.env); /* the store has it */
        r->sandbox.env = NULL;
        if (life_create(&c->lives, &r->sandbox, keys_team(&c->keys, r->sandbox.team), &l) < 0) {
                lives_remove_row(&c->lives, id, "", NULL); /* its names are not to be dropped: they are lost again */
                return err_sys(err, -ENOMEM, "restore");
        }
        memcpy(r->sandbox.id, id, sizeof(id));
        life_show(l);
        return 0;
}

static void on_restored(struct engine_call *call, const json_t *answer, const struct err *err)
{
        struct restore *r = CONTAINER_OF(call, struct restore, call);
        struct err why = {0};

        (void)answer;
        if (err) {
                restore_fail(r, err);
                return;
        }
        if (add_row(r, &why) < 0) {
                if (sandbox_id_is_valid(str_of(r->id)))
                        lives_lose(&r->control->lives, r->id, "its row could not be written");
                restore_fail(r, &why);
                return;
        }
        log_info("lost.restored", "id=%s sandbox=%s", r->id, r->sandbox.id);
        durable_wait(&r->control->durable, &r->synced);
}

static json_t *sealed_in(const json_t *layers)
{
        json_t *list = json_array(), *v;
        size_t i;

        json_array_foreach (layers, i, v)
                if (layer_id_is_sealed(json_string_value(v)))
                        (void)json_array_append(list, v);
        return list;
}

static bool has_layer(const json_t *layers, const char *layer)
{
        json_t *v;
        size_t i;

        json_array_foreach (layers, i, v)
                if (strcmp(json_string_value(v), layer) == 0)
                        return true;
        return false;
}

/* Its upper directory became a layer, which may not be noted with it yet. */
static int take_sealed(struct sandbox *s, const char *sealed, struct err *err)
{
        json_t *layers;

        s->upper_kept = !sealed;
        if (!sealed || has_layer(s->layers, sealed))
                return 0;
        layers = layers_with(s->layers, sealed);
        if (!layers)
                return err_sys(err, -ENOMEM, "restore");
        json_decref(s->layers);
        s->layers = layers;
        return 0;
}

/* What its row will be. */
static int fill(struct restore *r, const json_t *answer, struct err *err)
{
        const char *checkpoint = json_string_value(json_object_get(answer, "checkpoint"));
        const char *sealed = json_string_value(json_object_get(answer, "sealed"));
        bool is_sandbox = sandbox_id_is_valid(str_of(r->id));
        struct origin o = {0};
        struct err why = {0};
        struct sandbox *s = &r->sandbox;
        int res = origin_decode(json_object_get(answer, "origin"), &o, &why);

        if (res < 0)
                return err_set(err, ERR_CONFLICT, "what is noted with '%s' cannot be used: %.150s", r->id, why.msg);
        *s = o.sandbox;
        memcpy(r->token, o.token, sizeof(r->token));
        if (is_sandbox && strcmp(s->id, r->id) != 0)
                return err_set(err, ERR_CONFLICT, "what is noted with '%s' is of '%s'", r->id, s->id);
        if (checkpoint && checkpoint_id_is_valid(str_of(checkpoint))) {
                memcpy(s->checkpoint, checkpoint, strlen(checkpoint) + 1);
                memcpy(s->image_of, s->id, sizeof(s->image_of));
                s->image_secured = s->is_secured;
        }
        if (!is_sandbox)
                sandbox_id_make(s->id);
        s->state = SANDBOX_PAUSED;
        s->team = r->x->team->no;
        s->started_ns = s->end_ns = lives_now(&r->control->lives);
        return is_sandbox ? take_sealed(s, sealed && sealed_id_is_valid(str_of(sealed)) ? sealed : NULL, err) : 0;
}

static void ask_back(struct restore *r, const struct sandbox *s)
{
        engine_call(&r->control->engine, &r->call,
                    json_pack("{s:s,s:s*,s:o,s:o}", "op", "restore", "id",
                              sandbox_id_is_valid(str_of(r->id)) ? r->id : NULL, "checkpoints",
                              s->checkpoint[0] ? json_pack("[s]", s->checkpoint) : json_array(), "layers",
                              sealed_in(s->layers)),
                    RESTORE_TIMEOUT_MS);
}

static void on_described(struct engine_call *call, const json_t *answer, const struct err *err)
{
        struct restore *r = CONTAINER_OF(call, struct restore, call);
        struct err why = {0};

        if (!r->x) { /* nothing has happened yet, and nobody wants it any more */
                restore_free(r);
                return;
        }
        if (err || fill(r, answer, &why) < 0) {
                restore_fail(r, err ? err : &why);
                return;
        }
        r->call.on = on_restored;
        ask_back(r, &r->sandbox);
}

/* ---- the same where there is a row, and its files were missing ---- */

static void on_found(struct engine_call *call, const json_t *answer, const struct err *err)
{
        struct restore *r = CONTAINER_OF(call, struct restore, call);
        struct life *l = lives_find(&r->control->lives, r->id);
        struct exchange *x = r->x;

        (void)answer;
        if (err) {
                restore_fail(r, err);
                return;
        }
        log_info("lost.restored", "id=%s, which was missing", r->id);
        restore_free(r);
        if (l) {
                l->sandbox.is_missing = false;
                life_show(l);
        }
        if (x && l) /* another team's: its token is not for the one who asked */
                answer_json(x, 201,
                            l->team == x->team ? show_detail(x->control, &l->sandbox) : show_listed(&l->sandbox));
        else if (x)
                answer_no_sandbox(x); /* killed meanwhile */
}

void handle_restore_lost(struct exchange *x)
{
        struct restore *r;
        struct life *l;

        if (!is_first_team(x) || !take_lost_id(x))
                return;
        l = lives_find(&x->control->lives, x->id);
        if (l && !(l->sandbox.is_missing && l->sandbox.state == SANDBOX_PAUSED)) {
                answer_error(x, 409, NULL, "there is a sandbox '%s'", x->id);
                return;
        }
        r = calloc(1, sizeof(*r));
        if (!r) {
                answer_error(x, 503, NULL, "out of memory");
                return;
        }
        r->control = x->control;
        r->x = x;
        memcpy(r->id, x->id, sizeof(r->id));
        r->synced.on = on_synced;
        r->call.on = l ? on_found : on_described;
        list_push_back(&x->control->restores, &r->node);
        x->job = r;
        x->on_over = on_over;
        if (l) {
                ask_back(r, &l->sandbox);
                return;
        }
        engine_call(&x->control->engine, &r->call, json_pack("{s:s,s:s}", "op", "lost", "id", r->id), LOOK_TIMEOUT_MS);
}
