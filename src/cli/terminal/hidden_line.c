#include "cli/terminal/hidden_line.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

static struct termios terminal_before;

/* The terminal is as before, then the signal ends the program. */
static void end_by_signal(int signo)
{
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
        (void)signal(signo, SIG_DFL);
        (void)raise(signo);
}

static int hide(struct err *err)
{
        static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
        struct termios quiet;

        if (tcgetattr(STDIN_FILENO, &terminal_before) < 0)
                return err_sys(err, -errno, "use the terminal");
        for (size_t i = 0; i < ARRAY_LEN(signals); i++)
                (void)signal(signals[i], signals[i] == SIGTSTP ? SIG_IGN : end_by_signal);
        quiet = terminal_before;
        quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON);
        quiet.c_cc[VMIN] = 1;
        quiet.c_cc[VTIME] = 0;
        return tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) < 0 ? err_sys(err, -errno, "use the terminal") : 0;
}

/* Waits for one byte; 0: the terminal is gone. */
static ssize_t next_byte(uint8_t *ret)
{
        ssize_t n;

        do {
                n = read(STDIN_FILENO, ret, 1);
        } while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
}

static bool is_key(uint8_t c, int key)
{
        return terminal_before.c_cc[key] != _POSIX_VDISABLE && c == terminal_before.c_cc[key];
}

static void drop_byte(struct buf *line)
{
        buf_at(line)[--line->len] = 0;
}

static void drop_character(struct buf *line)
{
        uint8_t c = 0x80;

        while (line->len > 0 && (c & 0xc0) == 0x80) {
                c = buf_at(line)[line->len - 1];
                drop_byte(line);
        }
}

static bool ends_with_blank(const struct buf *line)
{
        return buf_at(line)[line->len - 1] == ' ' || buf_at(line)[line->len - 1] == '\t';
}

static void drop_word(struct buf *line)
{
        while (line->len > 0 && ends_with_blank(line))
                drop_byte(line);
        while (line->len > 0 && !ends_with_blank(line))
                drop_byte(line);
}

/* The line goes on with this byte, or is shortened by it.  1: it has ended. */
static int take_byte(struct buf *line, uint8_t c)
{
        if (is_key(c, VEOF))
                return 1;
        if (is_key(c, VERASE))
                drop_character(line);
        else if (is_key(c, VWERASE))
                drop_word(line);
        else if (is_key(c, VKILL))
                while (line->len > 0)
                        drop_byte(line);
        else if (buf_add(line, &c, 1) < 0)
                return -E2BIG; /* the memory is there */
        return c == '\n';
}

static int read_line(size_t max, struct buf *line, struct err *err)
{
        uint8_t *at, c;
        ssize_t n;
        int r = 0;

        if (buf_reserve(line, max + 1, &at) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        do {
                n = next_byte(&c);
                if (n < 0)
                        return err_sys(err, (int)n, "read the terminal");
                if (n > 0)
                        r = take_byte(line, c);
        } while (n > 0 && r == 0);
        if (r < 0 || line->len > max)
                return err_set(err, ERR_INVALID, "the value has more than %zu bytes", max);
        return 0;
}

int hidden_line_ask(const char *question, size_t max, struct buf *out, struct err *err)
{
        int r = hide(err);

        if (r < 0)
                return r;
        (void)fputs(question, stderr);
        r = read_line(max, out, err);
        /* What follows the line is no input of the shell. */
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal_before);
        (void)fputc('\n', stderr);
        return r;
}
