#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/still.h"
#include "engine/worker.h"
#include "engine/worker_envd.h"
#include "sys/fs.h"

static int say_it_woke(const struct worker_conf *c, const struct plan_create *plan, pid_t pid, struct err *err)
{
        AUTO_CLOSE int netns = sys_ns_open(c->proc_dir, pid, "net");

        if (netns < 0)
                return err_sys(err, netns, "open network namespace");
        return worker_envd_init(netns, plan->token_before, plan->init, err);
}

/* It is at rest on disk all the same: what moved for a moment is ended. */
static void undo(const struct worker_conf *c, int dir, const struct plan_create *plan, const struct still *s,
                 unsigned slot)
{
        struct err err = {0};

        cgroups_kill(c->cgroups, slot);
        if (still_write(dir, plan->id, s, true, &err) < 0)
                log_error("sandbox.lost", "sandbox=%s error=\"%s\"", plan->id, err.msg);
}

int worker_thaw(const struct worker_conf *c, const json_t *job, struct worker_result *ret, struct err *err)
{
        unsigned slot = (unsigned)json_integer_value(json_object_get(job, "slot"));
        pid_t pid = (pid_t)json_integer_value(json_object_get(job, "pid"));
        struct plan_create plan;
        struct still s;
        int dir, r = plan_decode(json_object_get(job, "plan"), &plan, err);

        if (r < 0)
                return r;
        dir = sys_open_dir(c->sandboxes_dir, plan.id);
        r = dir < 0 ? err_sys(err, dir, "open directory of sandbox %s", plan.id) : still_read(dir, plan.id, &s, err);
        if (r < 0)
                return r;
        (void)json_object_set_new(plan.init, "resumed", json_true());
        r = still_remove(dir, false);
        if (r == 0)
                r = cgroups_freeze(c->cgroups, slot, false);
        r = r < 0 ? err_sys(err, r, "thaw slot %u", slot) : say_it_woke(c, &plan, pid, err);
        if (r < 0)
                undo(c, dir, &plan, &s, slot);
        else
                ret->flush = dir;
        return r;
}
