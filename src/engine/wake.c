#include "engine/wake.h"

#include "base/err.h"

void wake_begin(struct guest *s, struct plan_create *plan, struct ask *a)
{
        struct err err = {0};

        (void)err_set(&err, ERR_UNAVAILABLE, "no checkpoint can be restored on this host");
        ask_fail(a, &err);
        plan_done(plan);
        if (s->state == GUEST_WAITING)
                guest_end(s);
}
