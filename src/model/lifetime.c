#include "model/lifetime.h"

#include "base/err.h"

#define S_NS INT64_C(1000000000)

int lifetime_check_max(int64_t timeout_s, uint32_t max_s, struct err *err)
{
        if (timeout_s <= max_s)
                return 0;
        if (max_s % 3600 == 0)
                return err_set(err, ERR_INVALID, "Timeout cannot be greater than %u hours", max_s / 3600);
        if (max_s % 60 == 0)
                return err_set(err, ERR_INVALID, "Timeout cannot be greater than %u minutes", max_s / 60);
        return err_set(err, ERR_INVALID, "Timeout cannot be greater than %u seconds", max_s);
}

static int64_t latest(const struct lifetime *l)
{
        return l->started_ns + (int64_t)l->max_s * S_NS;
}

static int64_t cut_end(const struct lifetime *l, int64_t now_ns, int64_t timeout_s)
{
        int64_t end = now_ns + timeout_s * S_NS;

        return end < latest(l) ? end : latest(l);
}

int lifetime_set(const struct lifetime *l, int64_t now_ns, int64_t timeout_s, int64_t *ret_end_ns, struct err *err)
{
        if (now_ns >= latest(l))
                return err_set(err, ERR_INVALID, "Max instance length exceeded");
        *ret_end_ns = cut_end(l, now_ns, timeout_s);
        return 0;
}

int64_t lifetime_extend(const struct lifetime *l, int64_t now_ns, int64_t timeout_s)
{
        int64_t end = cut_end(l, now_ns, timeout_s);

        return end > l->end_ns ? end : l->end_ns;
}
