/* fresh.h - images that our own workers wrote and summed up a moment ago, and that nobody asked to be on disk: what a fork
 * takes its copies from.  Reading all of them once more to compare sums would tell nothing new. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "model/ids.h"

#define FRESH_MAX 16
#define FRESH_S 30u

struct fresh {
        struct {
                char id[CHECKPOINT_ID_MAX];
                uint64_t until_us;
        } all[FRESH_MAX];
        unsigned next;
};

void fresh_add(struct fresh *f, const char *checkpoint, uint64_t now_us); /* the oldest is forgotten */
bool fresh_has(const struct fresh *f, const char *checkpoint, uint64_t now_us);
void fresh_forget(struct fresh *f, const char *checkpoint); /* it is kept from now on: a reader has to look */
