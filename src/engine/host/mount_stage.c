#include "engine/host/mount_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "sys/mnt.h"

#define RUN_DIR "/run/sandglass"
#define NAMES STAGE_DIR "/names"

static int make_dirs(void)
{
        static const char *const dirs[] = {NAMES,
                                           NAMES "/" STAGE_FILES,
                                           NAMES "/" STAGE_LAYERS,
                                           NAMES "/" STAGE_SEALED,
                                           NAMES "/" STAGE_HOST,
                                           NAMES "/" STAGE_SPARE_0,
                                           NAMES "/" STAGE_SPARE_1,
                                           STAGE_LINKS,
                                           STAGE_DISK,
                                           STAGE_JOB,
                                           STAGE_DEVICES,
                                           STAGE_DEVICES_KEPT};

        for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
                if (mkdir(dirs[i], 0755) < 0)
                        return -errno;
        return 0;
}

/* Slaves of the host's mounts: an unmount reaches us, and nothing of ours reaches the host. */
int mount_stage_enter(struct err *err)
{
        int r;

        if ((mkdir(RUN_DIR, 0700) < 0 && errno != EEXIST) || (mkdir(STAGE_DIR, 0700) < 0 && errno != EEXIST))
                return err_sys(err, -errno, "make " STAGE_DIR);
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
            mount("sandglass", STAGE_DIR, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755") < 0)
                return err_sys(err, -errno, "make mount namespace");
        r = make_dirs();
        return r < 0 ? err_sys(err, r, "furnish " STAGE_DIR) : 0;
}

int mount_stage_leave(struct err *err)
{
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return err_sys(err, -errno, "make mount namespace");
        return 0;
}

void mount_stage_init(struct mount_stage *s)
{
        *s = (struct mount_stage){.dir = -1};
}

int mount_stage_open(struct mount_stage *s, const char *at, struct err *err)
{
        AUTO_CLOSE int dir = sys_clone_tree(AT_FDCWD, NAMES);
        int r = dir < 0 ? dir : sys_move_mount(dir, AT_FDCWD, at);

        if (r < 0)
                return err_sys(err, r, "hang up directories for layers");
        *s = (struct mount_stage){.at = at, .dir = TAKE_FD(dir)};
        return 0;
}

int mount_stage_hang(const struct mount_stage *s, int mount, const char *name)
{
        return sys_move_mount(mount, s->dir, name);
}

void mount_stage_close(struct mount_stage *s)
{
        close_fd(&s->dir);
        if (s->at)
                (void)umount2(s->at, MNT_DETACH);
        s->at = NULL;
}

void mount_stage_clear(const char *at)
{
        while (umount2(at, MNT_DETACH) == 0)
                continue;
}
