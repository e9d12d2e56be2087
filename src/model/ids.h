/* ids.h - identifiers of the wire contract: making and checking them.  Pure but for the kernel's random source. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

#define SANDBOX_ID_LEN 21 /* 'i' + 20 of [a-z0-9] */
#define SANDBOX_ID_MAX (SANDBOX_ID_LEN + 1)
#define CHECKPOINT_ID_LEN 21 /* 'c' + 20 of [a-z0-9] */
#define CHECKPOINT_ID_MAX (CHECKPOINT_ID_LEN + 1)
#define SEALED_ID_LEN 22 /* "u-" + 20 of [a-z0-9]: a layer that was the upper directory of a sandbox */
#define SEALED_ID_MAX (SEALED_ID_LEN + 1)
#define LAYER_ID_MAX 65    /* layer_id_is_valid() */
#define TEMPLATE_ID_MAX 21 /* 20 of [a-z0-9] + NUL */
#define UUID_MAX 37
#define CLIENT_ID "6532622b" /* a constant of the contract, required in every answer */
#define ENVD_PORT 49983
#define ENVD_VERSION "0.6.13" /* of the wire contract that envd speaks; clients decide by it */

void sandbox_id_make(char out[SANDBOX_ID_MAX]);
/* Exactly the form we make.  Used wherever an id becomes a path. */
bool sandbox_id_is_valid(struct str s);
/* A sandbox that was restored ahead and has no identity yet (engine/guest/standby.h): 's' + 20 of [a-z0-9].  The two kinds of
 * names never meet, and the name of a directory says which of the two is in it. */
void standby_id_make(char out[SANDBOX_ID_MAX]);
bool standby_id_is_valid(struct str s);
bool guest_id_is_valid(struct str s); /* of a sandbox, or of a standby */
void checkpoint_id_make(char out[CHECKPOINT_ID_MAX]);
bool checkpoint_id_is_valid(struct str s);
void sealed_id_make(char out[SEALED_ID_MAX]);
bool sealed_id_is_valid(struct str s);
bool layer_id_is_sealed(const char *layer); /* of a valid layer id: is it kept with the sealed ones? */
void uuid_make(char out[UUID_MAX]);         /* version 4 */
bool layer_id_is_valid(struct str s);       /* [a-z0-9][a-z0-9-]{0,63}; what begins with "u-" is a sealed one in full */
