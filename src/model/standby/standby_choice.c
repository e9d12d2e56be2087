#include "model/standby/standby_choice.h"

#include <stdbool.h>
#include <stdlib.h>

static int compare_uses(const void *x, const void *y)
{
        const struct standby_use *a = x, *b = y;

        return (a->used_ns < b->used_ns) - (a->used_ns > b->used_ns);
}

size_t standby_choose(struct standby_use *uses, size_t count, int64_t now_ns)
{
        size_t n = 0;

        if (count > 1)
                qsort(uses, count, sizeof(*uses), compare_uses);
        while (n < count && n < STANDBY_KINDS_MAX && uses[n].used_ns > now_ns - STANDBY_RECENT_NS)
                n++;
        return n;
}

/* The one that was made last, if all were made in order. */
static bool find_last(const struct standby_state *states, size_t count, size_t *ret)
{
        bool has_any = false;

        for (size_t i = 0; i < count; i++)
                if (states[i].there > 0 && (!has_any || states[i].there >= states[*ret].there)) {
                        *ret = i;
                        has_any = true;
                }
        return has_any;
}

static bool find_missing(const struct standby_state *states, size_t count, const struct standby_budget *b, size_t *ret)
{
        bool has_any = false;

        for (size_t i = 0; i < count; i++) {
                const struct standby_state *s = &states[i];

                if (s->there >= s->wanted || b->bytes_used + s->bytes_each > b->bytes_max)
                        continue;
                if (!has_any || s->there < states[*ret].there) {
                        *ret = i;
                        has_any = true;
                }
        }
        return has_any;
}

struct standby_step standby_next(const struct standby_state *states, size_t count, const struct standby_budget *b)
{
        size_t of = 0;

        for (size_t i = 0; i < count; i++)
                if (states[i].there > states[i].wanted)
                        return (struct standby_step){STANDBY_DROP, i};
        if (b->bytes_used > b->bytes_max && find_last(states, count, &of))
                return (struct standby_step){STANDBY_DROP, of};
        if (b->bytes_used < b->bytes_max && find_missing(states, count, b, &of))
                return (struct standby_step){STANDBY_MAKE, of};
        return (struct standby_step){STANDBY_NOTHING, 0};
}
