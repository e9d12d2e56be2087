#include "engine/criu/criu_failure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "sys/fs.h"

#define LOG_BYTES_MAX (16u << 20)
#define DISK_FULL_BYTES (1u << 20) /* less than this free: whatever CRIU says, that is the reason */

static int read_log(int dir, const char *name, struct buf *out)
{
        AUTO_CLOSE int fd = sys_open_beneath(dir, name, O_RDONLY, 0);
        ssize_t n = fd < 0 ? fd : 1;

        while (n > 0)
                n = buf_fill(out, fd, 1u << 16);
        return n < 0 && n != -E2BIG ? (int)n : 0; /* what is there is better than nothing */
}

static bool is_full(int dir)
{
        struct statvfs st;

        return fstatvfs(dir, &st) == 0 && (uint64_t)st.f_bavail * st.f_frsize < DISK_FULL_BYTES;
}

/* The log quotes what the sandbox chose, so a number in it may be any process's. */
static bool is_inside(pid_t pid, pid_t init)
{
        char path[2][40], link[2][64];

        for (int i = 0; i < 2; i++) {
                ssize_t n;

                (void)snprintf(path[i], sizeof(path[i]), "/proc/%d/ns/pid", (int)(i ? init : pid));
                n = readlink(path[i], link[i], sizeof(link[i]) - 1);
                if (n < 0)
                        return false;
                link[i][n] = '\0';
        }
        return strcmp(link[0], link[1]) == 0;
}

/* "pid 7 (node): " as it is called inside; empty when it is not known or gone. */
static void name_culprit(pid_t pid, pid_t init, char out[CRIU_COMM_MAX + 32])
{
        char path[32], status[4096], comm[64], name[CRIU_COMM_MAX];
        pid_t inner = 0;
        ssize_t n;

        out[0] = '\0';
        if (pid <= 0 || !is_inside(pid, init))
                return;
        (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        n = sys_read_at(AT_FDCWD, path, status, sizeof(status));
        if (n > 0)
                inner = criu_log_inner_pid((struct str){status, (size_t)n});
        (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
        n = sys_read_at(AT_FDCWD, path, comm, sizeof(comm));
        if (inner == 0 || n <= 0)
                return;
        criu_log_printable((struct str){comm, (size_t)n - 1}, name, sizeof(name));
        (void)snprintf(out, CRIU_COMM_MAX + 32, "pid %d (%s): ", (int)inner, name);
}

void criu_failure_explain(int dir, const char *log_name, struct str said, pid_t init, struct criu_failure *f)
{
        AUTO_BUF struct buf log = BUF_INIT(LOG_BYTES_MAX);
        struct str all;

        *f = (struct criu_failure){0};
        (void)read_log(dir, log_name, &log); /* where there is none, what was said has to do */
        all = (struct str){log.len ? (const char *)buf_at(&log) : "", log.len};
        f->is_full = criu_log_is_disk_full(said) || criu_log_is_disk_full(all) || is_full(dir);
        if (said.n)
                criu_log_clean(said, f->reason);
        else if (!criu_log_error(all, f->reason))
                (void)snprintf(f->reason, sizeof(f->reason), "CRIU does not say why");
        if (init > 0)
                name_culprit(criu_log_culprit(all), init, f->culprit);
}
