#include "engine/warm.h"

bool warm_has_room(const struct guest *s)
{
        (void)s;
        return false;
}

void warm_add(struct guest *s)
{
        guest_go(s, GUEST_WARM);
}

unsigned warm_count(const struct engine *e)
{
        (void)e;
        return 0;
}

uint64_t warm_bytes(const struct engine *e)
{
        (void)e;
        return 0;
}
