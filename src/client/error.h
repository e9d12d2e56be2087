/* error.h - struct sg_error: filled in by the library's own code, and out of struct err.
 *
 * All of them take NULL for *err and return the negative errno that fits. */
#pragma once
#include "base/auto.h"
#include "base/err.h"
#include "base/str.h"
#include "sandglass.h"

int error_set(struct sg_error *err, enum sg_error_kind kind, const char *fmt, ...) PRINTF(3, 4);
int error_sys(struct sg_error *err, int r, const char *fmt, ...) PRINTF(3, 4);
int error_no_memory(struct sg_error *err);
/* What a lower layer said. */
int error_from(struct sg_error *err, const struct err *why);
/* Give *why to the caller. */
int error_pass(struct sg_error *err, const struct sg_error *why);
/* Put "<what>: " before the message. */
int error_wrap(struct sg_error *err, const char *fmt, ...) PRINTF(2, 3);
/* The kind that a status stands for. */
enum sg_error_kind error_kind_of_status(unsigned status);
/* What a refusal says: "message" of its JSON, else "detail", else its text if that is text, else the reason. */
int error_refused(struct sg_error *err, unsigned status, uint32_t retry_after_s, struct str body);
