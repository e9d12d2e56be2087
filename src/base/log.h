/* log.h - one event per line on stderr: time, level, role, event name, key=value.
 *
 * log_info("sandbox.started", "sandbox=%s boot_us=%u", id, us);
 * A reader of stderr that is too slow, or stopped, holds nobody up: lines it has no room for are dropped, and counted in
 * the next one that fits (log.dropped).
 * Text from outside goes through log_escape() first.  Never tokens, keys, bodies or environment values. */
#pragma once
#include "base/auto.h"
#include "base/str.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_setup(const char *role, enum log_level most); /* role is borrowed for good */
void log_event(enum log_level level, const char *event, const char *fmt, ...) PRINTF(3, 4);

#define log_error(...) log_event(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_event(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_event(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_event(LOG_DEBUG, __VA_ARGS__)

#define LOG_ESCAPED_MAX 200
/* Printable, without quotes, blanks and line ends, cut to fit; returns out. */
const char *log_escape(struct str s, char out[LOG_ESCAPED_MAX]);
