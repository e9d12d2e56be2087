#include "envd/sandbox/metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"

#define MIB (1024ull * 1024)

/* A small file of /proc or /sys into out; empty when it cannot be read. */
static struct str read_small_file(const char *path, struct buf *out)
{
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

        buf_reset(out);
        while (fd >= 0 && buf_fill(out, fd, 4096) > 0)
                ;
        return (struct str){(const char *)buf_at(out), out->len};
}

/* The number after `name` (and blanks and colons) at the beginning of a line. */
static bool number_after(struct str text, const char *name, uint64_t *ret)
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

struct metrics_usage {
        uint64_t cpu_us, memory_bytes;
};

/* The nth field (from 1) after the command's name, which may hold anything, in /proc/PID/stat. */
static uint64_t stat_field(struct str text, int nth)
{
        const char *end = text.n ? memrchr(text.p, ')', text.n) : NULL;
        struct str field = {0};
        uint64_t v = 0;

        if (!end || (size_t)(end - text.p) + 2 > text.n)
                return 0;
        text = (struct str){end + 2, text.n - (size_t)(end - text.p) - 2};
        while (nth-- > 0)
                (void)str_cut(&text, ' ', &field);
        return parse_u64(field, 0, UINT64_MAX, &v) < 0 ? 0 : v;
}

/* Pages that the process shares with no other, by /proc/PID/statm (size resident shared...).  Both counts are taken
 * there: the resident count of /proc/PID/stat is made in another way and may be smaller than the shared one. */
static uint64_t own_pages(struct str text)
{
        struct str field = {0};
        uint64_t v[3] = {0};

        for (int i = 0; i < 3; i++) {
                (void)str_cut(&text, ' ', &field);
                if (parse_u64(field, 0, UINT64_MAX, &v[i]) < 0)
                        return 0;
        }
        return v[1] > v[2] ? v[1] - v[2] : 0;
}

static void add_process(const char *pid, struct metrics_usage *sum)
{
        AUTO_BUF struct buf b = BUF_INIT(4096);
        char path[64];
        struct str text;
        uint64_t ticks = 0;

        (void)snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
        text = read_small_file(path, &b);
        for (int nth = 12; nth <= 15; nth++) /* utime, stime, and the same of children that have ended */
                ticks += stat_field(text, nth);
        sum->cpu_us += ticks * (1000000 / (uint64_t)sysconf(_SC_CLK_TCK));
        (void)snprintf(path, sizeof(path), "/proc/%.20s/statm", pid);
        sum->memory_bytes += own_pages(read_small_file(path, &b)) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static struct metrics_usage usage_of_processes(void)
{
        struct metrics_usage sum = {0};
        const struct dirent *e;
        DIR *dir = opendir("/proc");

        while (dir && (e = readdir(dir)))
                if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
                        add_process(e->d_name, &sum);
        if (dir)
                (void)closedir(dir);
        return sum;
}

static uint64_t cpu_of_machine_us(void)
{
        AUTO_BUF struct buf b = BUF_INIT(64u << 10);
        struct str text = read_small_file("/proc/stat", &b),
                   field; /* cpu  user nice system idle iowait irq softirq steal */
        uint64_t v, busy = 0;

        (void)str_cut(&text, '\n', &field);
        text = field;
        for (int i = -1; str_cut(&text, ' ', &field) && i < 8;) {
                if (field.n == 0)
                        continue;
                if (i >= 0 && i != 3 && i != 4 && parse_u64(field, 0, UINT64_MAX, &v) == 0)
                        busy += v;
                i++;
        }
        return busy * (1000000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

static int cpu_count(void)
{
        cpu_set_t set;

        return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

struct metrics_memory {
        uint64_t total, used, cache;
};

static struct metrics_memory memory_of_machine(void)
{
        AUTO_BUF struct buf b = BUF_INIT(64u << 10);
        struct str text = read_small_file("/proc/meminfo", &b);
        uint64_t total = 0, available = 0, cached = 0;

        (void)number_after(text, "MemTotal", &total);
        (void)number_after(text, "MemAvailable", &available);
        (void)number_after(text, "Cached", &cached);
        return (struct metrics_memory){total * 1024, (total > available ? total - available : 0) * 1024, cached * 1024};
}

static double cpu_percent(struct metrics *m, int cpus, uint64_t used_us)
{
        uint64_t now = clock_mono_us(), span = (now - m->at_us) * (uint64_t)cpus;
        double pct = 0;

        if (m->at_us && span && used_us >= m->cpu_us)
                pct = 100.0 * (double)(used_us - m->cpu_us) / (double)span;
        m->cpu_us = used_us;
        m->at_us = now;
        if (pct > 100)
                pct = 100;
        return (double)(int)(pct * 100 + 0.5) / 100;
}

json_t *metrics_read(struct metrics *m)
{
        struct metrics_memory mem = memory_of_machine();
        struct statvfs fs = {0};
        struct metrics_usage own;
        uint64_t cpu_us;
        int cpus = cpu_count();

        if (getpid() == 1) {
                own = usage_of_processes();
                cpu_us = own.cpu_us;
                mem.used = own.memory_bytes;
                mem.cache = 0;
        } else {
                cpu_us = cpu_of_machine_us();
        }
        if (m->memory_max_bytes && m->memory_max_bytes < mem.total)
                mem.total = m->memory_max_bytes;
        (void)statvfs("/", &fs);
        return json_pack("{s:I, s:i, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "ts",
                         (json_int_t)(clock_real_ms() / 1000), "cpu_count", cpus, "cpu_used_pct",
                         cpu_percent(m, cpus, cpu_us), "mem_total_mib", (json_int_t)(mem.total / MIB), "mem_used_mib",
                         (json_int_t)(mem.used / MIB), "mem_total", (json_int_t)mem.total, "mem_used",
                         (json_int_t)mem.used, "mem_cache", (json_int_t)mem.cache, "disk_used",
                         (json_int_t)((fs.f_blocks - fs.f_bavail) * fs.f_frsize), "disk_total",
                         (json_int_t)(fs.f_blocks * fs.f_frsize));
}
