/* fault.h - why a call failed, in the words the wire contract prescribes: a Connect code and a text of any length.
 *
 * struct err cuts its text at 240 bytes; these texts carry whole paths. */
#pragma once
#include <jansson.h>
#include <stdarg.h>

#include "base/auto.h"
#include "base/str.h"
#include "wire/connect.h"

struct fault {
        enum connect_code code; /* CONNECT_OK: nothing failed */
        int sys;                /* the errno underneath, 0 if none */
        char *text;             /* owned; NULL when it could not be allocated */
};

#define AUTO_FAULT AUTO(fault_done)

void fault_done(struct fault *f);
const char *fault_text(const struct fault *f);
/* Set *f (dropping what it held) and return -1, so that `return fault_set(...)` reads well. */
int fault_set(struct fault *f, enum connect_code code, const char *fmt, ...) PRINTF(3, 4);
int fault_vset(struct fault *f, enum connect_code code, const char *fmt, va_list ap) PRINTF(3, 0);
/* The same with an errno (positive) kept; the text is "<what>: <errno_text>". */
int fault_sys(struct fault *f, enum connect_code code, int sys, const char *fmt, ...) PRINTF(4, 5);

/* "no such file or directory": the system's words, beginning with a small letter.  Static memory. */
const char *errno_text(int sys);

/* A JSON string; bytes that are no UTF-8 become U+FFFD.  NULL out of memory. */
json_t *json_text(struct str s);
