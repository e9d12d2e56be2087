#include "engine/jobs/hostname.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/jobs/job_process.h"

#define HOSTNAME_LEN_MAX 64u

int hostname_set(const struct job_conf *c, const struct plan_create *plan, int uts, struct err *err)
{
        const char *name = json_string_value(json_object_get(plan->init, "hostname"));
        AUTO_CLOSE int home = sys_ns_open(c->proc_dir, 0, "uts");
        int r = 0;

        name = name && name[0] ? name : plan->id;
        if (strlen(name) > HOSTNAME_LEN_MAX)
                return err_set(err, ERR_INVALID, "hostname of more than %u characters", HOSTNAME_LEN_MAX);
        if (home < 0)
                return err_sys(err, home, "open own UTS namespace");
        if (setns(uts, CLONE_NEWUTS) < 0)
                return err_sys(err, -errno, "enter UTS namespace");
        if (sethostname(name, strlen(name)) < 0)
                r = -errno;
        if (setns(home, CLONE_NEWUTS) < 0)
                r = -errno;
        return r < 0 ? err_sys(err, r, "set the hostname") : 0;
}
