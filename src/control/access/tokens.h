/* tokens.h - the secrets of sandboxes: derived from the store's seed, so they are the same after every restart and kept
 * nowhere.
 *
 * One exception: a sandbox that was restored from the files of another store has a checkpoint in whose memory envd knows
 * that other store's token.  Such tokens are in the store, by the checkpoint's name. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "store/store.h"
#include "wire/sha256.h"

struct err;

#define TOKEN_MAX (SHA256_HEX_LEN + 1)

struct tokens {
        struct store *store; /* borrowed */
        uint8_t seed[STORE_SEED_LEN];
        json_t *of_checkpoints; /* owned: checkpoint -> token, where that is not derived from the seed */
};

int tokens_load(struct tokens *t, struct store *store, struct err *err);
void tokens_done(struct tokens *t); /* also zeroed */

void token_envd(const struct tokens *t, const char *sandbox_id, char out[TOKEN_MAX]);
void token_traffic(const struct tokens *t, const char *sandbox_id, char out[TOKEN_MAX]);

/* The signature of an upload link; `text` is what the link says. */
void token_upload(const struct tokens *t, const char *text, char out[TOKEN_MAX]);

/* What the API key of a user is made of; `id` is of the key's row. */
void token_user_key(const struct tokens *t, const char *id, uint8_t out[SHA256_LEN]);

/* The token that the store has for a checkpoint; borrowed; NULL: it is the derived one. */
const char *token_of_checkpoint(const struct tokens *t, const char *checkpoint);
int token_of_checkpoint_add(struct tokens *t, const char *checkpoint, const char *token, struct err *err);
void token_of_checkpoint_remove(struct tokens *t, const char *checkpoint); /* fine when there is none */
