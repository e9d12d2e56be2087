#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

/* Our own stderr is something else for a while. */
static int swap(int to)
{
        int old = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);

        (void)dup2(to, STDERR_FILENO);
        return old;
}

static void restore(int *old)
{
        (void)dup2(*old, STDERR_FILENO);
        (void)close(*old);
}

#define STDERR_IS(fd) __attribute__((cleanup(restore), unused)) int old_stderr = swap(fd)

static char text[1 << 20];

/* All that is there to read. */
static const char *heard(int fd)
{
        size_t n = 0;
        ssize_t r;

        while (n < sizeof(text) - 1 && (r = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
                n += (size_t)r;
        text[n] = 0;
        return text;
}

static unsigned lines(const char *p)
{
        unsigned n = 0;

        for (; *p; p++)
                n += *p == '\n';
        return n;
}

static void a_line_is_time_level_role_event_and_words(void)
{
        AUTO_CLOSE int fd = memfd_create("log", MFD_CLOEXEC);
        char huge[5000];
        STDERR_IS(fd);

        memset(huge, 'x', sizeof(huge) - 1);
        huge[sizeof(huge) - 1] = 0;
        log_setup("tester", LOG_INFO);
        log_debug("not.this", "x=%d", 1);
        log_warn("a.thing", "x=%d", 1);
        log_info("long", "x=%s", huge); /* is cut */
        CHECK_INT(lseek(fd, 0, SEEK_SET), ==, 0);
        CHECK_INT(lines(heard(fd)), ==, 2);
        CHECK(strstr(text, "Z warn  tester a.thing x=1\n"));
        CHECK_INT(strlen(text), <, 2200);
}

/* Fill, drain, go on: nothing waits, and what is missing is counted. */
static bool drops_and_tells(int out, int in)
{
        const unsigned total = 20000;
        unsigned before, missing;
        const char *told;
        STDERR_IS(out);

        log_setup("tester", LOG_INFO);
        for (unsigned i = 0; i < total; i++)
                log_info("flood", "number=%u", i);
        before = lines(heard(in));
        if (before == 0 || before >= total)
                return false;
        log_info("after", "x=1");
        told = strstr(heard(in), " warn  tester log.dropped lines=");
        if (!told || sscanf(told, " warn  tester log.dropped lines=%u", &missing) != 1)
                return false;
        if (!strstr(told, " info  tester after x=1\n"))
                return false;
        log_info("again", "x=2");
        if (lines(heard(in)) != 1 || !strstr(text, "again x=2"))
                return false;
        return before <= total - missing + 1 && before + 1 >= total - missing; /* the last may have gone in part */
}

static void a_full_pipe_drops_lines_and_tells_how_many(void)
{
        AUTO_CLOSE int in = -1, out = -1;
        int fds[2];

        CHECK_INT(pipe2(fds, O_CLOEXEC), ==, 0);
        in = fds[0], out = fds[1];
        CHECK_INT(fcntl(in, F_SETFL, O_NONBLOCK), ==, 0);
        CHECK(drops_and_tells(out, in));
        CHECK(!(fcntl(out, F_GETFL) & O_NONBLOCK)); /* it is not ours alone */
}

static void so_does_a_full_socket(void)
{
        AUTO_CLOSE int in = -1, out = -1;
        int fds[2];

        CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), ==, 0);
        in = fds[0], out = fds[1];
        CHECK_INT(fcntl(in, F_SETFL, O_NONBLOCK), ==, 0);
        CHECK(drops_and_tells(out, in));
}

static void nobody_there_is_no_reason_to_stop(void)
{
        AUTO_CLOSE int in = -1, out = -1;
        int fds[2];

        CHECK_INT(pipe2(fds, O_CLOEXEC), ==, 0);
        in = fds[0], out = fds[1];
        close_fd(&in);
        {
                STDERR_IS(out);
                log_info("to.nobody", "x=1");
        }
        CHECK(true);
}

int main(void)
{
        (void)signal(SIGPIPE, SIG_IGN); /* as the loop does */
        (void)alarm(60);                /* a log that blocks would block for good */
        RUN(a_line_is_time_level_role_event_and_words);
        RUN(a_full_pipe_drops_lines_and_tells_how_many);
        RUN(so_does_a_full_socket);
        RUN(nobody_there_is_no_reason_to_stop);
        return tap_done();
}
