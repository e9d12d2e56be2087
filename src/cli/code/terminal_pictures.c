#include "cli/code/terminal_pictures.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/code/sixel.h"
#include "wire/base64.h"

#define ANSWER_MS 1000u
#define KITTY_PIECE 4096u /* bytes of base64 in one sequence */
#define SIDE_PIXELS 800u  /* where the terminal does not say its size */

int picture_protocol_parse(const char *name, enum picture_protocol *ret)
{
        static const char *const names[] = {[PICTURES_AUTO] = "auto",
                                            [PICTURES_NONE] = "none",
                                            [PICTURES_KITTY] = "kitty",
                                            [PICTURES_ITERM] = "iterm",
                                            [PICTURES_SIXEL] = "sixel"};

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                if (strcmp(names[i], name) == 0) {
                        *ret = (enum picture_protocol)i;
                        return 0;
                }
        }
        return -EINVAL;
}

/* ---- which protocol ---- */

static bool variable_is(const char *name, const char *value)
{
        const char *text = getenv(name);

        return text && (value ? strcmp(text, value) == 0 : text[0] != '\0');
}

/* PICTURES_AUTO: the environment does not say. */
static enum picture_protocol by_environment(void)
{
        if (variable_is("TMUX", NULL) || variable_is("STY", NULL))
                return PICTURES_AUTO; /* what is said of the terminal is said of another one */
        if (variable_is("KITTY_WINDOW_ID", NULL) || variable_is("TERM", "xterm-kitty") ||
            variable_is("TERM", "xterm-ghostty") || variable_is("TERM_PROGRAM", "ghostty"))
                return PICTURES_KITTY;
        if (variable_is("TERM_PROGRAM", "iTerm.app") || variable_is("LC_TERMINAL", "iTerm2") ||
            variable_is("TERM_PROGRAM", "WezTerm"))
                return PICTURES_ITERM;
        if (!variable_is("TERM", NULL) || variable_is("TERM", "dumb") || variable_is("TERM", "linux"))
                return PICTURES_NONE;
        return PICTURES_AUTO;
}

/* "\x1b[?62;4;6c": has the list a 4? */
static bool has_sixels(struct str numbers)
{
        struct str number;
        bool goes_on = true;

        while (goes_on) {
                goes_on = str_cut(&numbers, ';', &number);
                if (str_is(number, "4"))
                        return true;
        }
        return false;
}

enum picture_protocol terminal_pictures_answer(struct str answer, bool *ret_is_complete)
{
        enum picture_protocol found = PICTURES_NONE;

        *ret_is_complete = false;
        for (size_t i = 0; i + 3 < answer.n; i++) {
                struct str at = {answer.p + i, answer.n - i};
                size_t n;

                if (str_starts(at, "\x1b_Gi=31;OK"))
                        found = PICTURES_KITTY;
                if (!str_starts(at, "\x1b[?"))
                        continue;
                for (n = 3; n < at.n && (at.p[n] == ';' || (at.p[n] >= '0' && at.p[n] <= '9'));)
                        n++;
                if (n == at.n || at.p[n] != 'c')
                        continue;
                *ret_is_complete = true;
                if (found == PICTURES_NONE && has_sixels((struct str){at.p + 3, n - 3}))
                        found = PICTURES_SIXEL;
                return found;
        }
        return found;
}

static enum picture_protocol read_answer(int tty)
{
        uint64_t end_ms = clock_mono_ms() + ANSWER_MS, now_ms;
        enum picture_protocol found = PICTURES_NONE;
        bool is_complete = false;
        char text[512];
        size_t n = 0;

        while (!is_complete && n < sizeof(text) && (now_ms = clock_mono_ms()) < end_ms) {
                struct pollfd wait = {.fd = tty, .events = POLLIN};
                ssize_t got;

                if (poll(&wait, 1, (int)(end_ms - now_ms)) <= 0)
                        break;
                got = read(tty, text + n, sizeof(text) - n);
                if (got <= 0)
                        break;
                n += (size_t)got;
                found = terminal_pictures_answer((struct str){text, n}, &is_complete);
        }
        return is_complete ? found : PICTURES_NONE;
}

/* A question about kitty's pictures, and one about the terminal, which every terminal answers: so the wait is short. */
static enum picture_protocol by_question(void)
{
        static const char question[] = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[c";
        AUTO_CLOSE int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
        enum picture_protocol found = PICTURES_NONE;
        struct termios before, quiet;

        /* A process in the background would be stopped. */
        if (tty < 0 || tcgetpgrp(tty) != getpgrp() || tcgetattr(tty, &before) < 0)
                return PICTURES_NONE;
        quiet = before;
        quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        quiet.c_cc[VMIN] = 0;
        quiet.c_cc[VTIME] = 0;
        if (tcsetattr(tty, TCSANOW, &quiet) < 0)
                return PICTURES_NONE;
        if (write(tty, question, sizeof(question) - 1) == (ssize_t)sizeof(question) - 1)
                found = read_answer(tty);
        (void)tcsetattr(tty, TCSANOW, &before);
        return found;
}

enum picture_protocol terminal_pictures_find(void)
{
        enum picture_protocol found;

        if (!isatty(STDOUT_FILENO))
                return PICTURES_NONE;
        found = by_environment();
        return found == PICTURES_AUTO ? by_question() : found;
}

/* ---- pictures ---- */

static int write_kitty(const struct terminal_picture *p, struct buf *out)
{
        AUTO_BUF struct buf text = BUF_INIT(BASE64_LEN(p->bytes.n) + 1);
        int r;

        if (!p->is_png)
                return -ENOTSUP;
        r = base64_add(&text, p->bytes.p, p->bytes.n, true);
        for (size_t at = 0; r == 0 && at < text.len; at += KITTY_PIECE) {
                size_t n = text.len - at < KITTY_PIECE ? text.len - at : KITTY_PIECE;

                r = buf_addf(out, "\x1b_G%sm=%d;", at ? "" : "a=T,f=100,q=2,", at + n < text.len);
                if (r == 0)
                        r = buf_add(out, buf_at(&text) + at, n);
                if (r == 0)
                        r = buf_addc(out, "\x1b\\");
        }
        return r < 0 ? r : buf_addc(out, "\n");
}

static int write_iterm(const struct terminal_picture *p, struct buf *out)
{
        int r = buf_addf(out, "\x1b]1337;File=inline=1;preserveAspectRatio=1;size=%zu:", p->bytes.n);

        if (r == 0)
                r = base64_add(out, p->bytes.p, p->bytes.n, true);
        return r < 0 ? r : buf_addc(out, "\a\n");
}

static int write_sixel(const struct terminal_picture *p, struct buf *out)
{
        struct winsize size = {0};
        struct picture pixels = {0};
        int r;

        if (!p->is_png)
                return -ENOTSUP;
        r = png_decode(p->bytes, &pixels);
        if (r < 0)
                return r;
        (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        r = sixel_write(&pixels, size.ws_xpixel ? size.ws_xpixel : SIDE_PIXELS,
                        size.ws_ypixel ? size.ws_ypixel : SIDE_PIXELS, out);
        picture_done(&pixels);
        return r < 0 ? r : buf_addc(out, "\n");
}

int terminal_pictures_write(enum picture_protocol protocol, const struct terminal_picture *p, struct buf *out)
{
        if (p->is_png && !png_is(p->bytes))
                return -EINVAL;
        switch (protocol) {
        case PICTURES_KITTY: return write_kitty(p, out);
        case PICTURES_ITERM: return write_iterm(p, out);
        case PICTURES_SIXEL: return write_sixel(p, out);
        default: return -ENOTSUP;
        }
}
