#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

static const char *log_role = "";
static enum log_level log_most = LOG_INFO;
static atomic_uint log_dropped; /* lines since the last that went out */
static atomic_bool log_is_torn; /* half a line went out: end it first */

void log_setup(const char *role, enum log_level most)
{
        log_role = role;
        log_most = most;
}

/* O_NONBLOCK would hold for everybody who has this stderr, so each write says for itself that it must not wait. */
static ssize_t write_at_once(const char *p, size_t n)
{
        struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
        struct iovec iov = {(void *)(uintptr_t)p, n};
        struct stat st;
        ssize_t r;

        if (fstat(STDERR_FILENO, &st) < 0)
                return -1;
        if (S_ISSOCK(st.st_mode))
                return send(STDERR_FILENO, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (S_ISFIFO(st.st_mode)) { /* a line is shorter than PIPE_BUF: it goes whole or not at all */
                r = pwritev2(STDERR_FILENO, &iov, 1, -1, RWF_NOWAIT);
                if (r >= 0 || errno == EAGAIN || errno == EPIPE)
                        return r;
        }
        if (!S_ISREG(st.st_mode) && poll(&room, 1, 0) != 1)
                return -1;
        return write(STDERR_FILENO, p, n);
}

static bool put(const char *line, size_t n)
{
        ssize_t r;

        if (atomic_load(&log_is_torn)) {
                if (write_at_once("\n", 1) != 1)
                        return false;
                atomic_store(&log_is_torn, false);
        }
        r = write_at_once(line, n);
        if (r > 0 && (size_t)r < n)
                atomic_store(&log_is_torn, true);
        return r > 0;
}

static int begin(char *line, size_t size, enum log_level level, const char *event)
{
        static const char *const names[] = {"error", "warn", "info", "debug"};
        char when[CLOCK_TEXT_MAX];

        clock_format(clock_real_ns(), when);
        return snprintf(line, size, "%s %-5s %s %s ", when, names[level], log_role, event);
}

/* Those that found no room are told of first. */
static bool tell_dropped(void)
{
        unsigned count = atomic_exchange(&log_dropped, 0);
        char line[256];
        int n;

        if (count == 0)
                return true;
        n = begin(line, sizeof(line) - 32, LOG_WARN, "log.dropped");
        if (n > 0 && n < (int)sizeof(line) - 32) {
                n += snprintf(line + n, 32, "lines=%u\n", count);
                if (put(line, (size_t)n))
                        return true;
        }
        atomic_fetch_add(&log_dropped, count);
        return false;
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
        char line[2048];
        va_list ap;
        int n, m;

        if (level > log_most)
                return;
        n = begin(line, sizeof(line), level, event);
        if (n < 0 || n >= (int)sizeof(line) - 1)
                return;
        va_start(ap, fmt);
        m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
        va_end(ap);
        if (m < 0)
                return;
        n += m < (int)sizeof(line) - n - 1 ? m : (int)sizeof(line) - n - 2;
        line[n++] = '\n';
        if (!tell_dropped() || !put(line, (size_t)n))
                atomic_fetch_add(&log_dropped, 1);
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
