/* After a reconnect: what the rows say is compared with what the engine has, and every life is put right.
 *
 *   row           engine: running            paused                       nothing
 *   RUNNING       -                          it is paused                 it has ended
 *   PAUSING       it runs on, 503            it is paused                 it has ended
 *   PAUSED        (strange) it runs          -, or a leftover to end      -, or its files are missing: it is not shown
 *   RESUMING      it runs                    it is paused, 503            paused if on a new upper directory, else ended
 *   COPYING       it runs on                 it is paused                 it has ended
 *   SNAPSHOTTING  it runs on                 it is begun again            it has ended
 *   ROLLING_BACK  ended and begun again, whatever there is
 *   KILLING       ended again                ended again                  it is gone
 *
 * "busy" at the engine: a worker of the last engine is at it; the fact "settled" comes, or "exited". */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/feed.h"
#include "control/life.h"
#include "control/refs.h"

#define LIST_TIMEOUT_MS 30000

static const struct err restarted = {
        .kind = ERR_UNAVAILABLE, .msg = "the engine restarted in the middle of it, and nothing has changed: try again"};

enum found { FOUND_NOTHING, FOUND_RUNNING, FOUND_PAUSED, FOUND_BUSY };

static enum found found_of(const json_t *entry)
{
        const char *state = json_string_value(json_object_get(entry, "state"));

        if (!entry)
                return FOUND_NOTHING;
        if (!state || strcmp(state, "running") == 0)
                return FOUND_RUNNING;
        return strcmp(state, "paused") == 0 ? FOUND_PAUSED : FOUND_BUSY;
}

static void count_busy(struct life *l)
{
        l->is_busy = true;
        l->lives->busy++;
}

/* What its worker leaves is known when the worker is done: `is_busy`. */
static void end_stranger(struct lives *ls, const char *id, bool is_busy)
{
        struct sandbox s = {.state = SANDBOX_KILLING};
        struct life *l;

        memcpy(s.id, id, SANDBOX_ID_MAX);
        log_warn("sandbox.stranger", "sandbox=%s is not in the store, ending it", id);
        feed_gone(ls->o.feed, id);
        if (life_create(ls, &s, NULL, &l) < 0)
                return;
        if (is_busy)
                count_busy(l);
        life_ask_kill(l);
}

/* The layer its upper directory became; NULL: it is what it was. */
static const char *sealed_of(const json_t *entry)
{
        const char *layer = json_string_value(json_object_get(entry, "sealed"));

        return layer && sealed_id_is_valid(str_of(layer)) ? layer : NULL;
}

static bool has_layer(const struct life *l, const char *layer)
{
        json_t *v;
        size_t i;

        json_array_foreach (l->sandbox.layers, i, v)
                if (strcmp(json_string_value(v), layer) == 0)
                        return true;
        return false;
}

/* The row takes over what the engine says is at rest: checkpoint, and whether its upper directory was sealed. */
static void take_rest(struct life *l, const json_t *entry)
{
        const char *checkpoint = json_string_value(json_object_get(entry, "checkpoint"));
        const char *sealed = sealed_of(entry);
        struct life_row row = life_row_of(l);
        struct err err;

        row.checkpoint = checkpoint && checkpoint_id_is_valid(str_of(checkpoint)) ? checkpoint : "";
        row.image_of = row.checkpoint[0] ? l->sandbox.id : "";
        row.image_secured = row.checkpoint[0] && l->sandbox.is_secured;
        row.upper_kept = !(sealed && has_layer(l, sealed));
        (void)life_record_fact(l, &row, &err);
        if (sealed && row.upper_kept)
                life_apply_sealed(l, sealed);
}

static bool same_checkpoint(const struct life *l, const json_t *entry)
{
        const char *checkpoint = json_string_value(json_object_get(entry, "checkpoint"));

        return strcmp(checkpoint ? checkpoint : "", l->sandbox.checkpoint) == 0;
}

/* PAUSED, and at rest at the engine.  Without its memory: that was given up when it could not be resumed.  Sealed
 * meanwhile: a copy of it was taken.  Neither the row's upper directory nor
 * its checkpoint: what was there before it was rolled back. */
static void compare_rest(struct life *l, const json_t *entry)
{
        const char *sealed = sealed_of(entry);

        if (l->sandbox.upper_kept) {
                if (!same_checkpoint(l, entry)) {
                        take_rest(l, entry);
                        life_show(l);
                } else if (sealed)
                        life_apply_sealed(l, sealed);
        } else if (!(sealed && has_layer(l, sealed)) || !same_checkpoint(l, entry)) {
                life_go(l, SANDBOX_SHIFTING);
                life_end_first(l);
        }
}

static void on_running(struct life *l)
{
        const struct sandbox *s = &l->sandbox;
        int64_t now = lives_now(l->lives);

        l->sandbox.is_missing = false;
        switch (s->state) {
        case SANDBOX_PAUSING:
                life_now_running(l, s->started_ns, s->end_ns);
                life_settle(l, &restarted);
                break;
        case SANDBOX_PAUSED:
                log_warn("sandbox.strange", "sandbox=%s runs and should be paused", s->id);
                life_go(l, SANDBOX_RESUMING);
                life_now_running(l, now, now + (int64_t)s->timeout_s * 1000000000);
                life_settle(l, NULL);
                break;
        case SANDBOX_RESUMING:
                life_now_running(l, s->started_ns, s->end_ns);
                life_settle(l, NULL);
                break;
        case SANDBOX_COPYING: life_fail_copy(l, &restarted); break;
        case SANDBOX_SNAPSHOTTING:
                life_drop_sealing(l);
                life_now_running(l, s->started_ns, s->end_ns);
                life_give_image(l, &restarted);
                life_settle(l, NULL);
                break;
        default: break;
        }
}

static void on_paused(struct life *l, const json_t *entry)
{
        l->sandbox.is_missing = false;
        switch (l->sandbox.state) {
        case SANDBOX_COPYING:
                life_drop_sealing(l);
                life_give_image(l, &restarted);
                life_go(l, SANDBOX_RUNNING);
                __attribute__((fallthrough));
        case SANDBOX_RUNNING:
                log_warn("sandbox.strange", "sandbox=%s is paused and should run", l->sandbox.id);
                take_rest(l, entry);
                life_now_paused(l, l->sandbox.started_ns, lives_now(l->lives), NULL);
                break;
        case SANDBOX_PAUSING:
                take_rest(l, entry);
                l->step = STEP_PAUSE;
                life_on_paused(l, NULL);
                break;
        case SANDBOX_PAUSED: compare_rest(l, entry); break;
        case SANDBOX_RESUMING:
                life_now_paused(l, l->was_started_ns ? l->was_started_ns : l->sandbox.started_ns,
                                l->was_end_ns ? l->was_end_ns : lives_now(l->lives), &restarted);
                break;
        case SANDBOX_SNAPSHOTTING:
                take_rest(l, entry);
                life_give_image(l, &restarted);
                life_begin_again(l);
                break;
        default: break;
        }
}

static void on_nothing(struct life *l)
{
        switch (l->sandbox.state) {
        case SANDBOX_RUNNING:
        case SANDBOX_PAUSING:
        case SANDBOX_COPYING:
        case SANDBOX_SNAPSHOTTING: life_exited(l); break;
        case SANDBOX_RESUMING:
                if (l->sandbox.upper_kept)
                        life_exited(l);
                else
                        on_paused(l, NULL);
                break;
        case SANDBOX_PAUSED:
                if (l->sandbox.upper_kept)
                        life_missing(l);
                break;
        default: break;
        }
}

/* A paused one that was being copied or rolled back when the link was lost. */
static void end_shift(struct life *l, const json_t *entry)
{
        life_drop_sealing(l);
        life_go(l, SANDBOX_PAUSED);
        if (entry)
                compare_rest(l, entry);
        life_give_image(l, &restarted);
        if (l->sandbox.state == SANDBOX_PAUSED)
                life_settle(l, &restarted);
}

static void put_right(struct life *l, const json_t *entry)
{
        enum found found = found_of(entry);

        if (l->sandbox.state == SANDBOX_KILLING) {
                if (found == FOUND_BUSY)
                        count_busy(l);
                if (found != FOUND_NOTHING || !l->team)
                        life_ask_kill(l);
                else if (!engine_call_is_started(&l->call))
                        life_over(l);
                return;
        }
        /* Waiting for the disk, or not sent yet: what leaves is sent after this. */
        timer_clear(&l->retry);
        if (l->step == STEP_SYNC || engine_call_is_started(&l->call) || l->sandbox.state == SANDBOX_STARTING)
                return;
        if (l->sandbox.state == SANDBOX_ROLLING_BACK)
                life_end_first(l);
        else if (found == FOUND_BUSY)
                count_busy(l);
        else if (l->sandbox.state == SANDBOX_SHIFTING)
                end_shift(l, entry);
        else if (found == FOUND_RUNNING)
                on_running(l);
        else if (found == FOUND_PAUSED)
                on_paused(l, entry);
        else
                on_nothing(l);
}

static void mark_listed(struct lives *ls, const json_t *sandboxes)
{
        json_t *v;
        size_t i;

        json_array_foreach (sandboxes, i, v) {
                const char *id = json_string_value(json_object_get(v, "id"));
                struct life *l = lives_find(ls, id ? id : "");

                if (l && l->sandbox.state != SANDBOX_STARTING)
                        l->listed = v;
                else if (!l && sandbox_id_is_valid(str_of(id)))
                        end_stranger(ls, id, found_of(v) == FOUND_BUSY);
        }
}

static void sweep(struct lives *ls, const json_t *answer)
{
        refs_sweep(ls->o.refs, json_object_get(answer, "checkpoints"), json_object_get(answer, "layers"));
        ls->o.on_long(ls->o.arg); /* there may be, of before */
}

void lives_reconcile(struct lives *ls, const json_t *answer)
{
        ls->busy = 0;
        LIST_EACH (node, &ls->all)
                LIST_ENTRY(node, struct life, node)->is_busy = false;
        mark_listed(ls, json_object_get(answer, "sandboxes"));
        LIST_EACH (node, &ls->all) {
                struct life *l = LIST_ENTRY(node, struct life, node);
                const json_t *entry = l->listed;

                l->listed = NULL;
                put_right(l, entry);
        }
        if (ls->busy == 0)
                sweep(ls, answer); /* else a worker may be about to make what no row names yet */
}

static void on_list_again(struct engine_call *c, const json_t *answer, const struct err *err)
{
        if (!err)
                sweep(CONTAINER_OF(c, struct lives, list), answer);
}

void life_not_busy(struct life *l)
{
        struct lives *ls = l->lives;

        if (!l->is_busy)
                return;
        l->is_busy = false;
        if (--ls->busy > 0 || engine_call_is_started(&ls->list))
                return;
        ls->list.on = on_list_again;
        engine_call(ls->o.engine, &ls->list, json_pack("{s:s}", "op", "list"), LIST_TIMEOUT_MS);
}

void life_not_found(struct life *l)
{
        life_not_busy(l);
        put_right(l, NULL);
}

void lives_settled(struct lives *ls, const json_t *fact)
{
        const char *id = json_string_value(json_object_get(fact, "id"));
        struct life *l = lives_find(ls, id ? id : "");

        if (!l)
                return;
        life_not_busy(l); /* the answer to what it asks comes after this */
        if (l->sandbox.state != SANDBOX_KILLING)
                put_right(l, fact);
}
