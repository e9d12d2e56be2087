/* GET /sandglass/lost, POST /sandglass/lost/{lostID}/restore, DELETE /sandglass/lost/{lostID}: sandboxes, checkpoints and layers
 * that were moved aside because no row knew them (the engine's lost/).
 *
 *   restore   engine: the sandbox's origin → engine: put its files back, with the checkpoint and the layers it needs → row
 *             PAUSED → on disk → the answer.  The files go first: after a crash, files without a row are moved aside again.
 *             Where there is a row, and only its files were missing, they are put back.
 *
 * For the operator, in the server's first team: the files may be any team's. */
#include "control/api/handlers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/access/keys.h"
#include "control/access/tokens.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/show.h"
#include "control/catalogue/durable.h"
#include "control/engine_link/engine_link.h"
#include "control/engine_link/origins.h"
#include "control/life/lives.h"
#include "store/store.h"
#include "wire/url.h"

#define LOOK_TIMEOUT_MS 60000
#define RESTORE_TIMEOUT_MS 900000 /* as long as a disk may stall: nobody else knows what is brought back */

static bool is_first_team(struct api_exchange *x)
{
        if (x->team == LIST_ENTRY(x->api->keys->teams.next, struct team, node))
                return true;
        answer_error(x, 403, NULL, "what was lost is for the server's first team only");
        return false;
}

/* Sets x->id.  false: the request is answered. */
static bool take_lost_id(struct api_exchange *x)
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

static void lost_listed(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct api_exchange *x = CONTAINER_OF(c, struct api_exchange, call);

        if (err)
                answer_err(x, err);
        else
                answer_json(x, 200,
                            json_pack("{s:O,s:O}", "lost", json_object_get(answer, "lost"), "more",
                                      json_object_get(answer, "more")));
}

void handle_list_lost(struct api_exchange *x)
{
        AUTO_FREE char *after = NULL;

        if (!is_first_team(x))
                return;
        (void)url_query_get(x->rq->url.query, "after", &after); /* without it: from the first on */
        x->call.on = lost_listed;
        engine_call(x->api->engine, &x->call, json_pack("{s:s,s:s*}", "op", "lost", "after", after), LOOK_TIMEOUT_MS);
}

static void lost_removed(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct api_exchange *x = CONTAINER_OF(c, struct api_exchange, call);

        (void)answer;
        if (err)
                answer_err(x, err);
        else
                answer_empty(x, 204);
}

void handle_remove_lost(struct api_exchange *x)
{
        if (!is_first_team(x) || !take_lost_id(x))
                return;
        x->call.on = lost_removed;
        engine_call(x->api->engine, &x->call, json_pack("{s:s,s:s}", "op", "remove", "id", x->id), LOOK_TIMEOUT_MS);
}

/* ---- restore ---- */

struct lost_restore { /* goes on without its client: files that were put back need their row */
        struct list node;
        struct api *api;
        struct api_exchange *x; /* NULL: the client is gone */
        struct sandbox sandbox;
        char token[TOKEN_MAX]; /* that envd has in the checkpoint */
        char id[API_ID_MAX];   /* of the lost sandbox or checkpoint */
        struct engine_call call;
        struct durable_waiter synced;
};

static void lost_restore_free(struct lost_restore *r)
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
                lost_restore_free(LIST_ENTRY(restores->next, struct lost_restore, node));
}

static void lost_restore_client_gone(struct api_exchange *x, bool is_complete)
{
        struct lost_restore *r = x->job;

        (void)is_complete;
        if (r)
                r->x = NULL;
}

static void lost_restore_fail(struct lost_restore *r, const struct err *err)
{
        struct api_exchange *x = r->x;
        struct err why = *err;

        log_warn("lost.restore", "id=%s failed=\"%s\"", r->id, err->msg);
        lost_restore_free(r);
        if (x)
                answer_err(x, &why);
}

/* No answer in time: files may be back, or come back later, and no row knows them.  The engine is asked anew what it has. */
static void lost_restore_fail_unanswered(struct lost_restore *r, const struct err *err)
{
        struct engine_link *engine = r->api->engine;
        bool is_unanswered = err->kind == ERR_TIMEOUT && r->call.is_unanswered;

        lost_restore_fail(r, err);
        if (is_unanswered)
                engine_link_reset(engine);
}

static void lost_restore_synced(struct durable_waiter *w, int result)
{
        struct lost_restore *r = CONTAINER_OF(w, struct lost_restore, synced);
        struct life *l = lives_find(r->api->lives, r->sandbox.id);
        struct api_exchange *x = r->x;

        if (result < 0 || !l) {
                lost_restore_fail(r,
                                  &(struct err){.kind = ERR_INTERNAL, .msg = "the store could not be written to disk"});
                return;
        }
        lost_restore_free(r);
        if (x)
                answer_json(x, 201, show_detail(x->api, &l->sandbox));
}

/* Envd has a token in the checkpoint that this store would not give it: it is from another store. */
static int lost_restore_keep_token(struct lost_restore *r, struct err *err)
{
        const struct sandbox *s = &r->sandbox;
        char derived[TOKEN_MAX];

        token_envd(r->api->tokens, s->image_of, derived);
        if (!s->checkpoint[0] || !r->token[0] || strcmp(derived, r->token) == 0)
                return 0;
        return token_of_checkpoint_add(r->api->tokens, s->checkpoint, r->token, err);
}

static int lost_restore_add_row(struct lost_restore *r, struct err *err)
{
        char id[SANDBOX_ID_MAX];
        int res = lost_restore_keep_token(r, err);

        memcpy(id, r->sandbox.id, sizeof(id));
        if (res == 0)
                res = lives_take_back(r->api->lives, &r->sandbox, err);
        if (res == 0)
                memcpy(r->sandbox.id, id, sizeof(id)); /* all else was moved from */
        return res;
}

static void lost_restore_done(struct engine_call *call, const json_t *answer, const struct err *err)
{
        struct lost_restore *r = CONTAINER_OF(call, struct lost_restore, call);
        struct err why = {0};

        (void)answer;
        if (err) {
                lost_restore_fail_unanswered(r, err);
                return;
        }
        if (lost_restore_add_row(r, &why) < 0) {
                if (sandbox_id_is_valid(str_of(r->id)))
                        lives_lose(r->api->lives, r->id, "its row could not be written");
                lost_restore_fail(r, &why);
                return;
        }
        log_info("lost.restored", "id=%s sandbox=%s", r->id, r->sandbox.id);
        durable_wait(r->api->durable, &r->synced);
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

/* Its upper directory became a layer, which its origin may not name yet. */
static int lost_restore_take_sealed(struct sandbox *s, const char *sealed, struct err *err)
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

/* Its row to be. */
static int lost_restore_fill(struct lost_restore *r, const json_t *answer, struct err *err)
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
        s->started_ns = s->end_ns = lives_now(r->api->lives);
        return is_sandbox
                       ? lost_restore_take_sealed(s, sealed && sealed_id_is_valid(str_of(sealed)) ? sealed : NULL, err)
                       : 0;
}

static void lost_restore_ask_engine(struct lost_restore *r, const struct sandbox *s)
{
        engine_call(r->api->engine, &r->call,
                    json_pack("{s:s,s:s*,s:o,s:o}", "op", "restore", "id",
                              sandbox_id_is_valid(str_of(r->id)) ? r->id : NULL, "checkpoints",
                              s->checkpoint[0] ? json_pack("[s]", s->checkpoint) : json_array(), "layers",
                              sealed_in(s->layers)),
                    RESTORE_TIMEOUT_MS);
}

static void lost_restore_described(struct engine_call *call, const json_t *answer, const struct err *err)
{
        struct lost_restore *r = CONTAINER_OF(call, struct lost_restore, call);
        struct err why = {0};

        if (!r->x) { /* nothing has happened yet, and the client is gone */
                lost_restore_free(r);
                return;
        }
        if (err || lost_restore_fill(r, answer, &why) < 0) {
                lost_restore_fail(r, err ? err : &why);
                return;
        }
        r->call.on = lost_restore_done;
        lost_restore_ask_engine(r, &r->sandbox);
}

/* ---- restore where there is a row, and only its files were missing ---- */

static void lost_restore_files_back(struct engine_call *call, const json_t *answer, const struct err *err)
{
        struct lost_restore *r = CONTAINER_OF(call, struct lost_restore, call);
        struct life *l = lives_find(r->api->lives, r->id);
        struct api_exchange *x = r->x;

        (void)answer;
        if (err) {
                lost_restore_fail_unanswered(r, err);
                return;
        }
        log_info("lost.restored", "id=%s, which was missing", r->id);
        lost_restore_free(r);
        if (l)
                life_found_again(l);
        if (x && l) /* another team's sandbox: its token is not for this client */
                answer_json(x, 201, l->team == x->team ? show_detail(x->api, &l->sandbox) : show_listed(&l->sandbox));
        else if (x)
                answer_no_sandbox(x); /* killed meanwhile */
}

void handle_restore_lost(struct api_exchange *x)
{
        struct lost_restore *r;
        struct life *l;

        if (!is_first_team(x) || !take_lost_id(x))
                return;
        l = lives_find(x->api->lives, x->id);
        if (l && !(l->sandbox.is_missing && l->sandbox.state == SANDBOX_PAUSED)) {
                answer_error(x, 409, NULL, "there is a sandbox '%s'", x->id);
                return;
        }
        r = calloc(1, sizeof(*r));
        if (!r) {
                answer_error(x, 503, NULL, "out of memory");
                return;
        }
        r->api = x->api;
        r->x = x;
        memcpy(r->id, x->id, sizeof(r->id));
        r->synced.on = lost_restore_synced;
        r->call.on = l ? lost_restore_files_back : lost_restore_described;
        list_push_back(&x->api->lost_restores, &r->node);
        x->job = r;
        x->on_over = lost_restore_client_gone;
        if (l) {
                lost_restore_ask_engine(r, &l->sandbox);
                return;
        }
        engine_call(x->api->engine, &r->call, json_pack("{s:s,s:s}", "op", "lost", "id", r->id), LOOK_TIMEOUT_MS);
}
