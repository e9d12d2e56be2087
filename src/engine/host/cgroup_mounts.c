#include "engine/host/cgroup_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "engine/host/run_dir.h"

#define OWN_V2 RUN_DIR "/cgroup2"

const char *const cgroup_control_names[CGROUP_CONTROLS] = {"memory", "pids", "cpu", "freezer"};

void cgroup_mounts_done(struct cgroup_mounts *m)
{
        close_fd(&m->v2);
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                close_fd(&m->v1[i]);
}

static bool has_option(const char *options, const char *name)
{
        struct str rest = str_of(options), head;
        bool more;

        do {
                more = str_cut(&rest, ',', &head);
                if (str_is(head, name))
                        return true;
        } while (more);
        return false;
}

static int open_mount_point(const char *path)
{
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? -1 : fd;
}

static void note_mount(struct cgroup_mounts *m, const char *point, const char *type, const char *options)
{
        if (strcmp(type, "cgroup2") == 0 && m->v2 < 0)
                m->v2 = open_mount_point(point);
        if (strcmp(type, "cgroup") != 0)
                return;
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                if (m->v1[i] < 0 && has_option(options, cgroup_control_names[i]))
                        m->v1[i] = open_mount_point(point);
}

/* It stays, as the groups in it do: they are the same wherever the hierarchy is mounted. */
static int mount_own_v2(void)
{
        AUTO_CLOSE int run = run_dir_open();

        if (run < 0 || (mkdirat(run, "cgroup2", 0755) < 0 && errno != EEXIST) ||
            mount("cgroup2", OWN_V2, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                return -1; /* an old kernel, or one that was told to do without */
        return open_mount_point(OWN_V2);
}

int cgroup_mounts_open(struct cgroup_mounts *ret)
{
        char line[4096], point[1024], type[64], options[1024];
        FILE *f = fopen("/proc/self/mounts", "re");

        if (!f)
                return -errno;
        *ret = (struct cgroup_mounts){-1, {-1, -1, -1, -1}};
        while (fgets(line, sizeof(line), f))
                if (sscanf(line, "%*s %1023s %63s %1023s", point, type, options) == 3)
                        note_mount(ret, point, type, options);
        (void)fclose(f);
        if (ret->v2 < 0)
                ret->v2 = mount_own_v2();
        return 0;
}
