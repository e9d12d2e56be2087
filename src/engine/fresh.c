#include "engine/fresh.h"

#include <stdio.h>
#include <string.h>

void fresh_add(struct fresh *f, const char *checkpoint, uint64_t now_us)
{
        unsigned i = f->next++ % FRESH_MAX;

        (void)snprintf(f->all[i].id, CHECKPOINT_ID_MAX, "%s", checkpoint);
        f->all[i].until_us = now_us + FRESH_S * 1000000u;
}

bool fresh_has(const struct fresh *f, const char *checkpoint, uint64_t now_us)
{
        for (unsigned i = 0; i < FRESH_MAX; i++)
                if (now_us < f->all[i].until_us && strcmp(f->all[i].id, checkpoint) == 0)
                        return true;
        return false;
}

void fresh_forget(struct fresh *f, const char *checkpoint)
{
        for (unsigned i = 0; i < FRESH_MAX; i++)
                if (strcmp(f->all[i].id, checkpoint) == 0)
                        f->all[i].until_us = 0;
}
