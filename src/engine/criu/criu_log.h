/* criu_log.h - what CRIU's messages mean: the reason in a line, who stands in the way.  Pure text work.
 *
 * The log holds names that a sandbox chose: nothing in it is believed beyond a number and printable characters. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/str.h"

#define CRIU_REASON_MAX 160
#define CRIU_COMM_MAX 32

/* The first line without CRIU's decorations, "(00.012) Error (criu/file.c:12): ", and without anything unprintable. */
void criu_log_clean(struct str line, char out[CRIU_REASON_MAX]);
/* The first line of the log that tells of an error; false: none does. */
bool criu_log_error(struct str log, char out[CRIU_REASON_MAX]);
/* Whose turn it was at the first error, as the host counts pids; 0: nobody's. */
pid_t criu_log_culprit(struct str log);
/* "NSpid:" of a /proc/PID/status: the innermost number; 0: none. */
pid_t criu_log_inner_pid(struct str status);
void criu_log_printable(struct str text, char *out, size_t size); /* others become '?'; cut at size */

bool criu_log_is_disk_full(struct str text);
