/* mounts.c - what the mounts of a sandbox cost: as every kernel from 6.1 on makes them, beside what only newer ones can do.
 *
 *   mounts DIR [-n COUNT] [-l LAYERS]
 *
 * DIR is an empty directory on a file system that can be idmapped.  Prints one JSON object in a line: microseconds, as medians and
 * 99th percentiles.  "attached" is the engine's way on every kernel (overlay.h, devices.h, mount_ways.h), with its clean-up
 * apart, which no request waits for; "detached" does the same with mounts that are attached nowhere (Linux 6.17), as the engine
 * does for overlays and proc where the kernel can.  Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/host/devices.h"
#include "engine/host/mount_stage.h"
#include "engine/host/mount_ways.h"
#include "engine/storage/layer_links.h"
#include "engine/storage/rootfs.h"
#include "samples.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "sys/proc.h"

#define UID_BASE 0x3fff0000u
#define COUNT_MAX 100000u

static struct err why;
static struct mount_ways ways;

static int must(int r, const char *what)
{
        if (r >= 0)
                return r;
        (void)fprintf(stderr, "mounts: %s: %s\n", what, why.msg[0] ? why.msg : strerror(-r));
        exit(1);
}

struct scene {
        int layers, sandboxes, trash, sealed;
        int userns, proc;
        pid_t pid; /* a process in namespaces of its own */
        struct plan_create plan;
        struct devices devices;
        struct layer_links links;
        int common_dev; /* detached, for the other way */
        unsigned made;
};

static void make_namespaces(struct scene *s)
{
        const struct sys_clone how = {.flags = CLONE_NEWUSER | CLONE_NEWPID, .cgroup = -1};
        char path[32], map[40];

        s->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        s->pid = sys_clone(&how);
        while (s->pid == 0)
                (void)pause();
        (void)snprintf(map, sizeof(map), "0 %u 65536", UID_BASE);
        (void)snprintf(path, sizeof(path), "%d/uid_map", must(s->pid, "clone"));
        must(sys_write_at(s->proc, path, map), "map uids");
        (void)snprintf(path, sizeof(path), "%d/gid_map", s->pid);
        must(sys_write_at(s->proc, path, map), "map gids");
        s->userns = must(sys_ns_open(s->proc, s->pid, "user"), "user namespace");
}

static void make_files(struct scene *s, const char *at, unsigned layers)
{
        int top = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int *const dirs[] = {&s->layers, &s->sandboxes, &s->trash, &s->sealed};
        static const char *const names[] = {"layers", "sandboxes", "trash", "sealed"};

        must(top < 0 ? -errno : 0, at);
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                must(sys_make_dir(top, names[i], 0700), names[i]);
                *dirs[i] = must(sys_open_dir(top, names[i]), names[i]);
        }
        for (s->plan.layer_count = 0; s->plan.layer_count < layers; s->plan.layer_count++) {
                char *name = NULL;

                must(asprintf(&name, "l%zu", s->plan.layer_count), "name");
                must(sys_make_dir(s->layers, name, 0755), name);
                s->plan.layers[s->plan.layer_count] = name;
        }
}

static int make_sandbox_dir(struct scene *s)
{
        char name[24];
        int dir;

        (void)snprintf(name, sizeof(name), "s%u", s->made++);
        must(sys_make_dir(s->sandboxes, name, 0700), name);
        dir = must(sys_open_dir(s->sandboxes, name), name);
        must(writable_make(dir), "upper");
        return dir;
}

/* ------------------------------------------------------------- the engine's way */

static uint64_t overlay_attached(struct scene *s, uint64_t *ret_after)
{
        AUTO_CLOSE int dir = make_sandbox_dir(s);
        const struct rootfs_dirs dirs = {.layers = s->layers,
                                         .writable = {.dir = dir, .sealed = s->sealed, .trash = s->trash},
                                         .is_ahead = true};
        const struct rootfs_owner owner = {
                .uid_base = UID_BASE, .userns = s->userns, .has_uuid = ways.has_overlay_uuid};
        struct rootfs_parts parts;
        struct mount_stage stage;
        struct rootfs tree;
        uint64_t before = clock_mono_us(), made;

        must(rootfs_open_parts(&parts, &dirs, &s->plan, &owner, &why), "parts");
        must(mount_stage_open(&stage, STAGE_DISK, &why), "stage");
        must(rootfs_mount(&tree, &parts, &stage, &s->links, &dirs, &owner, &why), "overlay");
        rootfs_parts_done(&parts);
        made = clock_mono_us();
        mount_stage_close(&stage);
        *ret_after = clock_mono_us() - made;
        rootfs_done(&tree);
        return made - before;
}

static uint64_t dev_attached(struct scene *s, uint64_t *ret_after)
{
        uint64_t before = clock_mono_us(), made;
        int mount = -1;

        must(devices_mount(&s->devices, UID_BASE, &mount, &why), "/dev");
        made = clock_mono_us();
        (void)close(mount);
        *ret_after = clock_mono_us() - made;
        return made - before;
}

static uint64_t proc_attached(struct scene *s, uint64_t *ret_after)
{
        const struct mount_ways child = {0};
        uint64_t before = clock_mono_us(), made;
        int mount = must(mount_ways_proc(&child, s->proc, s->pid), "proc");

        made = clock_mono_us();
        (void)close(mount);
        *ret_after = clock_mono_us() - made;
        return made - before;
}

/* ------------------------------------------------------------- newer kernels only */

static int clone_mapped(struct scene *s, int dir)
{
        int tree = must(sys_clone_tree(dir, ""), "clone");

        must(sys_mount_idmap(tree, s->userns), "map owners");
        return tree;
}

static uint64_t overlay_detached(struct scene *s, uint64_t *ret_after)
{
        static const char *const options[] = {"redirect_dir", "on",         "metacopy", "off",  "index",
                                              "off",          "nfs_export", "off",      "uuid", "null"};
        AUTO_CLOSE int dir = make_sandbox_dir(s), fs = -1, upper = -1, work = -1;
        int later[PLAN_LAYERS_MAX + 1], n = 0, mount;
        uint64_t before = clock_mono_us(), made;

        fs = must(sys_fsopen("overlay"), "overlay");
        for (size_t i = s->plan.layer_count; i-- > 0;) {
                AUTO_CLOSE int layer = sys_open_beneath(s->layers, s->plan.layers[i], O_PATH | O_DIRECTORY, 0);

                later[n] = clone_mapped(s, layer);
                must(sys_fs_fd(fs, "lowerdir+", later[n++]), "layer");
        }
        later[n] = clone_mapped(s, dir);
        upper = openat(later[n], "upper", O_PATH | O_DIRECTORY | O_CLOEXEC);
        work = openat(later[n++], "work", O_PATH | O_DIRECTORY | O_CLOEXEC);
        must(sys_fs_fd(fs, "upperdir", upper), "upper");
        must(sys_fs_fd(fs, "workdir", work), "work");
        must(sys_fs_flag(fs, "volatile"), "volatile");
        for (size_t i = 0; i < ARRAY_LEN(options); i += 2)
                must(sys_fs_string(fs, options[i], options[i + 1]), options[i]);
        sys_set_fsids(UID_BASE, UID_BASE);
        must(sys_fs_create(fs), "create");
        sys_set_fsids(0, 0);
        mount = must(sys_fsmount(fs, MOUNT_ATTR_NODEV), "mount");
        made = clock_mono_us();
        while (n > 0)
                (void)close(later[--n]);
        *ret_after = clock_mono_us() - made;
        (void)close(mount);
        return made - before;
}

static uint64_t dev_detached(struct scene *s, uint64_t *ret_after)
{
        uint64_t before = clock_mono_us(), made;
        int mount = clone_mapped(s, s->common_dev);

        made = clock_mono_us();
        (void)close(mount);
        *ret_after = clock_mono_us() - made;
        return made - before;
}

static uint64_t proc_detached(struct scene *s, uint64_t *ret_after)
{
        const struct mount_ways option = {.proc_by_option = true};
        uint64_t before = clock_mono_us(), made;
        int mount = must(mount_ways_proc(&option, s->proc, s->pid), "proc");

        made = clock_mono_us();
        (void)close(mount);
        *ret_after = clock_mono_us() - made;
        return made - before;
}

/* ------------------------------------------------------------- all of them */

typedef uint64_t once(struct scene *s, uint64_t *ret_after);

static void measure(json_t *all, const char *name, struct scene *s, once *fn, unsigned count)
{
        struct samples made = {0}, after = {0};
        json_t *both = json_object();

        for (unsigned i = 0; i < count; i++) {
                uint64_t late = 0, us = fn(s, &late);

                samples_add(&made, (double)us);
                samples_add(&after, (double)late);
        }
        (void)json_object_set_new(both, "us", samples_json(&made));
        (void)json_object_set_new(both, "cleaned_up_us", samples_json(&after));
        samples_done(&made);
        samples_done(&after);
        (void)json_object_set_new(all, name, both);
}

/* Where this kernel has no such mounts, those figures are missing. */
static bool has_detached(int common)
{
        AUTO_CLOSE int copy = sys_clone_tree(common, "");

        return copy >= 0 && ways.proc_by_option;
}

static void compare(struct scene *s, unsigned count)
{
        json_t *all = json_object();
        bool both = has_detached(s->common_dev);

        for (int warm = 1; warm >= 0; warm--) {
                unsigned n = warm ? 20 : count;

                measure(all, "overlay_attached", s, overlay_attached, n);
                if (both)
                        measure(all, "overlay_detached", s, overlay_detached, n);
                measure(all, "dev_attached", s, dev_attached, n);
                if (both)
                        measure(all, "dev_detached", s, dev_detached, n);
                measure(all, "proc_attached", s, proc_attached, n);
                if (both)
                        measure(all, "proc_detached", s, proc_detached, n);
        }
        (void)json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
        (void)puts("");
        json_decref(all);
}

static int mount_common_dev(void)
{
        AUTO_CLOSE int fs = must(sys_fsopen("tmpfs"), "tmpfs");

        must(sys_fs_create(fs), "tmpfs");
        return must(sys_fsmount(fs, 0), "tmpfs");
}

int main(int argc, char **argv)
{
        struct scene s = {0};
        unsigned count = 500, layers = 1;
        int which, self;

        while ((which = getopt(argc, argv, "n:l:")) != -1) {
                if (which == 'n')
                        count = (unsigned)strtoul(optarg, NULL, 10);
                else if (which == 'l')
                        layers = (unsigned)strtoul(optarg, NULL, 10);
        }
        if (optind + 1 != argc || count < 1 || count > COUNT_MAX || layers < 1 || layers > PLAN_LAYERS_MAX) {
                (void)fprintf(stderr, "usage: mounts DIR [-n COUNT] [-l LAYERS]\n");
                return 2;
        }
        must(mount_ways_find(&ways, &why), "ways");
        must(mount_stage_enter(&why), "mount namespace");
        must(layer_links_open(&s.links, &why), "links");
        must(sys_keep_caps(true), "keep capabilities");
        make_files(&s, argv[optind], layers);
        make_namespaces(&s);
        self = must(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "own program");
        must(devices_open(&s.devices, self, STAGE_DEVICES, &why), "devices");
        s.common_dev = mount_common_dev();
        compare(&s, count);
        (void)kill(s.pid, SIGKILL);
        (void)waitpid(s.pid, NULL, 0);
        return 0;
}
