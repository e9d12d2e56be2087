#include "engine/host/cgroup_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/auto.h"

int cgroup_each_process(int dir, const char *path, int (*on_process)(pid_t pid, void *arg), void *arg)
{
        AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
        pid_t pid = 0;
        char text[4096];
        ssize_t n;
        int r;

        if (fd < 0)
                return -errno;
        while ((n = read(fd, text, sizeof(text))) > 0) /* a number may begin in one piece and end in the next */
                for (ssize_t i = 0; i < n; i++) {
                        if (text[i] != '\n') {
                                pid = pid * 10 + (text[i] - '0');
                                continue;
                        }
                        r = on_process(pid, arg);
                        if (r < 0)
                                return r;
                        pid = 0;
                }
        return n < 0 ? -errno : 0;
}
