/* woken.h - <data>/woken: which checkpoints have been used up by waking the sandbox whose files they belong to.
 *
 * Removing still.json says so, too, but reaches the disk when the journal is written, and bytes that a woken sandbox writes
 * over others in its files may get there before it.  After a power cut its old memory would then be woken with newer files.
 * So it is written here first, and waited for; then still.json is removed, and then it moves.  One block for each, in
 * place, which needs no journal and costs the disk one write.  The blocks are used in turn: when one is written over, the
 * journal with the removal of that still.json is on disk since long. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "model/ids.h"

struct err;

/* Made, durably, where there is none.  *ret: an fd that waits for the disk; *ret_turn: the first turn that is nobody's. */
int woken_open(int data_dir, int *ret, uint64_t *ret_turn, struct err *err);
/* A sandbox is about to run on the files of this checkpoint.  Every mark has a turn of its own.  Blocks. */
int woken_mark(int fd, uint64_t turn, const char *checkpoint, const char *boot_id, struct err *err);
/* It is not, after all, and rests as before; also where there is no such mark.  Blocks. */
int woken_unmark(int fd, const char *checkpoint, struct err *err);
/* Where there was no room for the file when the engine began: the same by the journal, of the sandbox's own directory. */
int woken_flush(int dir, struct err *err);
/* For a still.json that is there: was it to be gone when the machine went down? */
enum woken {
        WOKEN_NOT,
        WOKEN_NOW,    /* about to be, in this boot, but it did not come to that: to be unmarked */
        WOKEN_BEFORE, /* yes: in an earlier boot */
};
enum woken woken_find(int fd, const char *checkpoint, const char *boot_id);
