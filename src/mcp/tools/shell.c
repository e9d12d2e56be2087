#include "mcp/tools/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

/* Where bash has the ends of our pipes: numbers that nobody uses. */
#define STATUS_FD 250
#define STDOUT_FD 251
#define STDERR_FD 252

#define MARK_CHARS 16
#define STATUS_BYTES_MAX 4096
#define READ_BYTES (64u << 10)

struct shell {
        struct loop *loop;
        struct program *bash; /* NULL: ended */
        struct io status, out, err;
        struct buf said; /* from the status pipe: "<mark> <exit code>\n" */
        char mark[MARK_CHARS + 1];
        bool is_busy;
        struct shell_listener listener;
};

static void stop_reading(struct io *io)
{
        loop_del(io);
        close_fd(&io->fd);
}

struct shell *shell_free(struct shell *sh)
{
        struct shell_end end = {.exit_code = 128 + SIGKILL, .has_ended = true};

        if (!sh)
                return NULL;
        sh->bash = program_free(sh->bash);
        if (sh->is_busy && sh->listener.on_end)
                sh->listener.on_end(sh, &end, sh->listener.arg);
        stop_reading(&sh->status);
        stop_reading(&sh->out);
        stop_reading(&sh->err);
        buf_done(&sh->said);
        free(sh);
        return NULL;
}

bool shell_is_busy(const struct shell *sh)
{
        return sh->is_busy;
}

bool shell_has_ended(const struct shell *sh)
{
        return !sh->bash;
}

static bool read_some(struct shell *sh, struct io *io, enum program_output which)
{
        static char piece[READ_BYTES];
        ssize_t n = io->fd < 0 ? 0 : read(io->fd, piece, sizeof(piece));

        if (n == 0 && io->fd >= 0)
                stop_reading(io);
        if (n > 0 && sh->listener.on_output)
                sh->listener.on_output(sh, which, (struct str){piece, (size_t)n}, sh->listener.arg);
        return n > 0;
}

static void on_out(struct io *io, uint32_t events)
{
        (void)events;
        (void)read_some(CONTAINER_OF(io, struct shell, out), io, PROGRAM_STDOUT);
}

static void on_err(struct io *io, uint32_t events)
{
        (void)events;
        (void)read_some(CONTAINER_OF(io, struct shell, err), io, PROGRAM_STDERR);
}

/* What the command printed before its end is in the pipes already.  Processes in the background may print for ever: a pipe holds 64 KiB. */
static void read_rest(struct shell *sh)
{
        for (int i = 0; i < 2; i++) {
                (void)read_some(sh, &sh->out, PROGRAM_STDOUT);
                (void)read_some(sh, &sh->err, PROGRAM_STDERR);
        }
}

static void command_ended(struct shell *sh, int exit_code)
{
        struct shell_listener listener = sh->listener;
        struct shell_end end = {.exit_code = exit_code, .has_ended = !sh->bash};

        read_rest(sh);
        sh->is_busy = false;
        sh->listener = (struct shell_listener){0};
        if (listener.on_end)
                listener.on_end(sh, &end, listener.arg);
}

/* One line of the status pipe; a command may have written others. */
static void take_status(struct shell *sh, struct str line)
{
        struct str mark;
        uint32_t code;

        if (sh->is_busy && str_cut(&line, ' ', &mark) && str_is(mark, sh->mark) && parse_u32(line, 0, 255, &code) == 0)
                command_ended(sh, (int)code);
}

static void on_status(struct io *io, uint32_t events)
{
        struct shell *sh = CONTAINER_OF(io, struct shell, status);
        ssize_t n = buf_fill(&sh->said, io->fd, STATUS_BYTES_MAX);
        char line[STATUS_BYTES_MAX];
        const char *end;

        (void)events;
        if (n == 0 || (n < 0 && n != -EAGAIN && n != -E2BIG)) {
                loop_want(io, 0);
                stop_reading(io);
                return;
        }
        if (n == -E2BIG) /* no line of ours is that long */
                buf_reset(&sh->said);
        while (sh->said.len && (end = memchr(buf_at(&sh->said), '\n', sh->said.len))) {
                size_t length = (size_t)(end - (const char *)buf_at(&sh->said));

                memcpy(line, buf_at(&sh->said), length);
                buf_consume(&sh->said, length + 1);
                take_status(sh, (struct str){line, length});
        }
}

static void on_bash_output(struct program *p, enum program_output which, struct str piece, void *arg)
{
        (void)p, (void)which, (void)piece, (void)arg; /* bash itself prints to /dev/null */
}

static void on_bash_end(struct program *p, void *arg)
{
        struct shell *sh = arg;
        int code = program_exit_code(p);

        sh->bash = program_free(sh->bash);
        if (sh->is_busy)
                command_ended(sh, code);
}

static int watch(struct shell *sh, struct io *io, int fd, void (*on)(struct io *, uint32_t))
{
        *io = (struct io){.fd = fd, .on = on};
        return loop_add(sh->loop, io, EPOLLIN);
}

static int start_bash(struct shell *sh, const char *cwd, const int theirs[3], struct err *err)
{
        static const char *const argv[] = {"bash", "--login", "--noediting", "-i", NULL};
        static const char *const env[] = {"PS1=", "PS2=", "HISTFILE=/dev/null", NULL};
        struct program_options opt = {.loop = sh->loop,
                                      .argv = argv,
                                      .cwd = cwd,
                                      .env = env,
                                      .keeps_stdin = true,
                                      .drops_output = true,
                                      .extra = {theirs[0], theirs[1], theirs[2]},
                                      .extra_at = {STATUS_FD, STDOUT_FD, STDERR_FD},
                                      .extra_count = 3,
                                      .on_output = on_bash_output,
                                      .on_end = on_bash_end,
                                      .arg = sh};

        return program_start(&opt, &sh->bash, err);
}

/* bash gets its end under a number of ours: none of the others may have that number meanwhile, or one would replace the other. */
static int make_pipe(int *ours, int *theirs)
{
        int fds[2], moved;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        *ours = fds[0];
        *theirs = fds[1];
        (void)fcntl(*ours, F_SETFL, O_NONBLOCK);
        if (*theirs < STATUS_FD || *theirs > STDERR_FD)
                return 0;
        moved = fcntl(*theirs, F_DUPFD_CLOEXEC, STDERR_FD + 1);
        if (moved < 0)
                return -errno;
        close_fd(theirs);
        *theirs = moved;
        return 0;
}

int shell_create(struct loop *loop, const char *cwd, struct shell **ret, struct err *err)
{
        int ours[3] = {-1, -1, -1}, theirs[3] = {-1, -1, -1}, r = 0;
        void (*const on[3])(struct io *, uint32_t) = {on_status, on_out, on_err};
        struct shell *sh = calloc(1, sizeof(*sh));

        if (!sh)
                return err_sys(err, -ENOMEM, "start a shell");
        sh->loop = loop;
        buf_init(&sh->said, STATUS_BYTES_MAX);
        sh->status.fd = sh->out.fd = sh->err.fd = -1;
        for (int i = 0; i < 3 && r == 0; i++) {
                struct io *const io[3] = {&sh->status, &sh->out, &sh->err};

                r = make_pipe(&ours[i], &theirs[i]);
                if (r == 0)
                        r = watch(sh, io[i], ours[i], on[i]);
                else
                        close_fd(&ours[i]);
        }
        r = r < 0 ? err_sys(err, r, "start a shell") : start_bash(sh, cwd, theirs, err);
        for (int i = 0; i < 3; i++)
                close_fd(&theirs[i]);
        if (r < 0) {
                shell_free(sh);
                return r;
        }
        *ret = sh;
        return 0;
}

static int add_quoted(struct buf *out, struct str text)
{
        int r = buf_add(out, "'", 1);

        while (text.n && r == 0) {
                const char *quote = memchr(text.p, '\'', text.n);
                size_t n = quote ? (size_t)(quote - text.p) : text.n;

                r = buf_add(out, text.p, n);
                if (quote && r == 0)
                        r = buf_addc(out, "'\\''");
                n += quote != NULL;
                text = (struct str){text.p + n, text.n - n};
        }
        return r < 0 ? r : buf_add(out, "'", 1);
}

/* "./" keeps bash from other meanings: "-" is the last directory, and CDPATH has places of its own. */
static int add_cd(struct buf *out, const char *cwd)
{
        int r = buf_addc(out, "cd -- ");

        if (r == 0 && cwd[0] != '/')
                r = buf_addc(out, "./");
        if (r == 0)
                r = add_quoted(out, str_of(cwd));
        return r < 0 ? r : buf_addc(out, " && ");
}

int shell_run(struct shell *sh, struct str command, const char *cwd, const struct shell_listener *listener,
              struct err *err)
{
        AUTO_BUF struct buf line = BUF_INIT(2 * SHELL_COMMAND_BYTES_MAX);
        int r;

        if (command.n > SHELL_COMMAND_BYTES_MAX)
                return err_set(err, ERR_INVALID, "the command is longer than %u bytes: write a file and run the file",
                               SHELL_COMMAND_BYTES_MAX);
        if (str_has_nul(command))
                return err_set(err, ERR_INVALID, "the command has a NUL character");
        if (cwd && strlen(cwd) >= PATH_MAX)
                return err_set(err, ERR_INVALID, "the path of cwd is too long");
        random_id(sh->mark, MARK_CHARS);
        r = buf_addc(&line, "{ ");
        if (r == 0 && cwd)
                r = add_cd(&line, cwd);
        if (r == 0)
                r = buf_addc(&line, "eval ");
        if (r == 0)
                r = add_quoted(&line, command);
        if (r == 0)
                r = buf_addf(&line, "; } </dev/null >&%d 2>&%d %d>&- %d>&- %d>&-\nprintf '%%s %%s\\n' %s \"$?\" >&%d\n",
                             STDOUT_FD, STDERR_FD, STATUS_FD, STDOUT_FD, STDERR_FD, sh->mark, STATUS_FD);
        if (r == 0)
                r = program_write(sh->bash, (struct str){(const char *)buf_at(&line), line.len});
        if (r < 0)
                return err_sys(err, r, "give the command to the shell");
        sh->is_busy = true;
        sh->listener = *listener;
        return 0;
}

void shell_interrupt(struct shell *sh)
{
        if (sh->bash)
                program_signal(sh->bash, SIGINT);
}

void shell_kill(struct shell *sh)
{
        if (sh->bash)
                program_signal(sh->bash, SIGKILL);
}
