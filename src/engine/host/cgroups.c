#include "engine/host/cgroups.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "sys/fs.h"

const char *const cgroup_control_names[CGROUP_CONTROLS] = {"memory", "pids", "cpu", "freezer"};

/* ------------------------------------------------------------- finding the hierarchies */

struct hierarchies {
        int v2, v1[CGROUP_CONTROLS]; /* fds of the mount points */
};

static void hierarchies_done(struct hierarchies *h)
{
        close_fd(&h->v2);
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                close_fd(&h->v1[i]);
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

static void note_mount(struct hierarchies *h, const char *point, const char *type, const char *options)
{
        if (strcmp(type, "cgroup2") == 0 && h->v2 < 0)
                h->v2 = open_mount_point(point);
        if (strcmp(type, "cgroup") != 0)
                return;
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                if (h->v1[i] < 0 && has_option(options, cgroup_control_names[i]))
                        h->v1[i] = open_mount_point(point);
}

static int find_hierarchies(struct hierarchies *ret)
{
        char line[4096], point[1024], type[64], options[1024];
        FILE *f = fopen("/proc/self/mounts", "re");

        if (!f)
                return -errno;
        *ret = (struct hierarchies){-1, {-1, -1, -1, -1}};
        while (fgets(line, sizeof(line), f))
                if (sscanf(line, "%*s %1023s %63s %1023s", point, type, options) == 3)
                        note_mount(ret, point, type, options);
        (void)fclose(f);
        return 0;
}

static bool v2_offers(int v2, const char *file, const char *control)
{
        char text[512];
        struct str rest, head;
        bool more;

        if (v2 < 0 || sys_read_at(v2, file, text, sizeof(text)) < 0)
                return false;
        text[strcspn(text, "\n")] = '\0';
        rest = str_of(text);
        do {
                more = str_cut(&rest, ' ', &head);
                if (str_is(head, control))
                        return true;
        } while (more);
        return false;
}

static int open_parent(int at, const char *parent, int *ret)
{
        int r = sys_make_dir(at, parent, 0755);

        if (r < 0)
                return r;
        r = sys_open_dir(at, parent);
        if (r < 0)
                return r;
        *ret = r;
        return 0;
}

/* Let the slots below the parent have the controller. */
static bool delegate(int root, int parent, const char *control)
{
        char plus[32];

        (void)snprintf(plus, sizeof(plus), "+%s", control);
        if (!v2_offers(root, "cgroup.subtree_control", control) &&
            sys_write_at(root, "cgroup.subtree_control", plus) < 0)
                return false;
        return sys_write_at(parent, "cgroup.subtree_control", plus) == 0;
}

static int open_all(const struct hierarchies *h, const char *parent, struct cgroups *c, struct err *err)
{
        int r;

        if (h->v2 >= 0) {
                r = open_parent(h->v2, parent, &c->v2);
                if (r < 0)
                        return err_sys(err, r, "make cgroup '%s'", parent);
        }
        for (int i = 0; i < CGROUP_CONTROLS; i++) {
                if (i == CGROUP_FREEZER && c->v2 >= 0) {
                        c->in_v2[i] = true; /* cgroup.freeze is part of v2 itself */
                        continue;
                }
                if (v2_offers(h->v2, "cgroup.controllers", cgroup_control_names[i]))
                        c->in_v2[i] = delegate(h->v2, c->v2, cgroup_control_names[i]);
                if (c->in_v2[i])
                        continue;
                if (h->v1[i] < 0)
                        return err_set(err, ERR_UNAVAILABLE, "no cgroup hierarchy has the %s controller",
                                       cgroup_control_names[i]);
                r = open_parent(h->v1[i], parent, &c->v1[i]);
                if (r < 0)
                        return err_sys(err, r, "make %s cgroup '%s'", cgroup_control_names[i], parent);
        }
        return 0;
}

int cgroups_open(const char *parent, struct cgroups *ret, struct err *err)
{
        struct cgroups c = {.v2 = -1, .v1 = {-1, -1, -1, -1}};
        struct hierarchies h;
        int r;

        r = find_hierarchies(&h);
        if (r < 0)
                return err_sys(err, r, "find cgroups");
        r = open_all(&h, parent, &c, err);
        hierarchies_done(&h);
        if (r < 0) {
                cgroups_done(&c);
                return r;
        }
        *ret = c;
        return 0;
}

void cgroups_done(struct cgroups *c)
{
        close_fd(&c->v2);
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                close_fd(&c->v1[i]);
}

unsigned cgroups_fds(const struct cgroups *c, int out[CGROUPS_FDS_MAX])
{
        unsigned n = 0;

        if (c->v2 >= 0)
                out[n++] = c->v2;
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                if (c->v1[i] >= 0)
                        out[n++] = c->v1[i];
        return n;
}

int cgroups_remove_parent(const char *parent)
{
        struct hierarchies h;
        int r = find_hierarchies(&h);

        if (r < 0)
                return r;
        if (h.v2 >= 0 && unlinkat(h.v2, parent, AT_REMOVEDIR) < 0 && errno != ENOENT)
                r = -errno;
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                if (h.v1[i] >= 0 && unlinkat(h.v1[i], parent, AT_REMOVEDIR) < 0 && errno != ENOENT)
                        r = -errno;
        hierarchies_done(&h);
        return r;
}

/* ------------------------------------------------------------- all slots */

static void each_dir(int parent, void (*fn)(unsigned slot, void *arg), void *arg)
{
        AUTO_DIR DIR *d = sys_list(parent);
        struct dirent *e;
        uint32_t slot;

        while (d && (e = sys_list_next(d)))
                if (e->d_type == DT_DIR && parse_u32(str_of(e->d_name), 0, UINT32_MAX, &slot) == 0)
                        fn(slot, arg);
}

void cgroups_each(const struct cgroups *c, void (*fn)(unsigned slot, void *arg), void *arg)
{
        int fds[CGROUPS_FDS_MAX];
        unsigned n = cgroups_fds(c, fds);

        for (unsigned i = 0; i < n; i++)
                each_dir(fds[i], fn, arg); /* a slot may be told more than once */
}

struct used {
        int dir;
        bool any;
};

static void look_for_process(unsigned slot, void *arg)
{
        struct used *u = arg;
        char path[64], text[8];
        ssize_t n;

        (void)snprintf(path, sizeof(path), "%u/cgroup.procs", slot);
        n = sys_read_at(u->dir, path, text, sizeof(text));
        if (n > 0 || n == -E2BIG)
                u->any = true;
}

bool cgroups_is_used(const char *parent)
{
        struct hierarchies h;
        struct used u = {0};

        if (find_hierarchies(&h) < 0)
                return true;
        for (int i = -1; i < CGROUP_CONTROLS && !u.any; i++) {
                int at = i < 0 ? h.v2 : h.v1[i];
                AUTO_CLOSE int dir = at < 0 ? -1 : sys_open_dir(at, parent);

                u.dir = dir;
                if (dir >= 0)
                        each_dir(dir, look_for_process, &u);
        }
        hierarchies_done(&h);
        return u.any;
}
