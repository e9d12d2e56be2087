/* instance.h - which share of the machine is ours: several data directories may be served on one machine.
 *
 * An instance has a number 0..31, held by a lock on /run/sandglass/instance-N for as long as its engine (or the engine's
 * cell maker) lives, and kept for its data directory while sandboxes of it run.  The number gives the names and ranges that
 * must not collide: cgroup parent and nft table "sandglass-N", links "sgN-SLOT", addresses, uid ranges.
 *
 * Uid ranges of 65536 are handed out machine-wide in blocks of 128, noted in /run/sandglass/uids. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct err;

#define INSTANCES_MAX 32u
#define SLOTS_MAX 4096u
#define SLOT_FIRST 16u /* 198.18.0.1 is the gateway of all */
#define INSTANCE_NAME_MAX 24
#define INSTANCE_LINK_MAX 16
#define UID_RANGE 65536u
#define UID_BLOCKS_MAX (SLOTS_MAX / 128u)
#define INSTANCE_GATEWAY 0xc6120001u /* 198.18.0.1; on no interface, permanent neighbour of every sandbox */

struct instance {
        unsigned number;
        int lock;                          /* flock'd */
        char name[INSTANCE_NAME_MAX];      /* "sandglass-N" */
        uint8_t uid_block[UID_BLOCKS_MAX]; /* block + 1 for slots 128 i .. 128 i + 127; 0: none yet */
};

/* Take the number this data directory had last, or a free one, and note it in <data>/engine.json.
 * ERR_LIMIT: all are taken.  ERR_CONFLICT: an engine of this data directory is still running. */
int instance_take(int data_dir, struct instance *ret, struct err *err);
/* Give the number and its uid blocks back; only when no sandbox of it lives. */
void instance_give_up(struct instance *in);
void instance_done(struct instance *in); /* let go of the lock; the number stays noted */

int instance_uid_base(struct instance *in, unsigned slot, uint32_t *ret, struct err *err);
void instance_link_name(const struct instance *in, unsigned slot, char out[INSTANCE_LINK_MAX]);
uint32_t instance_address(const struct instance *in, unsigned slot);
