#include "edge/limits/budget.h"

#include "base/clock.h"

static void budget_refill(struct budget *b, unsigned per_second)
{
        uint64_t now = clock_mono_ms(), back = (now - b->since_ms) * per_second / 1000;

        if (!back)
                return;
        b->used = back < b->used ? b->used - (unsigned)back : 0;
        b->since_ms = now;
}

bool budget_spend(struct budget *b, unsigned burst, unsigned per_second)
{
        budget_refill(b, per_second);
        return ++b->used <= burst;
}

bool budget_is_left(struct budget *b, unsigned burst, unsigned per_second)
{
        budget_refill(b, per_second);
        return b->used < burst;
}
