/* A life's row in the store: written whole at each step of a transition, with the names in it held (refs.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/life.h"
#include "control/refs.h"
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

/* s with what row says; borrows the layers. */
static void apply(const struct life_row *row, struct sandbox *s)
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

static void take_over(struct life *l, const struct sandbox *s) /* the names are held */
{
        struct refs *refs = l->lives->o.refs;

        refs_release(refs, l->held_checkpoint, l->held_layers);
        json_decref(l->held_layers);
        memcpy(l->held_checkpoint, s->checkpoint, sizeof(l->held_checkpoint));
        l->held_layers = json_incref(s->layers);
        json_incref(s->layers);
        json_decref(l->sandbox.layers);
        l->sandbox = *s;
}

static int record(struct life *l, const struct life_row *row, bool is_fact, struct err *err)
{
        struct sandbox s = l->sandbox;
        enum sandbox_state now = s.state;
        int r;

        apply(row, &s);
        s.state = row->state;
        if (refs_hold(l->lives->o.refs, s.checkpoint, s.layers) < 0)
                return err_sys(err, -ENOMEM, "sandbox %s", s.id);
        r = store_sandbox_update(l->lives->o.store, &s, err);
        lives_tidy_later(l->lives);
        s.state = now;
        if (r < 0 && !is_fact)
                refs_release(l->lives->o.refs, s.checkpoint, s.layers);
        else
                take_over(l, &s);
        if (r == 0 || is_fact)
                l->is_unwritten = r < 0;
        l->lives->has_unwritten |= l->is_unwritten;
        return r;
}

int life_record(struct life *l, const struct life_row *row, struct err *err)
{
        return record(l, row, false, err);
}

int life_record_fact(struct life *l, const struct life_row *row, struct err *err)
{
        int r = record(l, row, true, err);

        if (r < 0)
                log_error("store.update", "sandbox=%s state=%s failed=\"%s\"", l->sandbox.id,
                          sandbox_state_name(row->state), err->msg);
        return r;
}

int life_write_again(struct life *l, struct err *err)
{
        struct life_row row = life_row_of(l);

        if (!l->is_unwritten)
                return 0;
        if (row.state == SANDBOX_SHIFTING)
                row.state = SANDBOX_PAUSED;
        if (row.state == SANDBOX_COPYING)
                row.state = SANDBOX_RUNNING;
        return life_record(l, &row, err);
}
