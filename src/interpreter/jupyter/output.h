/* output.h - lines of the /execute stream, made of messages of a kernel.  No I/O.
 *
 * One JSON object per line, ASCII only, without blank lines.  Values of kernels pass through json_text.h: what JSON does
 * not know is null, what is not UTF-8 is replaced. */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct jupyter_message;

#define OUTPUT_KEEPALIVE "{\"type\":\"keepalive\"}\n"
#define OUTPUT_END "{\"type\":\"end_of_execution\"}\n"

/* Append the line for a message of the output channel (stream, display_data, execute_result, error).
 * 1: a line was added.  0: this message has no line.  -EBADMSG: its content is not what its type needs; nothing was
 * added.  -ENOMEM, -E2BIG. */
int output_add_message(const struct jupyter_message *m, struct buf *out);
/* The error of an execute_reply; likewise. */
int output_add_reply_error(struct str content, struct buf *out);
int output_add_count(int64_t execution_count, struct buf *out);
int output_add_error(const char *name, const char *value, struct buf *out);
