/* store.h - what survives a restart of control: teams, keys, sandboxes, snapshots, the token seed, what may be deleted.
 *
 * The only code that knows the database.  One process owns it (the file is locked while it is open).  Calls block for
 * microseconds: writes go to the write-ahead log without waiting for the disk, so a power cut may lose the last ones,
 * but then running sandboxes are gone too.  What must not be lost (a pause, a snapshot) is on disk once an fdatasync() of
 * store_log_fd() that began after the write has returned; that may be done in another thread.  store_tidy() does the
 * slow part of housekeeping when there is time for it.
 *
 * A full disk: the store opens and is read, rows are removed, and changed as long as they hardly grow (room.c).  What adds a
 * row fails with ERR_NO_SPACE. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "model/ids.h"
#include "model/sandbox.h"
#include "model/snapshot.h"

struct err;
struct store; /* opaque */

/* Open or make the database file, and bring an older one up to date.
 * ERR_CONFLICT: another process has it.  ERR_INVALID: written by a newer version, or damaged. */
int store_open(const char *path, struct store **ret, struct err *err);
struct store *store_close(struct store *s);

/* Changes between begin and commit happen together or not at all; store_rollback() also after a failed commit. */
int store_begin(struct store *s, struct err *err);
int store_commit(struct store *s, struct err *err);
void store_rollback(struct store *s);

bool store_wants_tidy(const struct store *s); /* has the log grown long? */
void store_tidy(struct store *s);             /* moves it into the file; waits for the disk */

/* Room on disk for changes while the disk is full: set aside when the store opens, and here what is missing of it.  false:
 * there is no room now, try again later. */
bool store_keep_room(struct store *s);

int store_log_fd(const struct store *s); /* borrowed: only to be flushed */

#define STORE_SEED_LEN 32
/* Random bytes made once per database: what tokens are derived from. */
int store_seed(struct store *s, uint8_t ret[STORE_SEED_LEN], struct err *err);

struct store_team {
        int64_t no; /* picked by the store when it is added */
        char id[UUID_MAX];
        const char *slug; /* borrowed, as the next */
        const char *name;
};
int store_team_add(struct store *s, const struct store_team *t, int64_t *ret_no, struct err *err);
int store_team_each(struct store *s, int (*each)(const struct store_team *t, void *arg), void *arg, struct err *err);

#define STORE_KEY_HASH_LEN 32
enum store_key_kind {                     /* the numbers are in the database */
                      STORE_KEY_GIVEN,    /* made for somebody by the operator */
                      STORE_KEY_OPERATOR, /* the key of <data>/env: may manage keys, too */
                      STORE_KEY_USER,     /* of a user of the machine, who is a member of the group: `uid` */
};
struct store_key {
        char id[UUID_MAX];
        int64_t team;
        const char *name; /* borrowed, as the next */
        const char *mask; /* what may be shown of the key */
        uint8_t hash[STORE_KEY_HASH_LEN];
        enum store_key_kind kind;
        uint32_t uid; /* STORE_KEY_USER only */
        int64_t created_ns;
        int64_t last_used_ns; /* 0: never */
};
/* ERR_CONFLICT: that key is there already, or the user has one. */
int store_key_add(struct store *s, const struct store_key *k, struct err *err);
int store_key_remove(struct store *s, const char *id, struct err *err); /* fine when it is not there */
int store_key_used(struct store *s, const char *id, int64_t at_ns, struct err *err);
/* Oldest first. */
int store_key_each(struct store *s, int (*each)(const struct store_key *k, void *arg), void *arg, struct err *err);

/* ERR_CONFLICT: that id is there already. */
int store_sandbox_add(struct store *s, const struct sandbox *sb, struct err *err);
/* From STARTING to RUNNING. */
int store_sandbox_started(struct store *s, const char *id, int64_t started_ns, int64_t end_ns, struct err *err);
int store_sandbox_set_end(struct store *s, const char *id, int64_t end_ns, struct err *err);
/* All that changes when it is paused, resumed, snapshotted or rolled back; but for env, which stays as it was added. */
int store_sandbox_update(struct store *s, const struct sandbox *sb, struct err *err);
/* *ret is the caller's; NULL: none. */
int store_sandbox_env(struct store *s, const char *id, json_t **ret, struct err *err);
/* Its row stays, as KILLING, until the engine has said that nothing of it is left. */
int store_sandbox_kill(struct store *s, const char *id, struct err *err);
int store_sandbox_remove(struct store *s, const char *id, struct err *err); /* fine when it is not there */
/* `each` may move the contents out of sb; what is left is released.  A negative return ends the walk. */
int store_sandbox_each(struct store *s, int (*each)(struct sandbox *sb, void *arg), void *arg, struct err *err);

/* ERR_CONFLICT: that id is there already. */
int store_snapshot_add(struct store *s, const struct snapshot *sn, struct err *err);
int store_snapshot_set_layers(struct store *s, const char *id, const json_t *layers, struct err *err);
int store_snapshot_remove(struct store *s, const char *id, struct err *err); /* fine when it is not there */
/* As store_sandbox_each(), oldest first. */
int store_snapshot_each(struct store *s, int (*each)(struct snapshot *sn, void *arg), void *arg, struct err *err);

/* Names of checkpoints and sealed layers that may be deleted: they are being made, or nobody needs them any more (refs.h).
 * Fine when it is there already, or not there. */
int store_disposable_add(struct store *s, const char *name, struct err *err);
int store_disposable_remove(struct store *s, const char *name, struct err *err);
int store_disposable_each(struct store *s, int (*each)(const char *name, void *arg), void *arg, struct err *err);

/* What token envd has in a checkpoint, where that is not derived from this store's seed: it was restored from another one. */
int store_image_token_add(struct store *s, const char *checkpoint, const char *token, struct err *err);
int store_image_token_remove(struct store *s, const char *checkpoint, struct err *err); /* fine when there is none */
int store_image_token_each(struct store *s, int (*each)(const char *checkpoint, const char *token, void *arg),
                           void *arg, struct err *err);
