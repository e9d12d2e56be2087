#include "engine/net/slot_cleaner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/host/cgroups.h"
#include "engine/host/helper.h"
#include "engine/host/instance.h"
#include "sys/fs.h"
#include "sys/netlink.h"
#include "sys/scm.h"

#define BUSY_TRIES 12u /* 1, 2, 4 ... ms: four seconds in all */

/* A cgroup stays busy for a moment after its last process ended, and v1 has no event for it. */
static int remove_cgroups(const struct cgroups *cg, const struct slot_cleaner_order *job)
{
        int (*remove)(const struct cgroups *c, unsigned slot) = job->keeps_group ? cgroups_recycle : cgroups_remove;
        int r = remove(cg, job->slot);

        for (unsigned i = 0; r == -EBUSY && i < BUSY_TRIES; i++) {
                struct timespec t = {.tv_nsec = (1l << i) * 1000000l};

                if (t.tv_nsec >= 1000000000l)
                        t = (struct timespec){t.tv_nsec / 1000000000l, t.tv_nsec % 1000000000l};
                (void)nanosleep(&t, NULL);
                r = remove(cg, job->slot);
        }
        return r;
}

/* Anything but a readable zero. */
static bool has_sent(const struct instance *in, unsigned slot)
{
        char name[INSTANCE_LINK_MAX], path[96], text[32];

        instance_link_name(in, slot, name);
        (void)snprintf(path, sizeof(path), "/sys/class/net/%s/statistics/rx_packets", name);
        return sys_read_at(AT_FDCWD, path, text, sizeof(text)) < 0 || strcmp(text, "0\n") != 0;
}

/* The host remembers a sandbox's connections for minutes, and longer when the other side goes on sending: the next one
 * with its address would get what was meant for it, and find its share of connections used up. */
static void forget_flows(const struct instance *in, unsigned slot)
{
        AUTO_CLOSE int nl = netlink_open_netfilter();
        int r = nl < 0 ? nl : netlink_flows_forget(nl, instance_address(in, slot));

        if (r < 0 && r != -ENOENT)
                log_warn("flows.left", "slot=%u error=\"%s\"", slot, strerror(-r));
}

static struct slot_cleaner_result clean(const struct cgroups *cg, const struct instance *in,
                                        const struct slot_cleaner_order *job)
{
        struct slot_cleaner_result done = {.slot = job->slot, .was_online = in && has_sent(in, job->slot)};

        if (done.was_online)
                forget_flows(in, job->slot);
        done.r = remove_cgroups(cg, job);
        done.kept_group = job->keeps_group;
        return done;
}

static _Noreturn void run_slot_cleaner(const struct cgroups *cg, const struct instance *in, int sock)
{
        struct slot_cleaner_order job;
        int fds[HELPER_FDS_MAX];
        size_t nfds = 0;

        while (scm_recv(sock, &job, sizeof(job), fds, HELPER_FDS_MAX, &nfds) == (ssize_t)sizeof(job)) {
                for (size_t i = 0; i < nfds; i++)
                        (void)close(fds[i]);
                if (job.slot) {
                        struct slot_cleaner_result done = clean(cg, in, &job);

                        if (scm_send(sock, &done, sizeof(done), NULL, 0) < 0)
                                break;
                }
                nfds = 0;
        }
        _exit(0);
}

int slot_cleaner_fork(const struct cgroups *cg, const struct instance *in, int *ret_sock, struct err *err)
{
        int keep[CGROUPS_FDS_MAX], sock = -1;
        unsigned n = cgroups_fds(cg, keep);
        pid_t pid = helper_fork("sg-slot-clean", keep, n, &sock);

        if (pid < 0)
                return err_sys(err, pid, "fork slot cleaner");
        if (pid == 0)
                run_slot_cleaner(cg, in, sock);
        *ret_sock = sock;
        return 0;
}
