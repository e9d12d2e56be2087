/* woken.h - <data>/woken: which checkpoints have been used up by waking the sandbox whose files they belong to.
 *
 * Removing still.json says so, too, but reaches the disk when the journal is written, and bytes that a woken sandbox writes
 * over others in its files may get there before it.  After a power cut its old memory would then be woken with newer files.
 * So it is written here as well, and waited for, before anything moves: one block per slot, in place, which needs no
 * journal and costs the disk one write. */
#pragma once
#include <stdbool.h>

#include "model/ids.h"

struct err;

int woken_open(int data_dir, int *ret,
               struct err *err); /* made, durably, where there is none; an fd that waits for the disk */
/* The sandbox in this slot is about to run, and what it runs on is this checkpoint; "": it is not, after all.  Blocks. */
int woken_mark(int fd, unsigned slot, const char *checkpoint, const char *boot_id, struct err *err);
/* Where there was no room for the file when the engine began: the same by the journal, of the sandbox's own directory. */
int woken_flush(int dir, struct err *err);
/* For a still.json that is there: was it to be gone when the machine went down?  In this boot it is what it seems. */
bool woken_before(int fd, const char *checkpoint, const char *boot_id);

/* A helper (helper.h) that does so, one order after the other, and sends each back with its result. */
struct worker_conf;
struct woken_order {
        char id[SANDBOX_ID_MAX]; /* whose it is: for the sender */
        unsigned slot;
        char checkpoint[CHECKPOINT_ID_MAX];
        int result; /* 0, or a negative errno */
};
int woken_fork(const struct worker_conf *c, int *ret_sock, struct err *err);
