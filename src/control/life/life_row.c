/* A life's row in the store: written whole at each step of a transition, together with the change of the names in it (refs.h),
 * and kept until nothing of the sandbox is left. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/catalogue/refs.h"
#include "control/engine_link/origins.h"
#include "control/life/life.h"
#include "store/store.h"

struct life_row life_row_of(const struct life *l)
{
        const struct sandbox *s = &l->sandbox;

        return (struct life_row){
                .state = s->state,
                .checkpoint = s->checkpoint,
                .image_of = s->image_of,
                .layers = s->layers,
                .upper_kept = s->upper_kept,
                .image_secured = s->image_secured,
                .started_ns = s->started_ns,
                .end_ns = s->end_ns,
        };
}

/* Set the columns in s; s borrows the layers. */
static void life_row_apply(const struct life_row *row, struct sandbox *s)
{
        char checkpoint[CHECKPOINT_ID_MAX], image_of[SANDBOX_ID_MAX]; /* row may borrow them from s itself */

        (void)snprintf(checkpoint, sizeof(checkpoint), "%s", row->checkpoint);
        (void)snprintf(image_of, sizeof(image_of), "%s", row->image_of);
        memcpy(s->checkpoint, checkpoint, sizeof(checkpoint));
        memcpy(s->image_of, image_of, sizeof(image_of));
        s->layers = row->layers;
        s->upper_kept = row->upper_kept;
        s->image_secured = row->image_secured;
        s->started_ns = row->started_ns;
        s->end_ns = row->end_ns;
}

void life_set_names(struct life *l, const char *checkpoint, json_t *layers)
{
        json_incref(layers);
        json_decref(l->held_layers);
        (void)snprintf(l->held_checkpoint, sizeof(l->held_checkpoint), "%s", checkpoint);
        l->held_layers = layers;
}

static void life_take_over_row(struct life *l, const struct sandbox *s)
{
        json_incref(s->layers);
        json_decref(l->sandbox.layers);
        l->sandbox = *s;
}

/* There is no memory for the change of names: the life is changed now, row and names are written later, together. */
static void life_take_over_unwritten(struct life *l, struct sandbox *s, enum sandbox_state now)
{
        s->state = now;
        life_take_over_row(l, s);
        l->is_unwritten = l->lives->has_unwritten = true;
        lives_tidy_later(l->lives);
}

static int life_record_row(struct life *l, const struct life_row *row, bool is_fact, struct err *err)
{
        struct refs *refs = l->lives->o.refs;
        struct sandbox s = l->sandbox;
        enum sandbox_state now = s.state;
        struct refs_change change = {0};
        int r;

        life_row_apply(row, &s);
        s.state = row->state;
        if (refs_take(refs, &change, s.checkpoint, s.layers) < 0 ||
            refs_leave(refs, &change, l->held_checkpoint, l->held_layers) < 0) {
                refs_cancel(refs, &change);
                if (is_fact)
                        life_take_over_unwritten(l, &s, now);
                return err_sys(err, -ENOMEM, "sandbox %s", s.id);
        }
        r = refs_begin(refs, &change, false, err);
        if (r == 0)
                r = store_sandbox_update(l->lives->o.store, &s, err);
        r = refs_end(refs, &change, r, is_fact, err);
        lives_tidy_later(l->lives);
        s.state = now;
        if (r == 0 || is_fact) {
                life_set_names(l, s.checkpoint, s.layers);
                life_take_over_row(l, &s);
                l->is_unwritten = r < 0;
        }
        l->lives->has_unwritten |= l->is_unwritten;
        return r;
}

int life_record(struct life *l, const struct life_row *row, struct err *err)
{
        return life_record_row(l, row, false, err);
}

int life_record_fact(struct life *l, const struct life_row *row, struct err *err)
{
        int r = life_record_row(l, row, true, err);

        if (r < 0)
                log_error("store.update", "sandbox=%s state=%s failed=\"%s\"", l->sandbox.id,
                          sandbox_state_name(row->state), err->msg);
        return r;
}

/* ---- rows that could not be removed ---- */

struct unremoved_row {
        struct list node;
        char id[SANDBOX_ID_MAX];
};

static void lives_remember_unremoved(struct lives *ls, const char *id)
{
        struct unremoved_row *u = calloc(1, sizeof(*u));

        if (!u)
                return; /* at the next start the engine will have nothing of the sandbox */
        memcpy(u->id, id, sizeof(u->id));
        list_push_back(&ls->unremoved, &u->node);
}

void lives_remove_rows_again(struct lives *ls)
{
        LIST_EACH (node, &ls->unremoved) {
                struct unremoved_row *u = LIST_ENTRY(node, struct unremoved_row, node);

                if (store_sandbox_remove(ls->o.store, u->id, NULL) < 0) {
                        lives_tidy_later(ls);
                        return; /* the others would fail, too */
                }
                log_info("store.removed", "sandbox=%s", u->id);
                list_remove(&u->node);
                free(u);
        }
}

void lives_forget_rows(struct lives *ls)
{
        struct list *node;

        while (ls->unremoved.next && (node = list_pop_front(&ls->unremoved)))
                free(LIST_ENTRY(node, struct unremoved_row, node));
}

int life_write_again(struct life *l, struct err *err)
{
        struct life_row row = life_row_of(l);

        if (!l->is_unwritten)
                return 0;
        if (row.state == SANDBOX_COPYING_PAUSED)
                row.state = SANDBOX_PAUSED;
        if (row.state == SANDBOX_COPYING)
                row.state = SANDBOX_RUNNING;
        return life_record(l, &row, err);
}

json_t *life_origin(struct life *l, const json_t *layers)
{
        struct lives *ls = l->lives;
        struct sandbox s = l->sandbox; /* borrowed */
        json_t *origin = NULL;
        struct err err;

        s.env = NULL;
        if (store_sandbox_env(ls->o.store, s.id, &s.env, &err) == 0)
                origin = origin_encode(ls->o.tokens, &s, layers);
        json_decref(s.env);
        return origin;
}

int life_add_row(struct lives *ls, const struct sandbox *s, struct err *err)
{
        struct refs *refs = ls->o.refs;
        struct refs_change change = {0};
        int r;

        if (refs_take(refs, &change, s->checkpoint, s->layers) < 0) {
                refs_cancel(refs, &change);
                return err_sys(err, -ENOMEM, "sandbox %s", s->id);
        }
        r = refs_begin(refs, &change, false, err);
        if (r == 0)
                r = store_sandbox_add(ls->o.store, s, err);
        lives_tidy_later(ls);
        return refs_end(refs, &change, r, false, err);
}

void lives_remove_row(struct lives *ls, const char *id, const char *checkpoint, const json_t *layers)
{
        struct refs *refs = ls->o.refs;
        struct refs_change change = {0};
        struct err err;
        int r;

        (void)refs_leave(refs, &change, checkpoint,
                         layers); /* out of memory: the other names wait for the next start */
        r = refs_begin(refs, &change, false, &err);
        if (r == 0)
                r = store_sandbox_remove(ls->o.store, id, &err);
        if (refs_end(refs, &change, r, true, &err) < 0) {
                log_error("store.remove", "sandbox=%s failed=\"%s\", trying again", id, err.msg);
                lives_remember_unremoved(ls, id);
        }
        lives_tidy_later(ls);
}

void life_remove_row(struct life *l)
{
        lives_remove_row(l->lives, l->sandbox.id, l->held_checkpoint, l->held_layers);
        life_set_names(l, "", NULL);
}

/* A row that cannot be written stays as it was before: at the next start the engine tells what is left of the sandbox. */
void life_mark_row_killing(struct life *l)
{
        struct err err;

        if (store_sandbox_kill(l->lives->o.store, l->sandbox.id, &err) < 0)
                log_error("store.update", "sandbox=%s state=killing failed=\"%s\"", l->sandbox.id, err.msg);
        lives_tidy_later(l->lives);
}
