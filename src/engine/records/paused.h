/* paused.h - sandboxes/<id>/paused.json: there while a sandbox is paused, and what of it is kept.
 *
 * Put in place after everything else is on disk, and taken away before anything of the sandbox moves again.  With a
 * running.json beside it the sandbox is paused all the same: what lives of it is frozen and can be spared. */
#pragma once
#include <stdbool.h>

#include "engine/records/kind_facts.h"
#include "model/ids.h"
#include "sys/proc.h"

struct err;

#define PAUSED_FILE "paused.json"

struct paused {
        enum engine_kind kind;              /* that resumes it */
        char checkpoint[CHECKPOINT_ID_MAX]; /* its memory; "": only its files are kept */
        char sealed[SEALED_ID_MAX];         /* the layer that was its upper directory; "": it has that still */
        /* The boot in which it was put there without waiting for the disk: in another one what it names may not be whole.
         * "": all of it was on disk before. */
        char boot_id[SYS_BOOT_ID_MAX];
};

int paused_write(int dir /* sandboxes/<id> */, const char *id, const struct paused *s, bool is_durable,
                 struct err *err);
/* ERR_NOT_FOUND: there is none, so it is not paused.  Anything else: that is not known. */
int paused_read(int dir, const char *id, struct paused *ret, struct err *err);
/* Fine when there is none; paused_write() after it needs no room on disk.  Not waited for on disk: whoever removes it sees
 * to that. */
int paused_remove(int dir);
