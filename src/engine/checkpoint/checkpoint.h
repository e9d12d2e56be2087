/* checkpoint.h - a sandbox's memory on disk: checkpoints/<id>/ with CRIU's images and a manifest, renamed in place last.
 *
 * A directory without a manifest is rubbish.  Checksums are CRC32C, by the processor's instruction where there is one. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/ids.h"

struct err;
struct image_sums;

#define CHECKPOINT_FORMAT 1
#define CHECKPOINT_IMAGES "images" /* directory below the checkpoint's own, where CRIU writes */
#define CHECKPOINT_HASH_MAX 65

struct checkpoint_facts {               /* what the manifest says besides files */
        char sandbox[SANDBOX_ID_MAX];   /* whose memory it is */
        char envd[CHECKPOINT_HASH_MAX]; /* sha256 of the envd that is mapped in it, hex */
        uint32_t uid_base;
        uint32_t address; /* its own at the time, host byte order; 0: none */
        uint64_t frozen_us;
};

/* Sum up the images below dir (those that are not in `sums` already, which may be NULL), and with is_durable flush
 * everything; then write the manifest.  *ret_bytes: of all files. */
int checkpoint_finish(int dir, const struct checkpoint_facts *f, const struct image_sums *sums, bool is_durable,
                      uint64_t *ret_bytes, struct err *err);
/* Has the checkpoint of that name a manifest?  Where the disk cannot tell: yes. */
bool checkpoint_is_complete(int checkpoints_dir, const char *name);
int checkpoint_flush(int dir, struct err *err); /* what was finished without */

struct checkpoint; /* an opened one: opaque */
/* ERR_NOT_FOUND: there is none or it is incomplete.  ERR_INVALID "checkpoint damaged: ..." or of another format. */
int checkpoint_open(int dir, struct checkpoint **ret, struct err *err);
struct checkpoint *checkpoint_free(struct checkpoint *c);
const struct checkpoint_facts *checkpoint_facts(const struct checkpoint *c);
/* Compare sizes and checksums: small files at once; `large` ones too or only those (they may be checked while CRIU reads
 * them already, as long as nothing runs before the result is known).  ERR_INVALID "checkpoint damaged: FILE ...". */
int checkpoint_verify_small(const struct checkpoint *c, struct err *err);
int checkpoint_verify_large(const struct checkpoint *c, struct err *err);
/* Fill `work` with links to the images, the user namespace's range replaced by uid_base.  It is an empty directory on the
 * same file system (links by path would lead through directories that are closed to the sandbox's uids) and of mode 0711,
 * like the images' own: restored processes open images under their own uids. */
int checkpoint_rebase(const struct checkpoint *c, int work, uint32_t uid_base, struct err *err);
