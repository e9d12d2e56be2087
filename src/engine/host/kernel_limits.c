#include "engine/host/kernel_limits.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "sys/fs.h"

static const struct {
        const char *path;
        uint64_t at_least;
} limits[] = {
        {"sys/kernel/pid_max", 1u << 22},
        {"sys/kernel/pty/max", 1u << 16},
        {"sys/fs/file-max", INT64_MAX}, /* open files are memory, counted in their cgroup */
};

static int raise_one(int proc_dir, const char *path, uint64_t at_least)
{
        char text[32];
        uint64_t now;
        ssize_t n = sys_read_at(proc_dir, path, text, sizeof(text));
        int r;

        if (n < 0)
                return (int)n;
        text[strcspn(text, "\n")] = '\0';
        r = parse_u64(str_of(text), 0, UINT64_MAX, &now);
        if (r < 0 || now >= at_least)
                return r;
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)at_least);
        return sys_write_at(proc_dir, path, text);
}

void kernel_limits_raise(int proc_dir)
{
        for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
                int r = raise_one(proc_dir, limits[i].path, limits[i].at_least);

                if (r < 0)
                        log_warn("machine.limit", "path=/proc/%s error=\"%s\", sandboxes can use it up", limits[i].path,
                                 strerror(-r));
        }
}
