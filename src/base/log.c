#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

static const char *log_role = "";
static enum log_level log_most = LOG_INFO;

void log_setup(const char *role, enum log_level most)
{
        log_role = role;
        log_most = most;
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
        static const char *const names[] = {"error", "warn", "info", "debug"};
        char when[CLOCK_TEXT_MAX], line[2048];
        va_list ap;
        int n, m;

        if (level > log_most)
                return;
        clock_format(clock_real_ns(), when);
        n = snprintf(line, sizeof(line), "%s %-5s %s %s ", when, names[level], log_role, event);
        if (n < 0 || n >= (int)sizeof(line) - 1)
                return;
        va_start(ap, fmt);
        m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
        va_end(ap);
        if (m < 0)
                return;
        n += m < (int)sizeof(line) - n - 1 ? m : (int)sizeof(line) - n - 2;
        line[n++] = '\n';
        (void)!write(STDERR_FILENO, line, (size_t)n); /* nothing to be done about a log that cannot be written */
}

const char *log_escape(struct str s, char out[LOG_ESCAPED_MAX])
{
        static const char digits[] = "0123456789abcdef";
        size_t n = 0;

        for (size_t i = 0; i < s.n && n < LOG_ESCAPED_MAX - 5; i++) {
                unsigned char c = (unsigned char)s.p[i];

                if (c > ' ' && c < 0x7f && c != '"' && c != '\\') {
                        out[n++] = (char)c;
                } else {
                        out[n++] = '\\';
                        out[n++] = 'x';
                        out[n++] = digits[c >> 4];
                        out[n++] = digits[c & 15];
                }
        }
        out[n] = 0;
        return out;
}
