/* After a reconnect: what the rows say is compared with what the engine has, and every life follows the engine.
 *
 *   row                  engine: running      paused                       nothing
 *   RUNNING              -                    it is paused                 it has ended
 *   PAUSING              it runs on, 503      it is paused                 it has ended
 *   PAUSED               (strange) it runs    -, or another's: moved aside -, or its files are missing: it is hidden
 *   RESUMING             it runs              it is paused, 503            it is paused, 503, as PAUSED
 *   COPYING              it runs on           it is paused                 it has ended
 *   COPYING_PAUSED       -                    as PAUSED                    as PAUSED
 *   SNAPSHOTTING         it runs on           it is begun again            it has ended
 *   ROLLING_BACK         whatever the engine has: ended, and begun again from the snapshot
 *   ROLLING_BACK_PAUSED  whatever the engine has: ended, then PAUSED
 *   KILLING              whatever the engine has: ended again; it is gone when the engine has said so
 *   STARTING             the same at a start of control; but a paused one was acknowledged once, and is moved aside
 *   no row               moved aside          moved aside
 *
 * Moved aside (the engine's lost/): this store did not make the sandbox, or has forgotten it, so this store must not delete it.
 * The same holds for checkpoints and layers that are not in the store.
 *
 * "ended" at the engine: as "nothing", but files are left that were neither paused nor running when the engine or the machine
 * started.  They stay until the row is gone, on disk.  If the row says PAUSED, the machine stopped before the row could say
 * RUNNING: the sandbox is gone as well, unless its row does not need those files (its upper directory was to be a new one).
 *
 * "busy" at the engine: a job process of the engine before works on the sandbox; the fact "rechecked" follows, or "exited". */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/catalogue/refs.h"
#include "control/life/ended_files.h"
#include "control/life/life.h"

#define LIST_TIMEOUT_MS 30000

static const struct err restarted = {
        .kind = ERR_UNAVAILABLE, .msg = "the engine restarted in the middle of it, and nothing has changed: try again"};

static const struct err restarted_without_memory = {
        .kind = ERR_UNAVAILABLE,
        .msg = "the engine restarted in the middle of it, and the sandbox is paused without its memory: try again"};

enum found { FOUND_NOTHING, FOUND_RUNNING, FOUND_PAUSED, FOUND_ENDED, FOUND_BUSY };

static enum found engine_found(const json_t *entry)
{
        const char *state = json_string_value(json_object_get(entry, "state"));

        if (!entry)
                return FOUND_NOTHING;
        if (!state || strcmp(state, "running") == 0)
                return FOUND_RUNNING;
        if (strcmp(state, "ended") == 0)
                return FOUND_ENDED;
        return strcmp(state, "paused") == 0 ? FOUND_PAUSED : FOUND_BUSY;
}

static void life_count_busy(struct life *l)
{
        l->is_busy = true;
        l->lives->busy++;
}

/* ---- sandboxes that have a row ---- */

/* The layer that its upper directory became; NULL: there still is an upper directory. */
static const char *entry_sealed(const json_t *entry)
{
        const char *layer = json_string_value(json_object_get(entry, "sealed"));

        return layer && sealed_id_is_valid(str_of(layer)) ? layer : NULL;
}

static bool life_has_layer(const struct life *l, const char *layer)
{
        json_t *v;
        size_t i;

        json_array_foreach (l->sandbox.layers, i, v)
                if (strcmp(json_string_value(v), layer) == 0)
                        return true;
        return false;
}

/* Its row takes over how the engine has it paused: with which checkpoint, and whether its upper directory was sealed. */
static void life_take_paused_files(struct life *l, const json_t *entry)
{
        const char *checkpoint = json_string_value(json_object_get(entry, "checkpoint"));
        const char *sealed = entry_sealed(entry);
        struct life_row row = life_row_of(l);
        struct err err;

        row.checkpoint = checkpoint && checkpoint_id_is_valid(str_of(checkpoint)) ? checkpoint : "";
        row.image_of = row.checkpoint[0] ? l->sandbox.id : "";
        row.image_secured = row.checkpoint[0] && l->sandbox.is_secured;
        row.upper_kept = !(sealed && life_has_layer(l, sealed));
        (void)life_record_fact(l, &row, &err);
        if (sealed && row.upper_kept)
                life_apply_sealed(l, sealed);
}

static bool life_has_checkpoint_of(const struct life *l, const json_t *entry)
{
        const char *checkpoint = json_string_value(json_object_get(entry, "checkpoint"));

        return strcmp(checkpoint ? checkpoint : "", l->sandbox.checkpoint) == 0;
}

/* PAUSED, and paused at the engine.  Without its memory: the memory was given up when it could not be restored.  Sealed
 * meanwhile: a copy of the sandbox was taken.  With an upper directory that the row knows nothing of: the row is older than the
 * files, and neither of the two may be deleted. */
static void life_compare_paused(struct life *l, const json_t *entry)
{
        const char *sealed = entry_sealed(entry);

        if (l->sandbox.upper_kept) {
                if (!life_has_checkpoint_of(l, entry)) {
                        life_take_paused_files(l, entry);
                        life_show(l);
                } else if (sealed)
                        life_apply_sealed(l, sealed);
        } else if (!(sealed && life_has_layer(l, sealed))) {
                lives_lose(l->lives, l->sandbox.id, "its row is of other files");
        }
}

static void reconcile_running(struct life *l)
{
        const struct sandbox *s = &l->sandbox;
        int64_t now = lives_now(l->lives);

        l->sandbox.is_missing = false;
        switch (s->state) {
        case SANDBOX_PAUSING:
                life_now_running(l, s->started_ns, s->end_ns);
                life_transition_done(l, &restarted);
                break;
        case SANDBOX_PAUSED:
                log_warn("sandbox.strange", "sandbox=%s runs and should be paused", s->id);
                life_go(l, SANDBOX_RESUMING);
                life_now_running(l, now, now + (int64_t)s->timeout_s * 1000000000);
                life_transition_done(l, NULL);
                break;
        case SANDBOX_RESUMING:
                life_now_running(l, s->started_ns, s->end_ns);
                life_transition_done(l, NULL);
                break;
        case SANDBOX_COPYING: life_fail_copy(l, &restarted); break;
        case SANDBOX_SNAPSHOTTING:
                life_drop_sealing(l);
                life_now_running(l, s->started_ns, s->end_ns);
                life_give_image(l, &restarted);
                life_transition_done(l, NULL);
                break;
        default: break;
        }
}

/* RESUMING. */
static void reconcile_resume_failed(struct life *l, const struct err *err)
{
        life_now_paused(l, l->was_started_ns ? l->was_started_ns : l->sandbox.started_ns,
                        l->was_end_ns ? l->was_end_ns : lives_now(l->lives), err);
}

static void reconcile_paused(struct life *l, const json_t *entry)
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
                life_take_paused_files(l, entry);
                life_now_paused(l, l->sandbox.started_ns, lives_now(l->lives), NULL);
                break;
        case SANDBOX_PAUSING:
                life_take_paused_files(l, entry);
                l->step = STEP_PAUSE;
                life_on_paused(l, NULL);
                break;
        case SANDBOX_PAUSED: life_compare_paused(l, entry); break;
        case SANDBOX_RESUMING:
                if (l->sandbox.upper_kept && !life_has_checkpoint_of(l, entry)) {
                        life_take_paused_files(l, entry); /* its memory was used, and is gone */
                        reconcile_resume_failed(l, &restarted_without_memory);
                } else
                        reconcile_resume_failed(l, &restarted);
                break;
        case SANDBOX_SNAPSHOTTING:
                life_take_paused_files(l, entry);
                life_give_image(l, &restarted);
                life_begin_again(l);
                break;
        default: break;
        }
}

static void reconcile_nothing(struct life *l)
{
        switch (l->sandbox.state) {
        case SANDBOX_RUNNING:
        case SANDBOX_PAUSING:
        case SANDBOX_COPYING:
        case SANDBOX_SNAPSHOTTING: life_exited(l); break;
        case SANDBOX_RESUMING:
                if (l->sandbox.upper_kept)
                        life_files_missing(l);
                reconcile_resume_failed(l, &restarted);
                break;
        case SANDBOX_PAUSED:
                if (l->sandbox.upper_kept)
                        life_files_missing(l);
                break;
        default: break;
        }
}

static void reconcile_ended(struct life *l, const json_t *entry)
{
        bool is_at_rest = l->sandbox.state == SANDBOX_PAUSED || l->sandbox.state == SANDBOX_RESUMING;
        struct life_row row = life_row_of(l);
        struct err err;

        if (is_at_rest &&
            !l->sandbox.upper_kept) { /* paused, as its row says; the files that it was begun with are in the way */
                row.state = SANDBOX_PAUSED;
                (void)life_record_fact(l, &row, &err);
                if (l->sandbox.state == SANDBOX_RESUMING)
                        life_go(l, SANDBOX_PAUSED);
                life_go(l, SANDBOX_ROLLING_BACK_PAUSED);
                life_end_first(l);
        } else if (json_is_true(json_object_get(entry, "rebooted")))
                life_ended_with_machine(l);
        else
                life_exited(l);
}

/* It was being copied when the link was lost. */
static void reconcile_copying_paused(struct life *l, const json_t *entry)
{
        life_drop_sealing(l);
        life_go(l, SANDBOX_PAUSED);
        if (engine_found(entry) == FOUND_PAUSED)
                life_compare_paused(l, entry);
        life_give_image(l, &restarted);
        if (l->sandbox.state == SANDBOX_PAUSED)
                life_transition_done(l, &restarted);
}

/* A sandbox that is not in the list may still be on its way out: only the answer to a kill says that it is gone. */
static void reconcile_killing(struct life *l, enum found found)
{
        if (l->was_starting && found == FOUND_PAUSED) {
                lives_lose(l->lives, l->sandbox.id, "its row is from before it ran");
                life_remove_row(l);
                life_finish(l);
                return;
        }
        if (found == FOUND_BUSY)
                life_count_busy(l);
        life_ask_kill(l);
}

/* A step that runs in it goes on.  Whatever else was under way, the build takes this step again. */
static void reconcile_build(struct life *l, enum found found)
{
        if (found == FOUND_RUNNING && l->sandbox.state == SANDBOX_RUNNING)
                return;
        if (found == FOUND_NOTHING || found == FOUND_ENDED)
                life_exited(l);
        else
                life_commit_lost(l);
}

static void reconcile_life(struct life *l, const json_t *entry)
{
        enum found found = engine_found(entry);

        if (l->sandbox.state == SANDBOX_KILLING) {
                reconcile_killing(l, found);
                return;
        }
        /* A step that waits for the disk, or whose call was not sent yet, goes on by itself. */
        timer_clear(&l->retry);
        if (durable_is_waiting(&l->synced) || engine_call_is_started(&l->call) || l->sandbox.state == SANDBOX_STARTING)
                return;
        if (life_is_build(l)) {
                if (found == FOUND_BUSY)
                        life_count_busy(l);
                reconcile_build(l, found);
        } else if (l->sandbox.state == SANDBOX_ROLLING_BACK || l->sandbox.state == SANDBOX_ROLLING_BACK_PAUSED)
                life_end_first(l);
        else if (found == FOUND_BUSY)
                life_count_busy(l);
        else if (l->sandbox.state == SANDBOX_COPYING_PAUSED)
                reconcile_copying_paused(l, entry);
        else if (found == FOUND_RUNNING)
                reconcile_running(l);
        else if (found == FOUND_PAUSED)
                reconcile_paused(l, entry);
        else if (found == FOUND_ENDED)
                reconcile_ended(l, entry);
        else
                reconcile_nothing(l);
}

static void lives_mark_listed(struct lives *ls, const json_t *sandboxes)
{
        json_t *v;
        size_t i;

        json_array_foreach (sandboxes, i, v) {
                const char *id = json_string_value(json_object_get(v, "id"));
                struct life *l = lives_find(ls, id ? id : "");

                if (l && l->sandbox.state != SANDBOX_STARTING)
                        l->listed = v;
                else if (!l && sandbox_id_is_valid(str_of(id)) && engine_found(v) == FOUND_ENDED)
                        ended_files_drop(ls->o.ended, id);
                else if (!l && sandbox_id_is_valid(str_of(id)))
                        lives_lose(ls, id, "no row of the store names it");
        }
}

static void lives_clean_up(struct lives *ls, const json_t *answer)
{
        refs_drop_unused(ls->o.refs);
        lives_lose_names(ls, answer);
        ls->o.on_many_layers(ls->o.arg); /* chains of before may be too long */
}

void lives_reconcile(struct lives *ls, const json_t *answer)
{
        ls->busy = 0;
        lives_forget_strangers(ls);
        LIST_EACH (node, &ls->all)
                LIST_ENTRY(node, struct life, node)->is_busy = false;
        lives_mark_listed(ls, json_object_get(answer, "sandboxes"));
        LIST_EACH (node, &ls->all) {
                struct life *l = LIST_ENTRY(node, struct life, node);
                const json_t *entry = l->listed;

                l->listed = NULL;
                reconcile_life(l, entry);
        }
        if (ls->busy == 0 && list_is_empty(&ls->strangers))
                lives_clean_up(ls, answer); /* else a job process may be about to make files that no row names yet */
}

static void lives_listed_again(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct lives *ls = CONTAINER_OF(c, struct lives, list);

        if (!err && ls->busy == 0 && list_is_empty(&ls->strangers))
                lives_clean_up(ls, answer);
}

void lives_list_again(struct lives *ls)
{
        if (ls->busy > 0 || !list_is_empty(&ls->strangers) || engine_call_is_started(&ls->list))
                return;
        ls->list.on = lives_listed_again;
        engine_call(ls->o.engine, &ls->list, json_pack("{s:s}", "op", "list"), LIST_TIMEOUT_MS);
}

void life_no_job_left(struct life *l)
{
        struct lives *ls = l->lives;

        if (!l->is_busy)
                return;
        l->is_busy = false;
        if (--ls->busy == 0)
                lives_list_again(ls);
}

void life_job_left_nothing(struct life *l)
{
        life_no_job_left(l);
        reconcile_life(l, NULL);
}

void lives_rechecked(struct lives *ls, const json_t *fact)
{
        const char *id = json_string_value(json_object_get(fact, "id"));
        struct life *l = lives_find(ls, id ? id : "");

        if (!l)
                return;
        life_no_job_left(l); /* the answer to a list that this asks for comes later */
        if (l->sandbox.state != SANDBOX_KILLING)
                reconcile_life(l, fact);
}
