/* one.h - one sandbox with something to lose, and job processes that can be held where they are: what tests of pauses, wakes and
 * copies share. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>
#include <tap.h>

#include "rig.h"

#define A "iaaaaaaaaaaaaaaaaaaaa"
#define B "ibbbbbbbbbbbbbbbbbbbb"
#define LAYER "u-aaaaaaaaaaaaaaaaaaaa"
#define IMAGE "caaaaaaaaaaaaaaaaaaaa"

extern struct rig g;

bool can_run(void); /* false: says why they are skipped */

json_t *used_checkpoints(const char *id); /* plan: on its files, from IMAGE */
bool begin(void);                         /* A, with something in memory and in a file */
bool is_itself(void);                     /* A has both, and goes on */

int stall(const char *point); /* the next job process that comes there waits; 0: it will */
int reach(const char *point); /* wait until one is there; it goes on when the fd is closed */
bool end_one(pid_t pid);      /* never everybody */
void send_pause(void);        /* ask, and do not wait */
void send_wake(void);
const char *fact(void);       /* "event state" of the next one */
void put_the_disk_back(void); /* after a small one was mounted over the data directory */

bool is_nothing_left(void);

/* An engine that stops takes its own along: what is there then was left.  (Here, since each program counts its own cases.) */
__attribute__((unused)) static void nothing_is_left(void)
{
        CHECK(is_nothing_left());
}

#define RUN_CLEAN(fn)                                                                                                  \
        do {                                                                                                           \
                RUN(fn);                                                                                               \
                RUN(nothing_is_left);                                                                                  \
        } while (0)
