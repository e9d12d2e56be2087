/* used_checkpoints.h - <data>/used-checkpoints: which checkpoints have been used up by resuming the sandbox whose files they belong to.
 *
 * Removing paused.json says so, too, but reaches the disk when the journal is written, and bytes that a resumed sandbox writes
 * over others in its files may get there before it.  After a power cut its old memory would then be restored with newer files.
 * So it is written here first, and waited for; then paused.json is removed, and then it moves.  One block for each, in
 * place, which needs no journal and costs the disk one write.  The blocks are used in turn: when one is written over, the
 * journal with the removal of that paused.json is on disk since long. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "model/ids.h"

struct err;

/* Made, durably, where there is none.  *ret: an fd that waits for the disk; *ret_turn: the first turn that is nobody's. */
int used_checkpoints_open(int data_dir, int *ret, uint64_t *ret_turn, struct err *err);
/* A sandbox is about to run on the files of this checkpoint.  Every mark has a turn of its own.  Blocks. */
int used_checkpoints_mark(int fd, uint64_t turn, const char *checkpoint, const char *boot_id, struct err *err);
/* It is not, after all, and rests as before; also where there is no such mark.  Blocks. */
int used_checkpoints_unmark(int fd, const char *checkpoint, struct err *err);
/* Where there was no room for the file when the engine began: the same by the journal, of the sandbox's own directory. */
int used_checkpoints_flush(int dir, struct err *err);
/* For a paused.json that is there: was it to be gone when the machine went down? */
enum checkpoint_use {
        CHECKPOINT_UNUSED,
        CHECKPOINT_USED_NOW,    /* about to be, in this boot, but it did not come to that: to be unmarked */
        CHECKPOINT_USED_BEFORE, /* yes: in an earlier boot */
};
enum checkpoint_use used_checkpoints_find(int fd, const char *checkpoint, const char *boot_id);
