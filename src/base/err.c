#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
        const char *name;
        int r;
} kinds[] = {
        [ERR_NONE] = {"none", 0},
        [ERR_INVALID] = {"invalid", -EINVAL},
        [ERR_NOT_FOUND] = {"not_found", -ENOENT},
        [ERR_GONE] = {"gone", -ENOENT},
        [ERR_CONFLICT] = {"conflict", -EEXIST},
        [ERR_LIMIT] = {"limit", -ENOSPC},
        [ERR_NO_SPACE] = {"no_space", -ENOSPC},
        [ERR_TOO_LARGE] = {"too_large", -EFBIG},
        [ERR_DENIED] = {"denied", -EACCES},
        [ERR_TIMEOUT] = {"timeout", -ETIMEDOUT},
        [ERR_UNAVAILABLE] = {"unavailable", -EAGAIN},
        [ERR_INTERRUPTED] = {"interrupted", -EINTR},
        [ERR_INTERNAL] = {"internal", -EIO},
};

static enum err_kind kind_of_errno(int r)
{
        switch (-r) {
        case ENOSPC:
        case EDQUOT: return ERR_NO_SPACE;
        case EMFILE:
        case ENFILE:
        case ENOMEM: return ERR_LIMIT;
        default: return ERR_INTERNAL;
        }
}

/* Mark a message that did not fit. */
static void mark_cut(char *msg, size_t size, int wanted)
{
        if (wanted >= (int)size)
                memcpy(msg + size - 4, "...", 4);
}

int err_set(struct err *err, enum err_kind kind, const char *fmt, ...)
{
        va_list ap;
        int n;

        if (err) {
                err->kind = kind;
                err->sys = 0;
                va_start(ap, fmt);
                n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
                va_end(ap);
                mark_cut(err->msg, sizeof(err->msg), n);
        }
        return kinds[kind].r;
}

int err_sys(struct err *err, int r, const char *fmt, ...)
{
        char what[sizeof(err->msg)];
        va_list ap;
        int n;

        if (err) {
                err->kind = kind_of_errno(r);
                err->sys = -r;
                va_start(ap, fmt);
                (void)vsnprintf(what, sizeof(what), fmt, ap);
                va_end(ap);
                n = snprintf(err->msg, sizeof(err->msg), "%s: %s", what, strerror(-r));
                mark_cut(err->msg, sizeof(err->msg), n);
        }
        return r;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
        char what[sizeof(err->msg)], old[sizeof(err->msg)];
        va_list ap;
        int n;

        if (!err)
                return -EIO;
        va_start(ap, fmt);
        (void)vsnprintf(what, sizeof(what), fmt, ap);
        va_end(ap);
        memcpy(old, err->msg, sizeof(old));
        n = snprintf(err->msg, sizeof(err->msg), "%s: %s", what, old);
        mark_cut(err->msg, sizeof(err->msg), n);
        return err->sys ? -err->sys : kinds[err->kind].r;
}

const char *err_kind_name(enum err_kind kind)
{
        return kinds[kind].name;
}

enum err_kind err_kind_from_name(const char *name)
{
        for (size_t i = 0; name && i < ARRAY_LEN(kinds); i++)
                if (strcmp(kinds[i].name, name) == 0)
                        return (enum err_kind)i;
        return ERR_INTERNAL;
}
