#include "serve/supervisor/role.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "serve/setup/datadir.h"
#include "sys/proc.h"

#define FD_COUNT (sizeof(struct conf_fds) / sizeof(int)) /* it holds ints only, so it can be walked */
#define CONF_TEXT_MAX (64u << 10)
#define PEM_MAX (256u << 10)

static int sealed_memfd(const char *name, const void *p, size_t n, int *ret_fd)
{
        AUTO_CLOSE int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0)
                return -errno;
        if (write(fd, p, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
                return errno ? -errno : -EIO;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int file_to_memfd(const char *path, int *ret_fd, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(PEM_MAX);
        int r;

        r = file_read(path, &text);
        if (r == 0)
                r = sealed_memfd("sandglass-pem", buf_at(&text), text.len, ret_fd);
        return r < 0 ? err_sys(err, r, "read '%s'", path) : 0;
}

/* The role's configuration, with the numbers its fds will have: 4 and up, in the order of the struct. */
static int conf_to_memfd(const struct role_spec *spec, int *ret_fd, struct err *err)
{
        struct conf c = *spec->conf; /* borrows the texts */
        int *numbers = &c.fds.http, next = ROLE_CONF_FD + 1;
        const int *given = &spec->fds.http;
        AUTO_FREE char *text = NULL;
        json_t *obj;
        int r;

        for (size_t i = 0; i < FD_COUNT; i++)
                numbers[i] = given[i] >= 0 ? next++ : -1;
        obj = conf_encode(&c);
        text = obj ? json_dumps(obj, JSON_COMPACT) : NULL;
        json_decref(obj);
        if (!text || strlen(text) > CONF_TEXT_MAX)
                return err_set(err, ERR_INTERNAL, "configuration of %s is too long", spec->name);
        r = sealed_memfd("sandglass-conf", text, strlen(text), ret_fd);
        return r < 0 ? err_sys(err, r, "hand the configuration to %s", spec->name) : 0;
}

/* In the child: fds to their places, everything else closed.  Returns where the program's fd is, or negative. */
static int place_fds(const struct role_spec *spec, int conf_fd)
{
        int high[FD_COUNT + 2], n = 0, at = ROLE_CONF_FD, null;
        const int *given = &spec->fds.http;

        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0)
                return -1;
        high[n++] = conf_fd;
        for (size_t i = 0; i < FD_COUNT; i++)
                if (given[i] >= 0)
                        high[n++] = given[i];
        high[n++] = spec->exe;
        for (int i = 0; i < n; i++) { /* out of the way first: sources and targets may overlap */
                high[i] = fcntl(high[i], F_DUPFD_CLOEXEC, ROLE_CONF_FD + (int)FD_COUNT + 2);
                if (high[i] < 0)
                        return -1;
        }
        for (int i = 0; i < n; i++, at++)
                if (dup2(high[i], at) < 0)
                        return -1;
        if (fcntl(at - 1, F_SETFD, FD_CLOEXEC) < 0 || close_range((unsigned)at, ~0u, 0) < 0)
                return -1;
        return at - 1;
}

static int role_become(uint32_t uid)
{
        if (sys_drop_bounding(UINT64_MAX) < 0 || setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
            setresuid(uid, uid, uid) < 0)
                return -1;
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static _Noreturn void role_child(const struct role_spec *spec, int conf_fd, pid_t parent)
{
        char *const argv[] = {"sandglass", "role", (char *)spec->name, NULL};
        char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", NULL};
        int exe;

        (void)setsid(); /* the terminal's Ctrl-C is the supervisor's, which then stops roles in order */
        (void)sys_signals_default();
        (void)umask(spec->uid ? 077 : 022);
        exe = place_fds(spec, conf_fd);
        if (exe < 0 || chdir("/") < 0)
                _exit(126);
        (void)sys_raise_nofile();
        if (spec->uid && role_become(spec->uid) < 0)
                _exit(126);
        /* After setresuid(), which clears it. */
        if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) < 0 || getppid() != parent)
                _exit(126);
        (void)sys_exec_fd(exe, argv, env);
        _exit(127);
}

int role_start(const struct role_spec *spec, pid_t *ret_pid, struct err *err)
{
        AUTO_CLOSE int conf_fd = -1;
        pid_t parent = getpid(), pid;
        int r;

        r = conf_to_memfd(spec, &conf_fd, err);
        if (r < 0)
                return r;
        pid = fork();
        if (pid < 0)
                return err_sys(err, -errno, "start %s", spec->name);
        if (pid == 0)
                role_child(spec, conf_fd, parent);
        *ret_pid = pid;
        return 0;
}

int role_conf(struct conf *ret, struct err *err)
{
        AUTO_CLOSE int fd = ROLE_CONF_FD;
        AUTO_BUF struct buf text = BUF_INIT(CONF_TEXT_MAX + 1);
        json_error_t where;
        json_t *obj;
        ssize_t n;
        int r;

        do {
                n = buf_fill(&text, fd, buf_room(&text));
        } while (n > 0);
        if (n < 0)
                return err_sys(err, (int)n, "read the configuration on fd %d", ROLE_CONF_FD);
        obj = json_loadb((const char *)buf_at(&text), text.len, JSON_REJECT_DUPLICATES, &where);
        if (!obj)
                return err_set(err, ERR_INVALID, "configuration on fd %d: %s", ROLE_CONF_FD, where.text);
        r = conf_decode(obj, ret, err);
        json_decref(obj);
        return r;
}
