#include "engine/host/cgroups.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "engine/host/cgroup_place.h"
#include "engine/host/cgroup_processes.h"
#include "sys/fs.h"

#define SERVER_GROUP "server" /* for processes that were in a group which must have none itself */
#define MOVE_ROUNDS_MAX 100u

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

struct move {
        int leaf;
        unsigned seen;
};

static int move_process(pid_t pid, void *arg)
{
        struct move *m = arg;
        char number[24];
        int r;

        m->seen++;
        (void)snprintf(number, sizeof(number), "%d", (int)pid);
        r = sys_write_at(m->leaf, "cgroup.procs", number);
        return r == -ESRCH ? 0 : r;
}

/* A group whose controllers are to reach the groups below must have no process itself.  Its processes are ours: of the server, or
 * of the container that the server is alone in. */
static int move_processes_down(int place)
{
        AUTO_CLOSE int leaf = -1;
        int r = open_parent(place, SERVER_GROUP, &leaf);

        for (unsigned i = 0; r == 0 && i < MOVE_ROUNDS_MAX; i++) { /* they may fork meanwhile */
                struct move m = {.leaf = leaf};

                r = cgroup_each_process(place, "cgroup.procs", move_process, &m);
                if (r == 0 && m.seen == 0)
                        return 0;
        }
        return r < 0 ? r : -EBUSY;
}

static int enable_below(int place, const char *plus)
{
        int r = sys_write_at(place, "cgroup.subtree_control", plus);

        if (r != -EBUSY)
                return r;
        r = move_processes_down(place);
        return r < 0 ? r : sys_write_at(place, "cgroup.subtree_control", plus);
}

/* Let the slots below the parent have the controller. */
static bool delegate(int place, int parent, const char *control)
{
        char plus[32];

        (void)snprintf(plus, sizeof(plus), "+%s", control);
        if (!v2_offers(place, "cgroup.subtree_control", control) && enable_below(place, plus) < 0)
                return false;
        return sys_write_at(parent, "cgroup.subtree_control", plus) == 0;
}

static int open_v2(int v2, const char *parent, int *ret_place, struct cgroups *c, struct err *err)
{
        char path[CGROUP_PLACE_MAX];
        AUTO_CLOSE int place = -1;
        int r;

        cgroup_place_find(v2, parent, path);
        place = sys_open_dir(v2, path[0] ? path : ".");
        r = place < 0 ? place : open_parent(place, parent, &c->v2);
        if (r == 0)
                r = cgroup_place_note(parent, path);
        if (r < 0)
                return err_sys(err, r, "make cgroup '%s/%s'", path, parent);
        *ret_place = TAKE_FD(place);
        return 0;
}

static int open_controls(const struct cgroup_mounts *m, int place, const char *parent, struct cgroups *c,
                         struct err *err)
{
        for (int i = 0; i < CGROUP_CONTROLS; i++) {
                int r;

                if (i == CGROUP_FREEZER && c->v2 >= 0) {
                        c->in_v2[i] = true; /* cgroup.freeze is part of v2 itself */
                        continue;
                }
                if (v2_offers(place, "cgroup.controllers", cgroup_control_names[i]))
                        c->in_v2[i] = delegate(place, c->v2, cgroup_control_names[i]);
                if (c->in_v2[i])
                        continue;
                if (m->v1[i] < 0)
                        return err_set(err, ERR_UNAVAILABLE, "no cgroup hierarchy has the %s controller",
                                       cgroup_control_names[i]);
                r = open_parent(m->v1[i], parent, &c->v1[i]);
                if (r < 0)
                        return err_sys(err, r, "make %s cgroup '%s'", cgroup_control_names[i], parent);
        }
        return 0;
}

int cgroups_open(const char *parent, struct cgroups *ret, struct err *err)
{
        struct cgroups c = {.v2 = -1, .v1 = {-1, -1, -1, -1}};
        AUTO_CLOSE int place = -1;
        struct cgroup_mounts m;
        int r;

        r = cgroup_mounts_open(&m);
        if (r < 0)
                return err_sys(err, r, "find cgroups");
        r = m.v2 < 0 ? 0 : open_v2(m.v2, parent, &place, &c, err);
        if (r == 0)
                r = open_controls(&m, place, parent, &c, err);
        cgroup_mounts_done(&m);
        if (r < 0) {
                cgroups_done(&c);
                return r;
        }
        *ret = c;
        return 0;
}

static const char *kind_of(const struct cgroups *c)
{
        unsigned in_v2 = 0;

        for (int i = 0; i < CGROUP_FREEZER; i++)
                in_v2 += c->in_v2[i];
        if (c->v2 < 0)
                return "v1 alone, nothing can be frozen";
        return in_v2 == 0 ? "limits by v1, v2 beside it" : in_v2 < CGROUP_FREEZER ? "limits by v1 and v2" : "v2 alone";
}

void cgroups_describe(const struct cgroups *c, char *out, size_t size)
{
        AUTO_FREE char *at = cgroups_v2_path(c, 0);

        for (int i = 0; i < 2 && at; i++) /* without the slot and the parent: their place */
                *strrchr(at, '/') = '\0';
        (void)snprintf(out, size, "%s; at %s", kind_of(c), at ? at : "the top of each hierarchy");
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

/* The parent's directory in v2, below the mount point. */
static void parent_path(int v2, const char *parent, char out[CGROUP_PLACE_MAX + 64])
{
        char place[CGROUP_PLACE_MAX];

        cgroup_place_find(v2, parent, place);
        (void)snprintf(out, CGROUP_PLACE_MAX + 64, "%s%s%s", place, place[0] ? "/" : "", parent);
}

int cgroups_remove_parent(const char *parent)
{
        char path[CGROUP_PLACE_MAX + 64];
        struct cgroup_mounts m;
        int r = cgroup_mounts_open(&m);

        if (r < 0)
                return r;
        if (m.v2 >= 0) {
                parent_path(m.v2, parent, path);
                if (unlinkat(m.v2, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
                        r = -errno;
                else
                        cgroup_place_forget(parent);
        }
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                if (m.v1[i] >= 0 && unlinkat(m.v1[i], parent, AT_REMOVEDIR) < 0 && errno != ENOENT)
                        r = -errno;
        cgroup_mounts_done(&m);
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

static bool has_process(int at, const char *path)
{
        AUTO_CLOSE int dir = at < 0 ? -1 : sys_open_dir(at, path);
        struct used u = {.dir = dir};

        if (dir >= 0)
                each_dir(dir, look_for_process, &u);
        return u.any;
}

bool cgroups_is_used(const char *parent)
{
        char path[CGROUP_PLACE_MAX + 64];
        struct cgroup_mounts m;
        bool is_used = false;

        if (cgroup_mounts_open(&m) < 0)
                return true;
        if (m.v2 >= 0) {
                parent_path(m.v2, parent, path);
                is_used = has_process(m.v2, path);
        }
        for (int i = 0; i < CGROUP_CONTROLS && !is_used; i++)
                is_used = has_process(m.v1[i], parent);
        cgroup_mounts_done(&m);
        return is_used;
}

int cgroups_open_own(void)
{
        char text[4096], path[CGROUP_PLACE_MAX];
        struct cgroup_mounts m;
        int r = cgroup_mounts_open(&m);

        if (r < 0)
                return r;
        if (m.v2 < 0)
                r = -EOPNOTSUPP;
        else if (sys_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) < 0 || !cgroup_place_parse(text, path))
                r = -ENOENT;
        else
                r = sys_open_dir(m.v2, path[1] ? path + 1 : ".");
        cgroup_mounts_done(&m);
        return r;
}
