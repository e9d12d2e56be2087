/* budget.h - how often something may happen: so many times at once, and so many more each second. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct budget { /* zeroed: nothing spent yet */
        unsigned used;
        uint64_t since_ms;
};

bool budget_spend(struct budget *b, unsigned burst, unsigned per_second); /* false: too much was spent */
bool budget_is_left(struct budget *b, unsigned burst, unsigned per_second);
