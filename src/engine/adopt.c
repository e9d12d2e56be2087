#include "engine/adopt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/guest.h"
#include "sys/fs.h"

/* The pid may have been given to another process meanwhile: compare before and after taking hold of it. */
static int find_process(const struct record *r, int proc_dir, const char *boot_id, int *ret_pidfd, struct err *err)
{
        AUTO_CLOSE int pidfd = -1;
        uint64_t start;

        if (strcmp(r->boot_id, boot_id) != 0)
                return err_set(err, ERR_NOT_FOUND, "the machine was started again since");
        pidfd = sys_pidfd_open(r->pid);
        if (pidfd < 0 || sys_start_time(proc_dir, r->pid, &start) < 0 || start != r->start_time ||
            sys_pidfd_is_dead(pidfd))
                return err_set(err, ERR_NOT_FOUND, "process %d is gone", r->pid);
        *ret_pidfd = TAKE_FD(pidfd);
        return 0;
}

int adopt_find(int dir, int proc_dir, const char *boot_id, struct record *ret, int *ret_pidfd, struct err *err)
{
        struct record r;
        int e = record_read(dir, &r, err);

        if (e < 0)
                return e;
        e = find_process(&r, proc_dir, boot_id, ret_pidfd, err);
        if (e < 0) {
                record_done(&r);
                return e;
        }
        *ret = r;
        return 0;
}

static int check_place(struct engine *e, const struct record *r, const char *id, struct err *err)
{
        uint32_t base;
        int x = instance_uid_base(&e->instance, r->slot, &base, err);

        if (x < 0)
                return x;
        if (strcmp(r->id, id) != 0 || base != r->uid_base)
                return err_set(err, ERR_CONFLICT, "its record belongs elsewhere");
        return 0;
}

static int take_over(struct engine *e, struct record *r, int *pidfd, struct err *err)
{
        AUTO_CLOSE int netns = sys_ns_open(e->proc_dir, r->pid, "net");
        struct guest *s;
        int x;

        if (netns < 0)
                return err_sys(err, netns, "open network namespace");
        if (!slots_mark_used(&e->pool.slots, r->slot))
                return err_set(err, ERR_CONFLICT, "slot %u is another's", r->slot);
        x = guest_add(e, r->id, &s, err);
        if (x < 0)
                return x;
        plan_net_done(&s->record.net);
        s->record = *r;
        *r = (struct record){0};
        s->netns = TAKE_FD(netns);
        guest_go(s, GUEST_STARTING);
        guest_go(s, GUEST_RUNNING);
        e->alive++;
        x = guest_watch(s, TAKE_FD(*pidfd));
        return x < 0 ? err_sys(err, x, "watch process") : 0;
}

static int adopt_one(struct engine *e, const char *id, struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(e->sandboxes_dir, id), pidfd = -1;
        struct record r;
        int x;

        if (dir < 0)
                return err_sys(err, dir, "open");
        x = adopt_find(dir, e->proc_dir, e->boot_id, &r, &pidfd, err);
        if (x < 0)
                return x;
        x = check_place(e, &r, id, err);
        if (x == 0)
                x = take_over(e, &r, &pidfd, err);
        if (x < 0 && pidfd >= 0)
                (void)sys_pidfd_kill(pidfd, SIGKILL); /* alive, but nobody could ever reach it */
        record_done(&r);
        return x;
}

static void discard(struct engine *e, const char *name)
{
        char to[300];

        (void)snprintf(to, sizeof(to), "%.255s-", name);
        random_id(to + strlen(to), 6);
        if (renameat(e->sandboxes_dir, name, e->trash_dir, to) < 0)
                log_error("sandbox.left", "name=%.64s error=\"%s\"", name, strerror(errno));
}

int adopt_all(struct engine *e, struct err *err)
{
        int fd = openat(e->sandboxes_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;

        if (!d) {
                close_fd(&fd);
                return err_sys(err, -errno, "read sandboxes directory");
        }
        while ((entry = readdir(d))) {
                struct err why = {0};

                if (entry->d_name[0] == '.')
                        continue;
                if (sandbox_id_is_valid(str_of(entry->d_name)) && adopt_one(e, entry->d_name, &why) == 0) {
                        log_info("sandbox.adopted", "sandbox=%s", entry->d_name);
                        continue;
                }
                log_info("sandbox.discarded", "name=%.64s reason=\"%s\"", entry->d_name, why.msg);
                discard(e, entry->d_name);
        }
        (void)closedir(d);
        return 0;
}
