/* err.h - why a call failed: a kind to act on, the errno underneath, words for people.
 *
 * Caller-owned and of fixed size, so it works after fork and out of memory.  Functions below `model`
 * return a bare negative errno instead. */
#pragma once
#include "base/auto.h"

enum err_kind {
        ERR_NONE,
        ERR_INVALID,     /* the input is wrong */
        ERR_NOT_FOUND,   /* what was named does not exist */
        ERR_GONE,        /* its owner says that it does not exist (any more): whoever remembers it may forget it */
        ERR_CONFLICT,    /* exists already, or is in the wrong state */
        ERR_LIMIT,       /* a limit is reached */
        ERR_NO_SPACE,    /* the disk is full: no blocks, no inodes, or a quota is used up */
        ERR_TOO_LARGE,   /* for this way of doing it; there may be another */
        ERR_DENIED,      /* not allowed */
        ERR_TIMEOUT,     /* took too long */
        ERR_UNAVAILABLE, /* not now; trying again may help */
        ERR_INTERRUPTED, /* whoever was at it died: what it is about is as before, and trying again may help */
        ERR_INTERNAL,    /* ours or the kernel's fault */
};

struct err {
        enum err_kind kind; /* what a caller may act on */
        int sys;            /* the errno underneath, 0 if none */
        char msg[240];      /* for people, outermost context first, ends in "..." when cut */
};

/* Set *err (NULL allowed) and return a negative errno that fits the kind. */
int err_set(struct err *err, enum err_kind kind, const char *fmt, ...) PRINTF(3, 4);

/* Set *err from a negative errno `r`; the message is "<what>: <strerror>".  Returns r.
 * The kind is ERR_LIMIT where the machine has run out of something, else ERR_INTERNAL: what a missing file or a refused
 * call means to the caller's caller, only the place that made the call knows.  It says so with err_set(). */
int err_sys(struct err *err, int r, const char *fmt, ...) PRINTF(3, 4);

/* Put context before the message: "<what>: <old message>".  Keeps the kind; returns its negative errno. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF(2, 3);

/* Stable lower-case names, used in internal messages ("not_found").  Unknown names give ERR_INTERNAL. */
const char *err_kind_name(enum err_kind kind);
enum err_kind err_kind_from_name(const char *name);
