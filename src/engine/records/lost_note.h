/* lost_note.h - <data>/lost/: what lay on the disk and no row of the store knew, moved aside.
 *
 *   lost/<name>        a sandbox's directory, a checkpoint or a sealed layer, as it was: one rename, which needs no room
 *   lost/<name>.json   why and when; written before the rename, so that nothing lies here without a reason unless the disk
 *                      was full; a note without its directory says nothing and goes at the next start
 *
 * What is needed to bring a sandbox back lies in its directory: paused.json, and origin.json (origin.h). */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/proc.h"

#define LOST_DIR "lost"
#define LOST_WHY_MAX 128
#define LOST_WAS_MAX 16

enum lost_kind { LOST_SANDBOX, LOST_CHECKPOINT, LOST_LAYER, LOST_KINDS };
const char *lost_kind_name(enum lost_kind kind);
bool lost_kind_of(const char *name, enum lost_kind *ret); /* by the form of its id; false: none of ours */

struct lost_clock {      /* what the clocks said at one moment */
        int64_t real_ns; /* anybody may set it, to anything */
        int64_t boot_ns; /* since the machine was started; 0: never looked */
        char boot_id[SYS_BOOT_ID_MAX];
};

struct lost_note {
        int64_t lost_ns;        /* when; real time, for people */
        int64_t kept_ns;        /* how long it was seen lying there: lost_days go by that */
        struct lost_clock seen; /* at the last look */
        char was[LOST_WAS_MAX];
        char why[LOST_WHY_MAX]; /* "": not known */
};

void lost_clock_now(struct lost_clock *ret);
/* Count the time since the last look.  While the machine runs that is certain.  Between two boots only the real-time clock
 * knows, which may be wrong by years: no more than a day is counted. */
void lost_note_look(struct lost_note *n, const struct lost_clock *now);

int lost_note_write(int lost, const char *name, const struct lost_note *n);
/* Without a note: when its directory was moved, as far as the file system knows. */
void lost_note_read(int lost, const char *name, struct lost_note *ret);
void lost_note_remove(int lost, const char *name);

struct lost_count {
        unsigned of[LOST_KINDS];
};
/* Of a data directory; all zero when nothing is lost.  Negative: lost/ cannot be read. */
int lost_count(int data, struct lost_count *ret);
