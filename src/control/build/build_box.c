#include "control/build/build_box.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "control/access/tokens.h"
#include "model/ids.h"

#define ENVD_PORT 49983
#define DIAL_TIMEOUT_MS 10000
#define BOX_TIMEOUT_S 86400 /* no deadline is kept for it (lives.h); what its row says */

static void box_close(struct build_box *b)
{
        for (size_t i = 0; i < ARRAY_LEN(b->sockets); i++)
                close_fd(&b->sockets[i]);
        close_fd(&b->file);
        json_decref(b->step);
        b->step = NULL;
}

/* Nothing is under way, and the sandbox is not watched. */
static void box_let_go(struct build_box *b)
{
        engine_call_cancel(&b->dial);
        role_call_cancel(&b->call);
        image_taker_cancel(&b->taker);
        list_remove(&b->ended.node);
        loop_unpost(&b->fail);
        box_close(b);
        b->state = BOX_EMPTY;
}

void box_drop(struct build_box *b)
{
        enum box_state was = b->state;
        struct life *l = was == BOX_EMPTY ? NULL : lives_find(b->lives, b->id);

        box_let_go(b);
        if (was == BOX_STARTING)
                lives_abandon(b->lives, b->id);
        else if (l)
                life_kill(l, "its build does not need it any more", NULL);
}

static void box_fail_now(struct task *t)
{
        struct build_box *b = CONTAINER_OF(t, struct build_box, fail);

        b->ops->on_step(b, NULL, &b->failure);
}

/* The step cannot be run; a sandbox that runs is IDLE. */
static void box_fail_later(struct build_box *b, const struct err *err, enum box_state state)
{
        box_close(b);
        b->state = state;
        b->failure = *err;
        loop_post(b->lives->o.loop, &b->fail);
}

/* It ended by itself, or the engine lost it. */
static void box_on_ended(struct life_waiter *w, enum sandbox_state reached, const struct err *err)
{
        struct build_box *b = CONTAINER_OF(w, struct build_box, ended);
        struct err gone;
        bool is_asked = b->state == BOX_DIALLING || b->state == BOX_STEP;

        (void)reached, (void)err;
        (void)err_set(&gone, ERR_GONE,
                      "the sandbox in which it ran has ended: perhaps it needed more memory than the template has");
        box_let_go(b);
        if (is_asked)
                box_fail_later(b, &gone, BOX_EMPTY);
}

/* ---- a step ---- */

static void box_on_answer(struct role_call *c, const json_t *answer, int *fd, const struct err *err)
{
        struct build_box *b = CONTAINER_OF(c, struct build_box, call);

        (void)fd;
        b->state = BOX_IDLE;
        b->ops->on_step(b, answer, err);
}

static void box_on_event(struct role_call *c, const json_t *event)
{
        struct build_box *b = CONTAINER_OF(c, struct build_box, call);
        const json_t *entries = json_object_get(event, "entries");

        if (json_is_array(entries))
                b->ops->on_log(b, entries);
}

static void box_send_step(struct build_box *b)
{
        char token[TOKEN_MAX];
        int fds[3], n = 0;

        for (unsigned i = 0; i < b->wanted; i++)
                fds[n++] = b->sockets[i];
        if (b->file >= 0)
                fds[n++] = b->file;
        token_envd(b->tokens, b->id, token);
        b->call.on = box_on_answer;
        b->call.on_event = box_on_event;
        b->state = BOX_STEP;
        role_call(b->builder, &b->call,
                  json_pack("{s:s,s:s,s:o}", "op", "step", "token", token, "step", TAKE_PTR(b->step)), fds, (size_t)n);
        box_close(b); /* the builder has them */
}

static void box_dial(struct build_box *b);

static void box_on_dialled(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct build_box *b = CONTAINER_OF(c, struct build_box, dial);
        unsigned have = 0;

        (void)answer;
        while (have < b->wanted && b->sockets[have] >= 0)
                have++;
        if (!err && c->fd)
                b->sockets[have++] = TAKE_FD(*c->fd);
        if (err || !c->fd) {
                box_fail_later(b, err ? err : &(struct err){.kind = ERR_INTERNAL, .msg = "no socket"}, BOX_IDLE);
        } else if (have < b->wanted) {
                box_dial(b);
        } else {
                box_send_step(b);
        }
}

static void box_dial(struct build_box *b)
{
        b->state = BOX_DIALLING;
        b->dial.on = box_on_dialled;
        engine_call(b->engine, &b->dial, json_pack("{s:s,s:s,s:i}", "op", "dial", "id", b->id, "port", ENVD_PORT),
                    DIAL_TIMEOUT_MS);
}

/* ---- its sandbox ---- */

static void box_on_started(struct life *l, const struct err *err, void *arg)
{
        struct build_box *b = arg;

        if (err) {
                box_fail_later(b, err, BOX_EMPTY);
                return;
        }
        b->ended.on = box_on_ended;
        life_wait(l, &b->ended);
        box_dial(b);
}

static void box_start(struct build_box *b, const struct box_base *base)
{
        struct sandbox s = {
                .team = base->team,
                .purpose = SANDBOX_FOR_BUILD,
                .cpu_count = base->cpu_count,
                .memory_mb = base->memory_mb,
                .disk_mb = base->disk_mb,
                .is_secured = true,
                .timeout_s = BOX_TIMEOUT_S,
                .layers = json_copy((json_t *)(uintptr_t)base->layers), /* json_copy() only reads */
        };
        struct err err;
        int r = s.layers ? 0 : err_sys(&err, -ENOMEM, "start sandbox");

        sandbox_id_make(s.id);
        memcpy(b->id, s.id, sizeof(b->id));
        memcpy(s.template_id, base->template_id, strnlen(base->template_id, sizeof(s.template_id) - 1));
        b->state = BOX_STARTING;
        if (r == 0)
                r = lives_start(b->lives, &s, box_on_started, b, &err);
        if (r < 0)
                box_fail_later(b, &err, BOX_EMPTY);
        sandbox_done(&s);
}

void box_run(struct build_box *b, const struct box_base *base, json_t *step, int file, unsigned sockets)
{
        b->step = step;
        b->file = file;
        b->wanted = sockets;
        if (!step)
                box_fail_later(b, &(struct err){.kind = ERR_LIMIT, .msg = "out of memory"}, b->state);
        else if (b->state == BOX_EMPTY)
                box_start(b, base);
        else
                box_dial(b);
}

/* ---- its files ---- */

static void box_on_image(struct image_taker *t, const struct image *image, const struct err *err)
{
        struct build_box *b = CONTAINER_OF(t, struct build_box, taker);

        b->state = BOX_EMPTY;
        b->ops->on_image(b, image, err);
}

int box_commit(struct build_box *b, const struct life_commit *how, struct err *err)
{
        struct life *l = lives_find(b->lives, b->id);
        int r;

        if (!l || l->sandbox.state != SANDBOX_RUNNING)
                return err_set(err, ERR_GONE, "the sandbox in which it ran has ended");
        b->taker.on = box_on_image;
        r = life_commit(l, how, &b->taker, err);
        if (r < 0)
                return r;
        list_remove(&b->ended.node); /* the taker is told what becomes of it */
        b->state = BOX_COMMITTING;
        return 0;
}

void box_init(struct build_box *b, struct lives *lives, struct engine_link *engine, struct role_link *builder,
              const struct tokens *tokens, const struct box_ops *ops)
{
        *b = (struct build_box){.lives = lives,
                                .engine = engine,
                                .builder = builder,
                                .tokens = tokens,
                                .ops = ops,
                                .sockets = {-1, -1},
                                .file = -1,
                                .fail.run = box_fail_now};
}
