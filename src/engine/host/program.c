#include "engine/host/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "sys/proc.h"

#define NOT_FOUND 127

static _Noreturn void be_program(const char *const argv[], uint64_t caps, int said)
{
        static char path[] = "PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", plain[] = "LC_ALL=C";
        char *const envp[] = {path, plain, NULL};
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null < 0 || dup2(null, 0) < 0 || dup2(said, 1) < 0 || dup2(said, 2) < 0 || sys_close_from(3) < 0 ||
            sys_signals_default() < 0 || sys_drop_bounding(~caps) < 0 || chdir("/") < 0)
                _exit(NOT_FOUND - 1);
        environ = (char **)envp;
        (void)execvp(argv[0], (char *const *)argv);
        _exit(errno == ENOENT ? NOT_FOUND : NOT_FOUND - 1);
}

static int program_wait(pid_t pid, int pidfd, int timeout_ms, int *ret_status)
{
        int r = sys_pidfd_wait(pidfd, timeout_ms);

        if (r < 0)
                (void)sys_pidfd_kill(pidfd, SIGKILL);
        if (waitpid(pid, ret_status, 0) < 0)
                return -errno;
        return r;
}

static int program_fail(const char *name, int status, int said, struct err *err)
{
        char text[160] = "";
        ssize_t n = pread(said, text, sizeof(text) - 1, 0);

        text[n > 0 ? n : 0] = '\0';
        text[strcspn(text, "\n")] = '\0';
        if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
                return err_set(err, ERR_NOT_FOUND, "there is no %s", name);
        return err_set(err, ERR_INTERNAL, "%s: %s", name, text[0] ? text : "failed without a word");
}

int program_run(const char *const argv[], uint64_t caps, int timeout_ms, struct err *err)
{
        struct sigaction dfl = {.sa_handler = SIG_DFL}, old;
        AUTO_CLOSE int said = memfd_create("said", MFD_CLOEXEC), pidfd = -1;
        int status = 0, r;
        pid_t pid;

        if (said < 0)
                return err_sys(err, -errno, "run %s", argv[0]);
        (void)sigaction(SIGCHLD, &dfl, &old); /* where it is ignored the kernel keeps no exit status */
        pid = sys_clone(&(struct sys_clone){.cgroup = -1, .ret_pidfd = &pidfd});
        if (pid == 0)
                be_program(argv, caps, said);
        r = pid < 0 ? (int)pid : program_wait(pid, pidfd, timeout_ms, &status);
        (void)sigaction(SIGCHLD, &old, NULL);
        if (r == -ETIMEDOUT)
                return err_set(err, ERR_TIMEOUT, "%s did not end", argv[0]);
        if (r < 0)
                return err_sys(err, r, "run %s", argv[0]);
        return status == 0 ? 0 : program_fail(argv[0], status, said, err);
}
