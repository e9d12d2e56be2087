/* life_time.h - a request's timeout and the end of a life (model/lifetime.h). */
#pragma once
#include "control/life/lives.h"
#include "model/lifetime.h"

static inline struct lifetime life_lifetime(const struct life *l, uint32_t max_s)
{
        return (struct lifetime){l->sandbox.started_ns, l->sandbox.end_ns, max_s};
}

/* Move the end of a running sandbox to a later time; an end that is later already stays. */
static inline int life_extend(struct life *l, int64_t timeout_s, uint32_t max_s, struct err *err)
{
        struct lifetime life = life_lifetime(l, max_s);
        int64_t end_ns = lifetime_extend(&life, lives_real_ns(l->lives), timeout_s);

        return end_ns == l->sandbox.end_ns ? 0 : life_set_end(l, end_ns, err);
}
