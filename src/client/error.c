#include "client/error.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "wire/http1.h"

static const struct {
        const char *name;
        int r;
} kinds[] = {
        [SG_OK] = {"ok", 0},
        [SG_INVALID] = {"invalid", -EINVAL},
        [SG_NOT_FOUND] = {"not_found", -ENOENT},
        [SG_CONFLICT] = {"conflict", -EEXIST},
        [SG_LIMIT] = {"limit", -EDQUOT},
        [SG_NO_SPACE] = {"no_space", -ENOSPC},
        [SG_TOO_LARGE] = {"too_large", -EFBIG},
        [SG_DENIED] = {"denied", -EACCES},
        [SG_TIMEOUT] = {"timeout", -ETIMEDOUT},
        [SG_UNAVAILABLE] = {"unavailable", -EAGAIN},
        [SG_CANCELLED] = {"cancelled", -ECANCELED},
        [SG_UNSUPPORTED] = {"unsupported", -EOPNOTSUPP},
        [SG_INTERNAL] = {"internal", -EIO},
};

static const enum sg_error_kind of_err[] = {
        [ERR_NONE] = SG_OK,           [ERR_INVALID] = SG_INVALID,         [ERR_NOT_FOUND] = SG_NOT_FOUND,
        [ERR_GONE] = SG_NOT_FOUND,    [ERR_CONFLICT] = SG_CONFLICT,       [ERR_LIMIT] = SG_LIMIT,
        [ERR_NO_SPACE] = SG_NO_SPACE, [ERR_TOO_LARGE] = SG_TOO_LARGE,     [ERR_DENIED] = SG_DENIED,
        [ERR_TIMEOUT] = SG_TIMEOUT,   [ERR_UNAVAILABLE] = SG_UNAVAILABLE, [ERR_INTERRUPTED] = SG_CANCELLED,
        [ERR_INTERNAL] = SG_INTERNAL,
};

const char *sg_error_name(enum sg_error_kind kind)
{
        return (size_t)kind < ARRAY_LEN(kinds) ? kinds[kind].name : "unknown";
}

/* One line, of whole characters; "..." where it was cut (`wanted`: how long it would be). */
static void finish_message(struct sg_error *err, int wanted)
{
        char *msg = err->message;
        size_t n;

        for (char *at = msg; *at; at++)
                if ((unsigned char)*at < 0x20 || *at == 0x7f)
                        *at = ' ';
        if (wanted < (int)sizeof(err->message))
                return;
        n = sizeof(err->message) - 4;
        while (n > 0 && ((unsigned char)msg[n] & 0xc0) == 0x80)
                n--;
        memcpy(msg + n, "...", 4);
}

int error_set(struct sg_error *err, enum sg_error_kind kind, const char *fmt, ...)
{
        va_list ap;
        int n;

        if (err) {
                *err = (struct sg_error){.kind = kind};
                va_start(ap, fmt);
                n = vsnprintf(err->message, sizeof(err->message), fmt, ap);
                va_end(ap);
                finish_message(err, n);
        }
        return kinds[kind].r;
}

static enum sg_error_kind kind_of_errno(int r)
{
        switch (-r) {
        case ENOSPC:
        case EDQUOT: return SG_NO_SPACE;
        case EMFILE:
        case ENFILE:
        case EAGAIN: /* of pthread_create() */
        case ENOMEM: return SG_LIMIT;
        case E2BIG: return SG_TOO_LARGE;
        default: return SG_INTERNAL;
        }
}

int error_sys(struct sg_error *err, int r, const char *fmt, ...)
{
        char what[sizeof(err->message)], why[128];
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(what, sizeof(what), fmt, ap);
        va_end(ap);
        (void)error_set(err, kind_of_errno(r), "%s: %s", what, strerror_r(-r, why, sizeof(why)));
        if (err)
                err->system_error = -r;
        return r;
}

int error_no_memory(struct sg_error *err)
{
        (void)error_set(err, SG_LIMIT, "out of memory");
        if (err)
                err->system_error = ENOMEM;
        return -ENOMEM;
}

int error_from(struct sg_error *err, const struct err *why)
{
        int r = error_set(err, of_err[why->kind], "%s", why->msg);

        if (err)
                err->system_error = why->sys;
        return why->sys ? -why->sys : r;
}

int error_pass(struct sg_error *err, const struct sg_error *why)
{
        if (err)
                *err = *why;
        return why->system_error ? -why->system_error : kinds[why->kind].r;
}

int error_wrap(struct sg_error *err, const char *fmt, ...)
{
        struct sg_error old;
        char what[sizeof(err->message)];
        va_list ap;

        if (!err)
                return -EIO;
        va_start(ap, fmt);
        (void)vsnprintf(what, sizeof(what), fmt, ap);
        va_end(ap);
        old = *err;
        finish_message(err, snprintf(err->message, sizeof(err->message), "%s: %s", what, old.message));
        return old.system_error ? -old.system_error : kinds[old.kind].r;
}

enum sg_error_kind error_kind_of_status(unsigned status)
{
        switch (status) {
        case 401:
        case 403: return SG_DENIED;
        case 404:
        case 410: return SG_NOT_FOUND;
        case 405:
        case 501: return SG_UNSUPPORTED;
        case 408:
        case 499:
        case 504: return SG_TIMEOUT;
        case 409: return SG_CONFLICT;
        case 413: return SG_TOO_LARGE;
        case 429: return SG_LIMIT;
        case 502:
        case 503: return SG_UNAVAILABLE;
        case 507: return SG_NO_SPACE;
        default: return status >= 400 && status < 500 ? SG_INVALID : SG_INTERNAL;
        }
}

int error_refused(struct sg_error *err, unsigned status, uint32_t retry_after_s, struct str body)
{
        json_t *got = body.n ? json_loadb(body.p, body.n, JSON_DECODE_ANY, NULL) : NULL;
        const char *words = json_string_value(json_object_get(got, "message"));
        enum sg_error_kind kind = error_kind_of_status(status);
        int r;

        if (!words)
                words = json_string_value(json_object_get(got, "detail"));
        if (words && words[0])
                r = error_set(err, kind, "%s", words);
        else if (body.n && !got && str_is_utf8(body) && !str_has_nul(body) && body.p[0] != '<')
                r = error_set(err, kind, "%.*s",
                              body.n < sizeof(err->message) ? (int)body.n : (int)sizeof(err->message), body.p);
        else
                r = error_set(err, kind, "the server answered %u %s", status, http1_reason(status));
        json_decref(got);
        if (err) {
                err->http_status = (int)status;
                err->retry_after_s = retry_after_s;
        }
        return r;
}
