/* life.h - what the files that drive lives (lives.h) share, and nobody else uses. */
#pragma once
#include "control/life/lives.h"

#define CREATE_TIMEOUT_MS 30000
#define BEGIN_TIMEOUT_MS 300000 /* with memory: all of it may have to be read */
#define PAUSE_TIMEOUT_MS 900000 /* and written */
#define COPY_TIMEOUT_MS PAUSE_TIMEOUT_MS
#define SEAL_TIMEOUT_MS 120000
#define FLUSH_TIMEOUT_MS 900000

/* ---- lives.c ---- */

int life_create(struct lives *ls, struct sandbox *s, struct team *team, struct life **ret); /* s is moved from */
struct life *life_free(struct life *l);                                                     /* NULL */
void life_go(struct life *l, enum sandbox_state next); /* the only writer of the state: counters and deadlines follow */
/* The transition is over: those who wait are told the state that is reached.  l may be gone afterwards. */
void life_transition_done(struct life *l, const struct err *err);
void life_tell(struct life *l, enum sandbox_state reached, const struct err *err);
void life_leave(struct life *l);  /* gone: it is not found any more, so that nobody begins to wait for it */
void life_finish(struct life *l); /* life_leave(), if that was not done yet; those who wait are told, and it is freed */
void life_show(struct life *l);   /* edges learn how it is now */
int life_set_deadline(struct life *l, int64_t end_ns);
void lives_tidy_later(struct lives *ls);

/* ---- life_row.c ---- */

/* What of the row a transition changes. */
struct life_row {
        enum sandbox_state state;          /* in the store; in memory life_go() follows when the time has come */
        const char *checkpoint, *image_of; /* borrowed; "": none */
        json_t *layers;                    /* borrowed */
        bool upper_kept, image_secured;
        int64_t started_ns, end_ns;
};
struct life_row life_row_of(const struct life *l); /* as it is, to be edited; borrows from l */
/* Write the row, hold the names in it, take both over.  Negative: nothing changed. */
int life_record(struct life *l, const struct life_row *row, struct err *err);
/* What has happened happened: memory follows even when the store cannot; logged, and *err says so. */
int life_record_fact(struct life *l, const struct life_row *row, struct err *err);

/* It ends, whatever the store says: a row that cannot be removed now is tried again. */
void lives_remove_rows_again(struct lives *ls);
void lives_forget_rows(struct lives *ls); /* the next start finds them without a sandbox */

int life_write_again(struct life *l, struct err *err); /* the row, if that failed the last time */
int life_add_row(struct lives *ls, const struct sandbox *s, struct err *err);
/* Nothing of it is left, as the engine says: what nobody else needs of its names may go. */
void life_remove_row(struct life *l);
void lives_remove_row(struct lives *ls, const char *id, const char *checkpoint, const json_t *layers);
/* It is to be ended: its row stays, as KILLING, so that after a crash it is known what to end. */
void life_mark_row_killing(struct life *l);
void life_set_names(struct life *l, const char *checkpoint, json_t *layers); /* in its row; layers is borrowed */

/* ---- one step at the engine ---- */
void life_call(struct life *l, enum life_step step, json_t *msg, unsigned timeout_ms);
int life_call_create(struct life *l, bool with_memory, struct err *err); /* begin what the row describes */
void life_sync(struct life *l);                                          /* STEP_SYNC */
/* Is the end of the step unknown?  Then reconciling will tell. */
bool life_step_is_unknown(struct life *l, const struct err *err);

/* For the engine to keep with what it makes (origins.h), on these layers; NULL: not now, and nothing fails for that. */
json_t *life_origin(struct life *l, const json_t *layers);

/* ---- the end of a step, by state ---- */
void life_on_created(struct life *l, const struct err *err);       /* STARTING: life_start.c */
void life_on_paused(struct life *l, const struct err *err);        /* PAUSING: life_pause.c */
void life_on_resumed(struct life *l, const struct err *err);       /* RESUMING */
void life_on_envd_silent(struct life *l, const json_t *silent);    /* the same: it runs, and its envd does not answer */
void life_on_copied(struct life *l, const struct err *err);        /* COPYING: life_image.c */
void life_on_snapshotted(struct life *l, const struct err *err);   /* SNAPSHOTTING */
void life_on_copied_paused(struct life *l, const struct err *err); /* COPYING_PAUSED */
void life_on_rolled_back(struct life *l, const struct err *err);   /* ROLLING_BACK: life_rollback.c */
void life_on_rolled_back_paused(struct life *l, const struct err *err); /* ROLLING_BACK_PAUSED */
void life_ask_kill(struct life *l);                                     /* life_end.c */
void life_exited(struct life *l);                                       /* died by itself */
void life_ended_with_machine(struct life *l);                           /* likewise, with the machine */

/* ---- life_pause.c ---- */
void life_expire(struct life *l); /* its time is up */
/* It is to be paused, and the engine does not have it.  Its row stays, unseen, until its files are back or it is killed:
 * what is not found is not therefore given up. */
void life_files_missing(struct life *l);
/* It runs (again): its row says so, its deadline is set, the edges know, and who waits is told. */
void life_now_running(struct life *l, int64_t started_ns, int64_t end_ns);
/* It is at rest, as its row says, and was begun in vain, or found so. */
void life_now_paused(struct life *l, int64_t started_ns, int64_t end_ns, const struct err *err);

/* ---- reconcile.c ---- */
void lives_forget_strangers(struct lives *ls);
/* No worker of before is at it any more.  After the last one what they left and no row names is looked for. */
void life_no_job_left(struct life *l);
void life_job_left_nothing(struct life *l); /* busy: nothing is left of it */

/* ---- life_image.c ---- */
void life_apply_sealed(struct life *l, const char *layer);   /* the engine says its upper directory is now that layer */
void life_give_image(struct life *l, const struct err *err); /* to its taker, if any */
/* COPYING: there is no copy, and it goes on. */
void life_fail_copy(struct life *l, const struct err *err);
/* SNAPSHOTTING, and found at rest: begin it again. */
void life_begin_again(struct life *l);
void life_drop_sealing(struct life *l); /* and the checkpoint of a copy */
void life_forget_merged_layers(struct life *l);

/* ---- life_rollback.c ---- */
/* What is there under its id is ended before something else is begun: STEP_END. */
void life_end_first(struct life *l);
void life_end_now(struct life *l);                           /* the row is on disk */
bool life_ends_again(struct life *l, const struct err *err); /* that failed, and is tried again later */
