#include "engine/records/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/host/instance.h"
#include "sys/fs.h"

#define NAME "running.json"
#define TEXT_MAX (64u << 10)
#define MEMBERS 11u

char *record_encode(const struct record *r)
{
        json_t *obj = json_pack("{s:s,s:i,s:I,s:s,s:I,s:o,s:b,s:s,s:{s:I,s:i,s:i}}", "id", r->id, "pid", (int)r->pid,
                                "start_time", (json_int_t)r->start_time, "boot_id", r->boot_id, "started_ns",
                                (json_int_t)r->started_ns, "net", plan_net_encode(&r->net), "stranger", r->is_stranger,
                                "envd", r->envd, "limits", "memory_bytes", (json_int_t)r->limits.memory_bytes,
                                "cpu_count", (int)r->limits.cpu_count, "pids", (int)r->limits.pids);
        char *text = obj && kind_facts_add(obj, &r->facts) == 0 ? json_dumps(obj, JSON_COMPACT) : NULL;

        json_decref(obj);
        return text;
}

int record_put(int dir, const char *text, size_t len, struct err *err)
{
        int r = sys_replace_at(dir, NAME, text, len, 0600);

        return r < 0 ? err_sys(err, r, "write " NAME) : 0;
}

int record_write(int dir, const struct record *r, struct err *err)
{
        AUTO_FREE char *text = record_encode(r);

        return text ? record_put(dir, text, strlen(text), err) : err_sys(err, -ENOMEM, "write " NAME);
}

static int record_decode(const json_t *obj, struct record *r, struct err *err)
{
        const char *id = NULL, *boot = NULL, *envd = NULL;
        json_int_t pid, start, started, memory, cpus, pids;
        json_t *net = NULL;
        json_error_t why;
        int stranger = 0;

        if (json_unpack_ex((json_t *)(size_t)obj, &why, 0, "{s:s,s:I,s:I,s:s,s:I,s:o,s:b,s:s,s:{s:I,s:I,s:I}}", "id",
                           &id, "pid", &pid, "start_time", &start, "boot_id", &boot, "started_ns", &started, "net",
                           &net, "stranger", &stranger, "envd", &envd, "limits", "memory_bytes", &memory, "cpu_count",
                           &cpus, "pids", &pids) < 0)
                return err_set(err, ERR_INVALID, NAME ": %s", why.text);
        if (json_object_size(obj) != MEMBERS)
                return err_set(err, ERR_INVALID, NAME ": it has members that are not known");
        if (!guest_id_is_valid(str_of(id)) || strlen(envd) >= sizeof(r->envd) || strlen(boot) >= sizeof(r->boot_id) ||
            pid <= 1 || pid > INT32_MAX || start < 0 || memory < 0 || cpus < 0 || cpus > INT32_MAX || pids < 0 ||
            pids > INT32_MAX)
                return err_set(err, ERR_INVALID, NAME ": a value is out of range");
        if (kind_facts_decode(obj, &r->facts, err) < 0)
                return err_wrap(err, NAME);
        if (kind_facts_is_empty(&r->facts))
                return err_set(err, ERR_INVALID, NAME ": it names nothing that is in use");
        if (plan_net_decode(net, &r->net, err) < 0)
                return err_wrap(err, NAME);
        memcpy(r->id, id, strlen(id) + 1);
        memcpy(r->boot_id, boot, strlen(boot) + 1);
        memcpy(r->envd, envd, strlen(envd) + 1);
        r->limits = (struct plan_limits){(uint64_t)memory, (uint32_t)cpus, (uint32_t)pids};
        r->is_stranger = stranger;
        r->pid = (pid_t)pid;
        r->start_time = (uint64_t)start;
        r->started_ns = started;
        return 0;
}

int record_remove(int dir)
{
        return unlinkat(dir, NAME, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int record_read(int dir, struct record *ret, struct err *err)
{
        AUTO_FREE char *text = malloc(TEXT_MAX);
        struct record r = {0};
        json_error_t why;
        json_t *obj;
        ssize_t n;
        int e;

        if (!text)
                return err_sys(err, -ENOMEM, NAME);
        n = sys_read_at(dir, NAME, text, TEXT_MAX);
        if (n == -ENOENT || n == 0) /* it is not flushed: a power cut may leave the name alone */
                return err_set(err, ERR_NOT_FOUND, "there is no " NAME);
        if (n < 0)
                return err_sys(err, (int)n, NAME);
        obj = json_loads(text, JSON_REJECT_DUPLICATES, &why);
        if (!obj)
                return err_set(err, ERR_INVALID, NAME ": %s", why.text);
        e = record_decode(obj, &r, err);
        json_decref(obj);
        if (e == 0)
                *ret = r;
        return e;
}

void record_done(struct record *r)
{
        plan_net_done(&r->net);
}
