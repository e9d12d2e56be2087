/* life.h - what the files of this directory share to drive lives (lives.h), and other directories do not use. */
#pragma once
#include "control/life/lives.h"

#define CREATE_TIMEOUT_MS 30000
#define BEGIN_TIMEOUT_MS 300000 /* with memory: all of the memory may have to be read */
#define PAUSE_TIMEOUT_MS 900000 /* all of the memory is written */
#define COPY_TIMEOUT_MS PAUSE_TIMEOUT_MS
#define SEAL_TIMEOUT_MS 120000
#define FLUSH_TIMEOUT_MS 900000

/* ---- lives.c ---- */

int life_create(struct lives *ls, struct sandbox *s, struct team *team, struct life **ret); /* s is moved from */
struct life *life_free(struct life *l);                                                     /* NULL */
void life_go(struct life *l, enum sandbox_state next); /* the only writer of the state; counters and deadlines follow */
/* The transition is over: the waiters are told the state that is reached.  l may be gone afterwards. */
void life_transition_done(struct life *l, const struct err *err);
void life_tell(struct life *l, enum sandbox_state reached, const struct err *err);
void life_leave(struct life *l);  /* GONE: lives_find() does not find it any more, so nothing begins to wait for it */
void life_finish(struct life *l); /* life_leave(), if that was not done yet; the waiters are told, and l is freed */
void life_show(struct life *l);   /* the edges are told how to reach the sandbox now */
int life_set_deadline(struct life *l, int64_t end_ns);
void lives_tidy_later(struct lives *ls);

/* ---- life_row.c ---- */

/* The columns of a row that a transition changes. */
struct life_row {
        enum sandbox_state state;          /* in the store; life_go() changes the state in memory, later */
        const char *checkpoint, *image_of; /* borrowed; "": none */
        json_t *layers;                    /* borrowed */
        bool upper_kept, image_secured;
        int64_t started_ns, end_ns;
};
struct life_row life_row_of(const struct life *l); /* as the life is now, to be edited; borrows from l */
/* Write the row, count its names (refs.h), and change the life in memory alike.  Negative: nothing changed. */
int life_record(struct life *l, const struct life_row *row, struct err *err);
/* The same for something that has happened already: memory is changed even when the store cannot be; that is logged, and *err
 * says so. */
int life_record_fact(struct life *l, const struct life_row *row, struct err *err);

/* Rows of ended sandboxes that could not be removed: try again. */
void lives_remove_rows_again(struct lives *ls);
void lives_forget_rows(struct lives *ls); /* the next start finds that the engine has nothing of them */

int life_write_again(struct life *l, struct err *err); /* the row, if writing it failed the last time */
int life_add_row(struct lives *ls, const struct sandbox *s, struct err *err);
/* The engine has said that nothing of the sandbox is left: names that no other row has may be dropped. */
void life_remove_row(struct life *l);
void lives_remove_row(struct lives *ls, const char *id, const char *checkpoint, const json_t *layers);
/* The sandbox is to be ended: its row stays, as KILLING, so that the end can go on after a crash. */
void life_mark_row_killing(struct life *l);
void life_set_names(struct life *l, const char *checkpoint,
                    json_t *layers); /* the names in its row; layers is borrowed */

/* ---- one step at the engine ---- */
void life_call(struct life *l, enum life_step step, json_t *msg, unsigned timeout_ms);
int life_call_create(struct life *l, bool with_memory, struct err *err); /* begin the sandbox as its row describes it */
void life_sync(struct life *l);                                          /* STEP_SYNC */
/* Is the result of the step unknown?  Then reconciling will tell. */
bool life_step_is_unknown(struct life *l, const struct err *err);

/* The object that the engine keeps beside the files it makes (origins.h), for these layers; NULL: not now, and nothing fails
 * because of that. */
json_t *life_origin(struct life *l, const json_t *layers);

/* ---- the end of a step, by state ---- */
void life_on_created(struct life *l, const struct err *err);       /* STARTING: life_start.c */
void life_on_paused(struct life *l, const struct err *err);        /* PAUSING: life_pause.c */
void life_on_resumed(struct life *l, const struct err *err);       /* RESUMING */
void life_on_envd_silent(struct life *l, const json_t *silent);    /* RESUMING: it runs, and its envd does not answer */
void life_on_copied(struct life *l, const struct err *err);        /* COPYING: life_image.c */
void life_on_snapshotted(struct life *l, const struct err *err);   /* SNAPSHOTTING */
void life_on_copied_paused(struct life *l, const struct err *err); /* COPYING_PAUSED */
void life_on_rolled_back(struct life *l, const struct err *err);   /* ROLLING_BACK: life_rollback.c */
void life_on_rolled_back_paused(struct life *l, const struct err *err); /* ROLLING_BACK_PAUSED */
void life_on_commit_step(struct life *l, const struct err *err);        /* PAUSING, of a build: life_commit.c */
void life_ask_kill(struct life *l);                                     /* life_end.c */
void life_exited(struct life *l);                                       /* it died by itself */
void life_ended_with_machine(struct life *l);                           /* it died with the machine */

/* ---- life_pause.c ---- */
void life_expire(struct life *l); /* its time is up */
/* It should be paused, and the engine does not have its files.  Its row stays, hidden from clients, until the files are back
 * or the sandbox is killed. */
void life_files_missing(struct life *l);
/* It runs (again): its row says so, its deadline is set, and the edges are told. */
void life_now_running(struct life *l, int64_t started_ns, int64_t end_ns);
/* It is paused: it could not be begun again, or the engine was found to have it paused.  Waiters are told. */
void life_now_paused(struct life *l, int64_t started_ns, int64_t end_ns, const struct err *err);

/* ---- reconcile.c ---- */
void lives_list_again(struct lives *ls); /* when no job process and no stranger is left: what else does no row know? */
/* No job process of the engine before works on it any more.  After the last such process, files that no row names are looked
 * for. */
void life_no_job_left(struct life *l);
void life_job_left_nothing(struct life *l); /* it was busy, and the engine has nothing of it any more */

/* ---- life_image.c ---- */
void life_apply_sealed(struct life *l,
                       const char *layer); /* the engine says that its upper directory became that layer */
void life_give(struct life *l, const struct image *image, const struct err *err); /* to its taker, if any */
void life_give_image(struct life *l, const struct err *err);                      /* the image that its row describes */
/* COPYING: there is no copy, and the sandbox goes on. */
void life_fail_copy(struct life *l, const struct err *err);
/* SNAPSHOTTING, and found paused: begin it again. */
void life_begin_again(struct life *l);
void life_drop_sealing(struct life *l); /* the names held for a copy: layer and checkpoint */
void life_forget_merged_layers(struct life *l);

/* Pick, write down and hold the names of a layer to be made and, if wanted, of a checkpoint. */
int life_pick_copy_names(struct life *l, bool with_checkpoint, struct err *err);

/* ---- life_commit.c ---- */
static inline bool life_is_build(const struct life *l)
{
        return l->sandbox.purpose == SANDBOX_FOR_BUILD;
}
void life_commit_lost(struct life *l); /* the engine restarted: what became of the files is not looked for */

/* ---- life_rollback.c ---- */
/* End what the engine has under its id, before the sandbox is begun from a snapshot: STEP_END. */
void life_end_first(struct life *l);
void life_end_now(struct life *l);                           /* the same when the row is on disk already */
bool life_ends_again(struct life *l, const struct err *err); /* did STEP_END fail?  Then it is tried again later */

/* ---- strangers.c ---- */
void lives_forget_strangers(struct lives *ls);
void lives_lose_names(struct lives *ls, const json_t *answer); /* checkpoints and layers in the answer to "list" */
