#include "envd/metrics.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"

#define MIB (1024ull * 1024)

/* A small file of /proc or /sys into out; empty when it cannot be read. */
static struct str slurp(const char *path, struct buf *out)
{
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

        buf_reset(out);
        while (fd >= 0 && buf_fill(out, fd, 4096) > 0)
                ;
        return (struct str){(const char *)buf_at(out), out->len};
}

/* The number after `name` (and blanks and colons) at the beginning of a line. */
static bool number_of(struct str text, const char *name, uint64_t *ret)
{
        struct str line, digits;

        while (text.n) {
                (void)str_cut(&text, '\n', &line);
                if (!str_starts(line, name))
                        continue;
                line.p += strlen(name);
                line.n -= strlen(name);
                while (line.n && (*line.p == ' ' || *line.p == ':' || *line.p == '\t'))
                        line.p++, line.n--;
                (void)str_cut(&line, ' ', &digits);
                return parse_u64(digits, 0, UINT64_MAX, ret) == 0;
        }
        return false;
}

static bool number_in(const char *path, uint64_t *ret)
{
        AUTO_BUF struct buf b = BUF_INIT(256);
        struct str text = slurp(path, &b), line;

        (void)str_cut(&text, '\n', &line);
        return parse_u64(line, 0, UINT64_MAX, ret) == 0;
}

/* CPU time used: of our cgroup when it shows, otherwise of the machine. */
static uint64_t cpu_used_us(void)
{
        AUTO_BUF struct buf b = BUF_INIT(64u << 10);
        struct str text, field;
        uint64_t v, busy = 0;

        if (number_of(slurp("/sys/fs/cgroup/cpu.stat", &b), "usage_usec", &v))
                return v;
        if (number_in("/sys/fs/cgroup/cpuacct/cpuacct.usage", &v) ||
            number_in("/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage", &v))
                return v / 1000;
        text = slurp("/proc/stat", &b); /* cpu  user nice system idle iowait irq softirq steal */
        (void)str_cut(&text, '\n', &field);
        text = field;
        for (int i = -1; str_cut(&text, ' ', &field) && i < 8;) {
                if (field.n == 0)
                        continue;
                if (i >= 0 && i != 3 && i != 4 && parse_u64(field, 0, UINT64_MAX, &v) == 0)
                        busy += v;
                i++;
        }
        return busy * 10000; /* ticks of 1/100 s */
}

static int cpu_count(void)
{
        cpu_set_t set;

        return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

struct memory {
        uint64_t total, used, cache;
};

static struct memory memory_of_machine(void)
{
        AUTO_BUF struct buf b = BUF_INIT(64u << 10);
        struct str text = slurp("/proc/meminfo", &b);
        uint64_t total = 0, available = 0, cached = 0;

        (void)number_of(text, "MemTotal", &total);
        (void)number_of(text, "MemAvailable", &available);
        (void)number_of(text, "Cached", &cached);
        return (struct memory){total * 1024, (total > available ? total - available : 0) * 1024, cached * 1024};
}

/* Our cgroup's limit and use, where they show and a limit is set. */
static void memory_of_cgroup(struct memory *m)
{
        AUTO_BUF struct buf b = BUF_INIT(64u << 10);
        uint64_t limit, used, file = 0;

        if (number_in("/sys/fs/cgroup/memory.max", &limit) && number_in("/sys/fs/cgroup/memory.current", &used))
                (void)number_of(slurp("/sys/fs/cgroup/memory.stat", &b), "file ", &file);
        else if (number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", &limit) &&
                 number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes", &used))
                (void)number_of(slurp("/sys/fs/cgroup/memory/memory.stat", &b), "cache ", &file);
        else
                return;
        if (limit < m->total)
                *m = (struct memory){limit, used > file ? used - file : 0, file};
}

static double cpu_percent(struct metrics *m, int cpus)
{
        uint64_t now = clock_mono_us(), used = cpu_used_us();
        uint64_t span = (now - m->at_us) * (uint64_t)cpus;
        double pct = 0;

        if (m->at_us && span && used >= m->cpu_us)
                pct = 100.0 * (double)(used - m->cpu_us) / (double)span;
        *m = (struct metrics){.cpu_us = used, .at_us = now};
        if (pct > 100)
                pct = 100;
        return (double)(int)(pct * 100 + 0.5) / 100;
}

json_t *metrics_read(struct metrics *m)
{
        struct memory mem = memory_of_machine();
        struct statvfs fs = {0};
        int cpus = cpu_count();

        memory_of_cgroup(&mem);
        (void)statvfs("/", &fs);
        return json_pack("{s:I, s:i, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "ts",
                         (json_int_t)(clock_real_ms() / 1000), "cpu_count", cpus, "cpu_used_pct", cpu_percent(m, cpus),
                         "mem_total_mib", (json_int_t)(mem.total / MIB), "mem_used_mib", (json_int_t)(mem.used / MIB),
                         "mem_total", (json_int_t)mem.total, "mem_used", (json_int_t)mem.used, "mem_cache",
                         (json_int_t)mem.cache, "disk_used", (json_int_t)((fs.f_blocks - fs.f_bavail) * fs.f_frsize),
                         "disk_total", (json_int_t)(fs.f_blocks * fs.f_frsize));
}
