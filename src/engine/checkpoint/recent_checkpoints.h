/* recent_checkpoints.h - images that our own job processes wrote and summed up a moment ago, and that nobody asked to be on disk: what a fork
 * takes its copies from.  Reading all of them once more to compare sums would tell nothing new. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "model/ids.h"

#define RECENT_CHECKPOINTS_MAX 16
#define RECENT_CHECKPOINTS_S 30u

struct recent_checkpoints {
        struct {
                char id[CHECKPOINT_ID_MAX];
                uint64_t until_us;
        } all[RECENT_CHECKPOINTS_MAX];
        unsigned next;
};

void recent_checkpoints_add(struct recent_checkpoints *f, const char *checkpoint,
                            uint64_t now_us); /* the oldest is forgotten */
bool recent_checkpoints_has(const struct recent_checkpoints *f, const char *checkpoint, uint64_t now_us);
void recent_checkpoints_forget(struct recent_checkpoints *f,
                               const char *checkpoint); /* it is kept from now on: a reader has to look */
