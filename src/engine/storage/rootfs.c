#include "engine/storage/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/host/mount_stage.h"
#include "engine/host/overlay.h"
#include "engine/storage/host_layer.h"
#include "engine/storage/layer_links.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "sys/proc.h"

#define BOOT_ID ".boot_id"
#define BOOT_ID_AT STAGE_SPARE_0
#define FILES_PATH_MAX 64

void rootfs_init(struct rootfs *r)
{
        *r = (struct rootfs){.mount = -1, .boot_id = -1, .parts = {-1, -1, -1, -1}};
}

void rootfs_done(struct rootfs *r)
{
        close_fd(&r->mount);
        close_fd(&r->boot_id);
        for (size_t i = 0; i < ROOTFS_PARTS_MAX; i++)
                close_fd(&r->parts[i]);
}

/* ------------------------------------------------------------- the parts */

void rootfs_parts_init(struct rootfs_parts *p)
{
        *p = (struct rootfs_parts){.layers = -1, .sealed = -1, .host = -1, .files = -1};
}

void rootfs_parts_done(struct rootfs_parts *p)
{
        close_fd(&p->layers);
        close_fd(&p->sealed);
        close_fd(&p->host);
        close_fd(&p->files);
}

/* The directory that holds a layer, mapped once for all layers in it. */
static int open_holder(int dir, int userns, int *held)
{
        AUTO_CLOSE int tree = -1;
        int r;

        if (*held >= 0)
                return 0;
        tree = sys_clone_tree(dir, "");
        r = tree < 0 ? tree : sys_mount_idmap(tree, userns);
        if (r == 0)
                *held = TAKE_FD(tree);
        return r;
}

static int open_holder_of(struct rootfs_parts *p, const struct rootfs_dirs *d, const char *name, int userns,
                          struct err *err)
{
        bool is_sealed = layer_id_is_sealed(name);
        int r = open_holder(is_sealed ? d->writable.sealed : d->layers, userns, is_sealed ? &p->sealed : &p->layers);

        return r < 0 ? err_sys(err, r, "map owners of layer '%s'", name) : 0;
}

static int open_layer(const struct rootfs_parts *p, size_t i, struct err *err)
{
        const char *name = p->plan->layers[i];
        int r = sys_open_beneath(layer_id_is_sealed(name) ? p->sealed : p->layers, name, O_PATH | O_DIRECTORY, 0);

        return r < 0 ? err_sys(err, r, "layer '%s'", name) : r;
}

/* Above all others. */
static int open_host_layer(struct rootfs_parts *p, const struct rootfs_dirs *d, const struct plan_create *plan,
                           int userns, struct err *err)
{
        const struct host_layer_stack stack = {d->layers, d->writable.sealed, plan->layers, plan->layer_count};
        AUTO_CLOSE int dir = d->host ? host_layer_open(d->host, &stack) : -1;
        int r = dir < 0 ? 0 : open_holder(dir, userns, &p->host);

        return r < 0 ? err_sys(err, r, "map owners of the host's layer") : 0;
}

static enum writable_use find_use(const struct rootfs_dirs *d, const struct plan_create *plan)
{
        return d->is_ahead ? WRITABLE_AHEAD : plan->is_upper_kept ? WRITABLE_KEPT : WRITABLE_NEW;
}

int rootfs_open_parts(struct rootfs_parts *p, const struct rootfs_dirs *d, const struct plan_create *plan,
                      const struct rootfs_owner *o, struct err *err)
{
        int e = 0;

        rootfs_parts_init(p);
        p->plan = plan;
        for (size_t i = 0; i < plan->layer_count && e == 0; i++)
                e = open_holder_of(p, d, plan->layers[i], o->userns, err);
        if (e < 0 || (e = open_host_layer(p, d, plan, o->userns, err)) < 0 ||
            (e = writable_prepare(&d->writable, find_use(d, plan), err)) < 0 ||
            (e = writable_open(&d->writable, o->userns, &p->files, err)) < 0)
                rootfs_parts_done(p);
        return e;
}

/* ------------------------------------------------------------- the overlay */

static int hang_parts(const struct rootfs_parts *p, const struct mount_stage *s)
{
        int e = mount_stage_hang(s, p->files, STAGE_FILES);

        if (e == 0 && p->layers >= 0)
                e = mount_stage_hang(s, p->layers, STAGE_LAYERS);
        if (e == 0 && p->sealed >= 0)
                e = mount_stage_hang(s, p->sealed, STAGE_SEALED);
        if (e == 0 && p->host >= 0)
                e = mount_stage_hang(s, p->host, STAGE_HOST);
        return e;
}

/* The kernel wants the topmost first. */
static int name_layers(const struct rootfs_parts *p, const struct mount_stage *s, struct layer_links *links,
                       char lower[OVERLAY_NAMES_MAX])
{
        const struct plan_create *plan = p->plan;
        size_t len = 0, count = plan->layer_count;
        int e = 0;

        for (size_t i = 0; i < plan->layer_count && e == 0; i++)
                e = layer_links_set(links, i, s->at, layer_id_is_sealed(plan->layers[i]) ? STAGE_SEALED : STAGE_LAYERS,
                                    plan->layers[i]);
        if (e == 0 && p->host >= 0)
                e = layer_links_set(links, count++, s->at, STAGE_HOST, ".");
        for (size_t i = count; i-- > 0;)
                len += (size_t)snprintf(lower + len, OVERLAY_NAMES_MAX - len, "%s%zu", len > 0 ? ":" : "", i);
        return e;
}

/* When the kernel cannot make a directory in the work directory, the mount is silently read-only.  Most likely the disk is full:
 * the storage is asked. */
static int check_writable(const struct rootfs *r, const struct rootfs_dirs *d, struct err *err)
{
        struct statvfs st;
        int e;

        if (fstatvfs(r->mount, &st) < 0 || !(st.f_flag & ST_RDONLY))
                return 0;
        e = writable_try_room(&d->writable);
        return err_sys(err, e < 0 ? e : -EROFS, "make upper directory");
}

static int mount_overlay(struct rootfs *r, const struct overlay *o, const struct rootfs_dirs *d, struct err *err)
{
        int e = overlay_mount(o, &r->mount, err);

        if (e == 0)
                e = check_writable(r, d, err);
        if (e < 0)
                rootfs_done(r);
        return e;
}

struct lower_fds {
        int fd[LAYER_LINKS]; /* the kernel wants the topmost first */
        size_t count;
        size_t borrowed; /* of the first ones; the others are owned */
};

static void lower_fds_close(struct lower_fds *l)
{
        while (l->count > l->borrowed)
                (void)close(l->fd[--l->count]);
}

static int lower_fds_open(struct lower_fds *l, const struct rootfs_parts *p, struct err *err)
{
        const struct plan_create *plan = p->plan;

        if (p->host >= 0)
                l->fd[l->count++] = p->host;
        l->borrowed = l->count;
        for (size_t i = plan->layer_count; i-- > 0;) {
                int e = open_layer(p, i, err);

                if (e < 0)
                        return e;
                l->fd[l->count++] = e;
        }
        return 0;
}

static void take_parts(struct rootfs *r, struct rootfs_parts *p)
{
        int *const from[ROOTFS_PARTS_MAX] = {&p->layers, &p->sealed, &p->host, &p->files};

        for (size_t i = 0; i < ROOTFS_PARTS_MAX; i++)
                r->parts[i] = TAKE_FD(*from[i]);
}

int rootfs_mount_by_fds(struct rootfs *r, struct rootfs_parts *p, const struct rootfs_dirs *d,
                        const struct rootfs_owner *o, struct err *err)
{
        AUTO_CLOSE int upper = sys_open_beneath(p->files, WRITABLE_UPPER, O_PATH | O_DIRECTORY, 0);
        AUTO_CLOSE int work = sys_open_beneath(p->files, WRITABLE_WORK, O_PATH | O_DIRECTORY, 0);
        AUTO(lower_fds_close) struct lower_fds lower = {.count = 0};
        int e = lower_fds_open(&lower, p, err);
        const struct overlay_fds fds = {.lower = lower.fd, .lower_count = lower.count, .upper = upper, .work = work};
        const struct overlay overlay = {.fds = &fds,
                                        .prepared = o->prepared,
                                        .uid = o->uid_base,
                                        .has_uuid = o->has_uuid,
                                        .attrs = MOUNT_ATTR_NODEV};

        rootfs_init(r);
        if (e == 0)
                e = mount_overlay(r, &overlay, d, err);
        if (e == 0)
                take_parts(r, p);
        return e;
}

int rootfs_mount(struct rootfs *r, const struct rootfs_parts *p, const struct mount_stage *s, struct layer_links *links,
                 const struct rootfs_dirs *d, const struct rootfs_owner *o, struct err *err)
{
        char lower[OVERLAY_NAMES_MAX], upper[FILES_PATH_MAX], work[FILES_PATH_MAX];
        const struct overlay overlay = {.prepared = o->prepared,
                                        .dir = links->dir,
                                        .lower = lower,
                                        .upper = upper,
                                        .work = work,
                                        .uid = o->uid_base,
                                        .has_uuid = o->has_uuid,
                                        .attrs = MOUNT_ATTR_NODEV};
        int e = 0;

        rootfs_init(r);
        for (size_t i = 0; i < p->plan->layer_count && e >= 0;
             i++) { /* else the kernel would not say which one is missing */
                AUTO_CLOSE int layer = open_layer(p, i, err);

                e = layer;
        }
        if (e < 0)
                return e;
        e = hang_parts(p, s);
        if (e == 0)
                e = name_layers(p, s, links, lower);
        if (e < 0)
                return err_sys(err, e, "hang up layers");
        (void)snprintf(upper, sizeof(upper), "%s/" STAGE_FILES "/" WRITABLE_UPPER, s->at);
        (void)snprintf(work, sizeof(work), "%s/" STAGE_FILES "/" WRITABLE_WORK, s->at);
        return mount_overlay(r, &overlay, d, err);
}

/* ------------------------------------------------------------- the boot id */

static int write_boot_id(int run)
{
        AUTO_CLOSE int fd = -1;
        char text[UUID_MAX];

        uuid_make(text);
        text[UUID_MAX - 1] = '\n';
        if (unlinkat(run, BOOT_ID, 0) < 0 && errno != ENOENT)
                return -errno;
        fd = openat(run, BOOT_ID, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
        return fd < 0 || write(fd, text, UUID_MAX) != UUID_MAX ? -EIO : 0;
}

/* A copy of the file's mount, and one of the whole, since what hangs on the stage goes with it. */
static int copy_with_boot_id(struct rootfs *r, const struct mount_stage *s, struct err *err)
{
        int e = mount_stage_hang(s, r->mount, BOOT_ID_AT), whole = e < 0 ? e : sys_clone_tree(r->mount, "");

        if (whole >= 0)
                r->boot_id = sys_clone_tree(r->mount, "run/" BOOT_ID);
        close_fd(&r->mount);
        if (whole < 0)
                return err_sys(err, whole, "copy the root");
        r->mount = whole;
        return r->boot_id;
}

int rootfs_renew_boot_id(struct rootfs *r, const struct mount_stage *s, uint32_t uid_base, struct err *err)
{
        AUTO_CLOSE int run = -1;
        int e;

        sys_set_fsids(uid_base, uid_base);
        run = sys_open_dir(r->mount, "run");
        e = run < 0 ? run : write_boot_id(run);
        sys_set_fsids(0, 0);
        if (e == 0)
                e = copy_with_boot_id(r, s, err);
        if (r->mount < 0)
                return e;
        if (e < 0) {
                r->boot_id = -1;
                log_warn("boot_id.kept", "error=\"%s\"", strerror(-e));
        }
        return 0;
}
