/* tap.h - the whole test framework: TAP lines, checks that return from the case so that AUTO variables are released. */
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tap_count, tap_failures;
static int tap_case_failed;
static const char *tap_skip_reason;

#define CHECK(cond)                                                                                                    \
        do {                                                                                                           \
                if (!(cond)) {                                                                                         \
                        printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond);                                            \
                        tap_case_failed = 1;                                                                           \
                        return;                                                                                        \
                }                                                                                                      \
        } while (0)
#define CHECK_INT(a, op, b)                                                                                            \
        do {                                                                                                           \
                long long a_ = (long long)(a), b_ = (long long)(b);                                                    \
                if (!(a_ op b_)) {                                                                                     \
                        printf("# %s:%d: %s %s %s: %lld, %lld\n", __FILE__, __LINE__, #a, #op, #b, a_, b_);            \
                        tap_case_failed = 1;                                                                           \
                        return;                                                                                        \
                }                                                                                                      \
        } while (0)
#define CHECK_STR(a, b)                                                                                                \
        do {                                                                                                           \
                const char *a_ = (a), *b_ = (b);                                                                       \
                if (!a_ || !b_ || strcmp(a_, b_) != 0) {                                                               \
                        printf("# %s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #a, a_ ? a_ : "(null)",      \
                               b_ ? b_ : "(null)");                                                                    \
                        tap_case_failed = 1;                                                                           \
                        return;                                                                                        \
                }                                                                                                      \
        } while (0)
/* Leave the case uncounted as success or failure; with TESTS_MUST_RUN=1 it is a failure. */
#define SKIP(why)                                                                                                      \
        do {                                                                                                           \
                tap_skip_reason = (why);                                                                               \
                return;                                                                                                \
        } while (0)
#define RUN(fn) tap_run(#fn, fn)

__attribute__((unused)) static void tap_run(const char *name, void (*fn)(void))
{
        tap_case_failed = 0;
        tap_skip_reason = NULL;
        fn();
        if (tap_skip_reason && getenv("TESTS_MUST_RUN")) {
                printf("# must run here, but: %s\n", tap_skip_reason);
                tap_case_failed = 1;
                tap_skip_reason = NULL;
        }
        tap_count++;
        tap_failures += tap_case_failed;
        printf("%s %d - %s%s%s\n", tap_case_failed ? "not ok" : "ok", tap_count, name,
               tap_skip_reason ? " # SKIP " : "", tap_skip_reason ? tap_skip_reason : "");
        fflush(stdout);
}

__attribute__((unused)) static int tap_done(void)
{
        printf("1..%d\n", tap_count);
        return tap_failures ? 1 : 0;
}
