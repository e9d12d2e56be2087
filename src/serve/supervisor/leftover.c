#include "serve/supervisor/leftover.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "model/conf.h"
#include "serve/setup/datadir.h"
#include "sys/proc.h"

#define TERM_MS 10000
#define KILL_MS 10000

int leftover_save(const struct conf *c, const pid_t *pids, size_t n)
{
        AUTO_FREE char *path = conf_path(c, "run/roles");
        AUTO_BUF struct buf text = BUF_INIT(64u << 10);
        AUTO_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        uint64_t started;
        int r = path ? 0 : -ENOMEM;

        for (size_t i = 0; r == 0 && i < n; i++)
                if (pids[i] > 0 && sys_start_time(proc, pids[i], &started) == 0)
                        r = buf_addf(&text, "%d %llu\n", (int)pids[i], (unsigned long long)started);
        return r < 0 ? r : file_replace_lines(path, 0600, buf_at(&text), text.len);
}

int process_end(int pidfd, int term_ms)
{
        int r;

        r = sys_pidfd_kill(pidfd, SIGTERM);
        if (r == 0)
                r = sys_pidfd_wait(pidfd, term_ms);
        if (r == -ETIMEDOUT) {
                r = sys_pidfd_kill(pidfd, SIGKILL);
                if (r == 0)
                        r = sys_pidfd_wait(pidfd, KILL_MS);
        }
        return r == -ESRCH ? 0 : r;
}

static int leftover_end_one(struct str line, struct err *err)
{
        AUTO_CLOSE int pidfd = -1, proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        uint64_t then, now;
        struct str word;
        uint32_t pid;
        int r;

        if (!str_cut(&line, ' ', &word) || parse_u32(word, 2, INT32_MAX, &pid) < 0 ||
            parse_u64(line, 0, UINT64_MAX, &then) < 0)
                return 0; /* not ours to understand: nothing is signalled on a guess */
        pidfd = sys_pidfd_open((pid_t)pid);
        if (pidfd < 0 || sys_start_time(proc, (pid_t)pid, &now) < 0 || now != then)
                return 0; /* gone; the number may be somebody else's by now */
        log_info("serve.leftover", "pid=%u ending a role of an earlier server", pid);
        r = process_end(pidfd, TERM_MS);
        return r < 0 ? err_sys(err, r, "end the earlier role with pid %u", pid) : 0;
}

int leftover_end(const struct conf *c, struct err *err)
{
        AUTO_FREE char *path = conf_path(c, "run/roles");
        AUTO_BUF struct buf text = BUF_INIT(64u << 10);
        struct str rest, line;
        int r;

        r = path ? file_read(path, &text) : -ENOMEM;
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return err_sys(err, r, "read '%s'", path);
        rest = (struct str){(const char *)buf_at(&text), text.len};
        while (r == 0 && str_cut(&rest, '\n', &line))
                r = leftover_end_one(line, err);
        return r; /* the file stays, to be written over: on a full disk there would be room for no other */
}
