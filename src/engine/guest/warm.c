#include "engine/guest/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/guest/standby.h"
#include "sys/fs.h"
#include "sys/proc.h"

/* The shortest that may be asked for without CAP_SYS_RESOURCE: processes that waited for memory for part of it (conf
 * warm_stall_ms) mean that one of ours has to go. */
#define PRESSURE_US 2000000u
#define DEATH_MS 3000
#define AVAILABLE_SHARE 10u /* less than a tenth of the machine's memory is left: no more is kept */

static uint64_t budget(const struct engine *e)
{
        return (uint64_t)e->conf->warm_mb << 20;
}

static bool read_number(const char *text, const char *key, uint64_t *ret)
{
        const char *at = strstr(text, key);
        unsigned long long n;

        if (!at || sscanf(at + strlen(key), " %llu", &n) != 1)
                return false;
        *ret = n;
        return true;
}

bool warm_is_machine_full(const struct engine *e)
{
        uint64_t total, available;
        char text[8192];

        if (sys_read_at(e->proc_dir, "meminfo", text, sizeof(text)) < 0 || !read_number(text, "MemTotal:", &total) ||
            !read_number(text, "MemAvailable:", &available))
                return false;
        return available < total / AVAILABLE_SHARE;
}

void warm_forget(struct guest *s)
{
        if (!list_is_hooked(&s->warm))
                return;
        list_remove(&s->warm);
        s->engine->warm_bytes -= s->warm_bytes;
        s->engine->warm_count--;
}

static void drop_oldest(struct engine *e, const char *why)
{
        struct guest *s = LIST_ENTRY(e->warm.next, struct guest, warm);

        log_info("sandbox.cools", "sandbox=%s reason=%s bytes=%llu", s->record.id, why,
                 (unsigned long long)s->warm_bytes);
        guest_stop(s);
}

bool warm_add(struct guest *s)
{
        struct engine *e = s->engine;
        struct guest_usage u = {0};
        struct err err;

        if (budget(e) == 0 || s->ops->stats(s, &u, &err) < 0 || u.memory_bytes > budget(e) || warm_is_machine_full(e))
                return false;
        while (e->warm_bytes + u.memory_bytes > budget(e))
                drop_oldest(e, "budget");
        s->warm_bytes = u.memory_bytes;
        e->warm_bytes += u.memory_bytes;
        e->warm_count++;
        list_push_back(&e->warm, &s->warm);
        guest_go(s, GUEST_WARM);
        return true;
}

/* ------------------------------------------------------------- pressure */

static void unwatch(struct engine *e)
{
        loop_del(&e->pressure);
        close_fd(&e->pressure.fd);
}

/* Microseconds since the machine's start. */
static uint64_t waited_for_memory(const struct engine *e)
{
        char text[512];
        uint64_t us;

        if (sys_read_at(e->proc_dir, "pressure/memory", text, sizeof(text)) < 0 || !read_number(text, "total=", &us))
                return 0;
        return us;
}

/* The first event, and the next one soon after, may have no cause.  At the first event the kernel compares with zero instead of
 * with the beginning of the watch, and counts a part of the difference in the next two seconds as well. */
static bool is_false_alarm(struct engine *e)
{
        uint64_t now = waited_for_memory(e), waited = now - e->pressure_us;

        e->pressure_us = now;
        return waited <
               (uint64_t)e->conf->warm_stall_ms * 1000 / 2; /* the two seconds of the kernel begin at other moments */
}

static void on_pressure(struct io *io, uint32_t events)
{
        struct engine *e = CONTAINER_OF(io, struct engine, pressure);

        if (events & EPOLLERR) { /* the kernel has taken it away */
                unwatch(e);
                return;
        }
        if (is_false_alarm(e))
                return;
        if (!standbys_give_one(e, "pressure") && !list_is_empty(&e->warm))
                drop_oldest(e, "pressure");
}

static int ask_for_news(const struct engine *e, int fd)
{
        char what[48];
        int n = snprintf(what, sizeof(what), "some %u %u", e->conf->warm_stall_ms * 1000, PRESSURE_US);

        return write(fd, what, (size_t)n + 1) < 0 ? -errno : 0;
}

void warm_start(struct engine *e)
{
        bool is_wanted = budget(e) || e->conf->standbys;
        int fd = is_wanted ? openat(e->proc_dir, "pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;

        e->pressure = (struct io){.fd = fd, .on = on_pressure};
        e->pressure_us = waited_for_memory(e);
        if (fd >= 0 && (ask_for_news(e, fd) < 0 || loop_add(e->loop, &e->pressure, EPOLLPRI) < 0))
                close_fd(&e->pressure.fd);
        if (e->pressure.fd < 0 && is_wanted)
                log_warn("warm.unwatched", "this host does not tell of memory pressure, going on without");
}

/* Nobody would thaw them, and nobody would give their memory back.  Their slots are cleared with the others. */
void warm_stop(struct engine *e)
{
        LIST_EACH (node, &e->warm) {
                struct guest *s = LIST_ENTRY(node, struct guest, warm);

                s->ops->kill(s);
        }
        LIST_EACH (node, &e->warm) {
                struct guest *s = LIST_ENTRY(node, struct guest, warm);

                if (sys_pidfd_wait(s->death.fd, DEATH_MS) == 0)
                        s->ops->release(s);
        }
        unwatch(e);
}
