#include "engine/checkpoint/recent_checkpoints.h"

#include <stdio.h>
#include <string.h>

void recent_checkpoints_add(struct recent_checkpoints *f, const char *checkpoint, uint64_t now_us)
{
        unsigned i = f->next++ % RECENT_CHECKPOINTS_MAX;

        (void)snprintf(f->all[i].id, CHECKPOINT_ID_MAX, "%s", checkpoint);
        f->all[i].until_us = now_us + RECENT_CHECKPOINTS_S * 1000000u;
}

bool recent_checkpoints_has(const struct recent_checkpoints *f, const char *checkpoint, uint64_t now_us)
{
        for (unsigned i = 0; i < RECENT_CHECKPOINTS_MAX; i++)
                if (now_us < f->all[i].until_us && strcmp(f->all[i].id, checkpoint) == 0)
                        return true;
        return false;
}

void recent_checkpoints_forget(struct recent_checkpoints *f, const char *checkpoint)
{
        for (unsigned i = 0; i < RECENT_CHECKPOINTS_MAX; i++)
                if (strcmp(f->all[i].id, checkpoint) == 0)
                        f->all[i].until_us = 0;
}
