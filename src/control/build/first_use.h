/* first_use.h - ready-made templates (dockerfile/ready_folder.h) are built when somebody uses their name for the first time.
 *
 * The template belongs to the server's first team, is public, and is known to all teams by its bare name, like `base`.  Whoever
 * comes while it is being built waits for the same build. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/list.h"
#include "model/ids.h"
#include "model/template_ref.h"

struct build_entry;
struct buf;
struct builds_run;
struct err;
struct uploads;

struct first_use_waiter { /* embedded; zeroed: waits for nothing */
        struct list node;
        char build[UUID_MAX];
        void (*on)(struct first_use_waiter *w); /* once: the build is over; its row says how */
};

struct first_use {
        struct builds_run *builds; /* borrowed, as the next */
        struct uploads *uploads;
        char *dir;           /* owned: where the folders are; NULL: there are none */
        json_t *other_names; /* owned: {"other name": "name of a folder"}; NULL: none */
        struct list waiters; /* of struct first_use_waiter */
};

void first_use_init(struct first_use *fu, struct builds_run *builds, struct uploads *uploads);
void first_use_done(struct first_use *fu); /* waiters are not called; also zeroed */

/* Is it the name of a ready-made template? */
bool first_use_knows(const struct first_use *fu, const struct template_ref *ref);
void first_use_names(const struct first_use *fu, struct buf *out); /* ", " between them */
/* The build of a ready-made template, begun if none is under way; w is called when it is over.  Reads the folder's files.
 * Negative: nothing was begun. */
int first_use_begin(struct first_use *fu, const char *name, struct first_use_waiter *w, struct err *err);
void first_use_cancel(struct first_use_waiter *w); /* fine when it waits for nothing: the build goes on */
void first_use_build_over(struct first_use *fu, const char *build_id);
