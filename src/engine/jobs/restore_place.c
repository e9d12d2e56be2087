#include "engine/jobs/restore_place.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/host/mount_stage.h"
#include "engine/jobs/envd_copies.h"
#include "engine/storage/layer_links.h"
#include "engine/storage/host_layer.h"
#include "engine/storage/trash.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "sys/proc.h"

#define SCRATCH "r" /* below the sandbox's directory: CRIU's log, and images linked for another range */
#define SCRATCH_IMAGES "i"

void restore_place_init(struct restore_place *p)
{
        *p = (struct restore_place){.userns = -1};
        rootfs_init(&p->rootfs);
}

/* ------------------------------------------------------------- the range of owners */

static int write_maps(const struct job_conf *c, pid_t pid, uint32_t base)
{
        char path[32], map[40];
        int r;

        (void)snprintf(map, sizeof(map), "0 %u %u", base, UID_RANGE);
        (void)snprintf(path, sizeof(path), "%d/uid_map", pid);
        r = sys_write_at(c->proc_dir, path, map);
        (void)snprintf(path, sizeof(path), "%d/gid_map", pid);
        return r < 0 ? r : sys_write_at(c->proc_dir, path, map);
}

/* Only its user namespace is wanted.  It ends with the job process, and holds nothing open meanwhile: neither the lock of the
 * sandbox nor the socket by whose end the engine knows that the job process is dead. */
static _Noreturn void be_userns(pid_t job_process)
{
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != job_process || sys_close_from(0) < 0)
                _exit(1);
        for (;;)
                (void)pause();
}

static int make_userns(const struct job_conf *c, uint32_t base, int *ret, struct err *err)
{
        const struct sys_clone how = {.flags = CLONE_NEWUSER, .cgroup = -1};
        pid_t own = getpid(), pid = sys_clone(&how);
        int r;

        if (pid == 0)
                be_userns(own);
        if (pid < 0)
                return err_sys(err, pid, "make user namespace");
        r = write_maps(c, pid, base);
        if (r == 0)
                r = sys_ns_open(c->proc_dir, pid, "user");
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        if (r < 0)
                return err_sys(err, r, "set up user namespace");
        *ret = r;
        return 0;
}

/* ------------------------------------------------------------- mounts */

static bool is_above(const char *dir, const char *path)
{
        size_t n = strlen(dir);

        return path && strncmp(dir, path, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* A directory of the host to mount on, in a mount namespace of our own: every user can reach it, and it holds nothing we need. */
static const char *find_cover(const struct job_conf *c)
{
        static const char *const covers[] = {"/mnt", "/media", "/srv", "/boot", "/home", "/opt"};
        struct stat st;

        for (size_t i = 0; i < ARRAY_LEN(covers); i++)
                if (!is_above(covers[i], c->data_path) && !is_above(covers[i], c->tool.dir) &&
                    !is_above(covers[i], c->tool.shim) && !is_above(covers[i], c->tool.run_dir) &&
                    lstat(covers[i], &st) == 0 && S_ISDIR(st.st_mode))
                        return covers[i];
        return NULL;
}

static int move_to_cover(int mount, const char *cover, const char *name, char out[64])
{
        (void)snprintf(out, 64, "%s/%s", cover, name);
        if (mkdir(out, 0755) < 0)
                return -errno;
        return sys_move_mount(mount, AT_FDCWD, out);
}

static int mount_at_cover(struct restore_place *p, const struct job_conf *c, int dev, struct err *err)
{
        const char *cover = find_cover(c);
        int r;

        if (!cover)
                return err_set(err, ERR_UNAVAILABLE, "no directory of this host can be covered to restore in");
        if (mount("place", cover, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=755") < 0)
                return err_sys(err, -errno, "cover %s", cover);
        r = move_to_cover(p->rootfs.mount, cover, "root", p->root);
        if (r == 0)
                r = move_to_cover(dev, cover, "dev", p->dev);
        return r < 0 ? err_sys(err, r, "hang up its root") : 0;
}

/* In a mount namespace of our own, with what hangs on its stage: all of it goes with this process. */
static int mount_root(struct restore_place *p, const struct job_conf *c, const struct rootfs_parts *parts,
                      const struct rootfs_dirs *dirs, uint32_t uid_base, struct err *err)
{
        const struct rootfs_owner owner = {.uid_base = uid_base, .userns = p->userns, .has_uuid = c->has_uuid};
        struct layer_links links;
        struct mount_stage stage;
        int r = mount_stage_open(&stage, STAGE_JOB, err);

        if (r < 0)
                return r;
        r = layer_links_open(&links, err);
        if (r == 0)
                r = rootfs_mount(&p->rootfs, parts, &stage, &links, dirs, &owner, err);
        layer_links_close(&links);
        close_fd(&stage.dir);
        return r;
}

/* ------------------------------------------------------------- images */

static int make_scratch(const struct job_conf *c, int dir)
{
        trash_discard(c->trash_dir, dir, SCRATCH); /* of a restore that was killed */
        if (mkdirat(dir, SCRATCH, 0711) < 0 || mkdirat(dir, SCRATCH "/" SCRATCH_IMAGES, 0711) < 0)
                return -errno;
        return 0;
}

static int name_images(struct restore_place *p, const struct job_conf *c, const struct plan_create *plan,
                       bool is_linked)
{
        if (asprintf(&p->work, "%s/sandboxes/%s/" SCRATCH, c->data_path, plan->id) < 0)
                p->work = NULL;
        if (is_linked &&
            asprintf(&p->images, "%s/sandboxes/%s/" SCRATCH "/" SCRATCH_IMAGES, c->data_path, plan->id) < 0)
                p->images = NULL;
        if (!is_linked &&
            asprintf(&p->images, "%s/checkpoints/%s/" CHECKPOINT_IMAGES, c->data_path, plan->checkpoint) < 0)
                p->images = NULL;
        return p->work && p->images ? 0 : -ENOMEM;
}

static int prepare_images(struct restore_place *p, const struct job_conf *c, int dir, const struct plan_create *plan,
                          const struct checkpoint *cp, uint32_t uid_base, struct err *err)
{
        bool is_linked = checkpoint_facts(cp)->uid_base != uid_base;
        AUTO_CLOSE int images = -1;
        int r = make_scratch(c, dir);

        if (r == 0)
                r = name_images(p, c, plan, is_linked);
        if (r < 0)
                return err_sys(err, r, "prepare images");
        if (!is_linked)
                return 0;
        images = sys_open_dir(dir, SCRATCH "/" SCRATCH_IMAGES);
        return images < 0 ? err_sys(err, images, "open images") : checkpoint_rebase(cp, images, uid_base, err);
}

static int mount_all(struct restore_place *p, const struct job_conf *c, const struct rootfs_parts *parts,
                     const struct rootfs_dirs *dirs, const struct checkpoint *cp, uint32_t uid_base, struct err *err)
{
        AUTO_CLOSE int dev = -1;
        int r;

        if ((r = mount_stage_leave(err)) < 0 || (r = mount_root(p, c, parts, dirs, uid_base, err)) < 0 ||
            (r = envd_copies_dev(c, checkpoint_facts(cp)->envd, uid_base, &dev, err)) < 0)
                return r;
        return mount_at_cover(p, c, dev, err);
}

int restore_place_make(struct restore_place *p, const struct job_conf *c, int dir, const struct plan_create *plan,
                       const struct checkpoint *cp, uint32_t uid_base, struct err *err)
{
        struct host_layer host;
        const struct rootfs_dirs dirs = {.layers = c->layers_dir, .writable = job_writable(c, dir), .host = &host};
        struct rootfs_owner owner = {.uid_base = uid_base};
        struct rootfs_parts parts;
        int r;

        if ((r = prepare_images(p, c, dir, plan, cp, uid_base, err)) < 0 ||
            (r = make_userns(c, uid_base, &p->userns, err)) < 0)
                return r;
        owner.userns = p->userns;
        host_layer_init(&host, c->host_dir, c->boot_id);
        r = rootfs_open_parts(&parts, &dirs, plan, &owner, err); /* where the directories are attached */
        host_layer_done(&host);
        if (r < 0)
                return r;
        r = mount_all(p, c, &parts, &dirs, cp, uid_base, err);
        rootfs_parts_done(&parts);
        return r;
}

void restore_place_clear(struct restore_place *p, const struct job_conf *c, int dir)
{
        trash_discard(c->trash_dir, dir, SCRATCH);
        free(p->images);
        free(p->work);
}
