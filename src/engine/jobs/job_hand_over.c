/* job_hand_over.c - a standby (guest/standby.h) becomes the sandbox of a plan.
 *
 * Until its directory has the name of the sandbox it is a standby, and the next engine would end it.  From then on it is that
 * sandbox, of which the record says that it does not know itself yet (is_stranger): the next engine would end it as well.  The
 * last step, the record without that word, makes it one that is adopted.  Its processes run from the rename on, not before.
 * What fails is undone by the engine: it ends the processes, removes the directory and restores the sandbox instead. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/jobs/envd_introduce.h"
#include "engine/jobs/hostname.h"
#include "engine/jobs/job_process.h"
#include "engine/records/origin.h"
#include "engine/storage/host_layer.h"
#include "sys/fs.h"

struct handing_over {
        const struct job_conf *conf;
        const struct job *job;
        const struct plan_create *plan;
        struct record record;
        int dir;   /* sandboxes/<standby>, and sandboxes/<sandbox> later */
        int pidfd; /* of its first process: names its namespaces, too */
};

static int check_host_files(const struct handing_over *w, struct err *err)
{
        char now[HOST_LAYER_VERSION_MAX];

        if (host_layer_version(w->conf->host_dir, now) < 0)
                now[0] = '\0';
        if (strcmp(now, w->job->hand_over.host_version) == 0)
                return 0;
        return err_set(err, ERR_CONFLICT, "certificates or name servers of the host have changed");
}

/* A pid may have been given to another process meanwhile: compared after taking hold of it. */
static int find_process(struct handing_over *w, struct err *err)
{
        const struct job_namespace *n = &w->job->hand_over.namespace;
        uint64_t start = 0;
        int r = record_read(w->dir, &w->record, err);

        if (r < 0)
                return r;
        if (w->record.pid != n->pid || w->record.facts.namespace.slot != n->slot)
                return err_set(err, ERR_CONFLICT, "its record belongs elsewhere");
        w->pidfd = sys_pidfd_open(w->record.pid);
        r = w->pidfd < 0 ? w->pidfd : sys_start_time(w->conf->proc_dir, w->record.pid, &start);
        if (r == 0 && (start != w->record.start_time || sys_pidfd_is_dead(w->pidfd)))
                r = -ESRCH;
        return r < 0 ? err_sys(err, r, "find process %d", w->record.pid) : 0;
}

static int write_record(struct handing_over *w, struct err *err)
{
        const struct plan_create *p = w->plan;

        memcpy(w->record.id, p->id, sizeof(w->record.id));
        plan_net_done(&w->record.net);
        w->record.net = p->net; /* borrowed */
        w->record.limits = p->limits;
        w->record.started_ns = clock_real_ns();
        w->record.is_stranger = true;
        return record_write(w->dir, &w->record, err);
}

/* An engine that starts reads the names in sandboxes/ under the same lock (adopt_all()).  So no directory gets another name
 * while it reads, and none does so for an engine that is gone. */
static int take_name(const struct handing_over *w, struct err *err)
{
        const struct job_conf *c = w->conf;
        AUTO_CLOSE int names = sys_open_dir(c->sandboxes_dir, ".");
        struct pollfd engine = {.fd = c->engine_sock};
        int r = names;

        while (r >= 0 && (r = flock(names, LOCK_SH) < 0 ? -errno : 0) == -EINTR)
                r = 0;
        if (r == 0 && poll(&engine, 1, 0) == 1)
                r = -EPIPE; /* the engine is gone */
        if (r == 0 && renameat2(c->sandboxes_dir, w->job->id, c->sandboxes_dir, w->plan->id, RENAME_NOREPLACE) < 0)
                r = -errno;
        return r < 0 ? err_sys(err, r, "name it %s", w->plan->id) : 0;
}

static int thaw(const struct handing_over *w, struct err *err)
{
        int r = cgroups_freeze(w->conf->cgroups, w->record.facts.namespace.slot, false);

        return r < 0 ? err_sys(err, r, "thaw slot %u", w->record.facts.namespace.slot) : 0;
}

static int introduce(struct handing_over *w, struct err *err)
{
        json_t *init = json_copy(w->plan->init);
        int r;

        (void)json_object_set_new(init, "resumed", json_true());
        r = envd_introduce(w->pidfd, w->plan->token_before, init, err);
        json_decref(init);
        if (r < 0)
                return r;
        w->record.is_stranger = false;
        return record_write(w->dir, &w->record, err);
}

static int hand_over(struct handing_over *w, struct err *err)
{
        int r;

        job_stall_point(w->conf, "handing_over");
        if ((r = check_host_files(w, err)) < 0 || (r = find_process(w, err)) < 0 ||
            (r = hostname_set(w->conf, w->plan, w->pidfd, err)) < 0)
                return r;
        origin_write(w->dir, w->plan->id, w->plan->origin);
        if ((r = write_record(w, err)) < 0)
                return r;
        job_stall_point(w->conf, "recorded");
        if ((r = take_name(w, err)) < 0)
                return r;
        job_stall_point(w->conf, "named");
        if ((r = thaw(w, err)) < 0)
                return r;
        job_stall_point(w->conf, "thawed_standby");
        job_say_waits(w->conf);
        return introduce(w, err);
}

int job_hand_over(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        struct handing_over w = {.conf = c, .job = job, .plan = job->hand_over.plan, .pidfd = -1};
        uint64_t began = clock_mono_us();
        int r;

        (void)ret;
        w.dir = sys_open_dir(c->sandboxes_dir, job->id);
        r = w.dir < 0 ? err_sys(err, w.dir, "open directory of standby %s", job->id) : hand_over(&w, err);
        if (r < 0 && w.pidfd >= 0) /* it is of no use any more, also if no engine is there to end it */
                cgroups_kill(c->cgroups, w.record.facts.namespace.slot);
        close_fd(&w.dir);
        close_fd(&w.pidfd);
        log_debug("hand_over.done", "sandbox=%s result=%d us=%llu", w.plan->id, r,
                  (unsigned long long)(clock_mono_us() - began));
        return r;
}
