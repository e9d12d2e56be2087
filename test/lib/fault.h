/* fault.h - a case run again and again, each time with the next allocation failing, until it needs no further one.
 *
 * The program is linked with --wrap for malloc, calloc and realloc (test/fault/meson.build), which reaches every call
 * made by our own code.  Include it once, after tap.h. */
#pragma once
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tap.h"

static long fault_countdown = -1; /* < 0: none fails; n: the n-th from now does, once */
static bool fault_hit;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static bool fault_is_due(void)
{
        if (fault_countdown < 0 || fault_countdown-- > 0)
                return false;
        fault_hit = true;
        errno = ENOMEM;
        return true;
}
void *__wrap_malloc(size_t n)
{
        return fault_is_due() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size)
{
        return fault_is_due() ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n)
{
        return fault_is_due() ? NULL : __real_realloc(p, n);
}

#define FAULT_STEPS_MAX 10000

/* fn() returns 0 when all went well and a negative errno otherwise.  With the n-th allocation failing it must give
 * -ENOMEM (never success), and leave no memory behind; with none failing it must succeed. */
#define FAULT_EACH(fn)                                                                                                 \
        do {                                                                                                           \
                size_t before_, after_;                                                                                \
                long n_ = 0;                                                                                           \
                CHECK_INT(fn(), ==, 0); /* also lets the C library allocate what it keeps */                           \
                do {                                                                                                   \
                        int r_;                                                                                        \
                        before_ = mallinfo2().uordblks;                                                                \
                        fault_hit = false;                                                                             \
                        fault_countdown = n_;                                                                          \
                        r_ = fn();                                                                                     \
                        fault_countdown = -1;                                                                          \
                        after_ = mallinfo2().uordblks;                                                                 \
                        CHECK_INT(r_, ==, fault_hit ? -ENOMEM : 0);                                                    \
                        CHECK_INT(after_, ==, before_);                                                                \
                        CHECK_INT(++n_, <, FAULT_STEPS_MAX);                                                           \
                } while (fault_hit);                                                                                   \
                CHECK_INT(n_, >, 1); /* it did allocate */                                                             \
        } while (0)
