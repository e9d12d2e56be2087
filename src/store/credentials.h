/* credentials.h - encrypted credentials: the store keeps bytes that it cannot read (control/credentials). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct err;
struct store;

struct store_credential {
        int64_t team;
        const char *owner; /* borrowed, as the next two; "": the team itself */
        const char *name;
        struct str sealed;
        int64_t created_ns, updated_ns;
};
/* One that is there keeps its created_ns. */
int store_credential_put(struct store *s, const struct store_credential *c, struct err *err);
/* *ret_was_there may be NULL. */
int store_credential_remove(struct store *s, const struct store_credential *which, bool *ret_was_there,
                            struct err *err);

/* A negative return of `each` ends the walk, and is what comes back.  The store is not to be changed in it. */
typedef int (*store_credential_fn)(const struct store_credential *c, void *arg);
/* Those of an owner by name, then those of the team. */
int store_credential_of(struct store *s, int64_t team, const char *owner, store_credential_fn each, void *arg,
                        struct err *err);
int store_credential_each(struct store *s, store_credential_fn each, void *arg, struct err *err);

struct store_credential_usage { /* without the one that it is asked for */
        uint64_t count, bytes;  /* of that owner */
        uint64_t team_count;    /* of all owners in the team */
};
int store_credential_usage(struct store *s, const struct store_credential *of, struct store_credential_usage *ret,
                           struct err *err);
