#include "engine/role.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/guest/adopt.h"
#include "engine/guest/engine.h"
#include "engine/criu/criu_find.h"
#include "engine/storage/trash_remover.h"
#include "engine/namespace/namespaces.h"
#include "engine/lost.h"
#include "engine/host/kernel_limits.h"
#include "engine/host/mount_stage.h"
#include "engine/peers.h"
#include "engine/saved_items.h"
#include "engine/guest/resume.h"
#include "engine/guest/standby.h"
#include "engine/guest/warm.h"
#include "engine/checkpoint/used_checkpoints.h"
#include "engine/jobs/envd_copies.h"
#include "engine/storage/host_layer.h"
#include "sys/fs.h"

#define BIT(cap) (1ull << (cap))

/* Namespaces and mounts (SYS_ADMIN), links and filter (NET_ADMIN), identities of cells (SETUID, SETGID, SETPCAP, KILL),
 * their namespaces by /proc (SYS_PTRACE), /dev (MKNOD); and, since overlayfs works with the rights of its maker, what
 * root may do to files.  SYS_RESOURCE, where there is one, for limits and OOM scores: used by the cell maker only. */
static const uint64_t caps_needed =
        BIT(CAP_SYS_ADMIN) | BIT(CAP_NET_ADMIN) | BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_SETPCAP) | BIT(CAP_KILL) |
        BIT(CAP_SYS_PTRACE) | BIT(CAP_MKNOD) | BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) |
        BIT(CAP_FOWNER) | BIT(CAP_FSETID) | BIT(CAP_SETFCAP) | BIT(CAP_SYS_CHROOT) | BIT(CAP_SYS_RESOURCE);

static int open_or_make(int at, const char *name, mode_t mode, int *ret, struct err *err)
{
        int r = sys_make_dir(at, name, mode);

        if (r == 0)
                r = sys_open_dir(at, name);
        if (r < 0)
                return err_sys(err, r, "open directory '%s'", name);
        *ret = r;
        return 0;
}

static int open_layers(struct engine *e, struct err *err)
{
        AUTO_CLOSE int images = open(e->conf->images_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (images < 0 && errno == ENOENT && mkdir(e->conf->images_dir, 0755) == 0)
                images = open(e->conf->images_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (images < 0)
                return err_sys(err, -errno, "open %s", e->conf->images_dir);
        return open_or_make(images, "layers", 0700, &e->layers_dir, err);
}

static int open_dirs(struct engine *e, struct err *err)
{
        struct err why = {0};
        int r;

        e->data_dir = open(e->conf->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (e->data_dir < 0)
                return err_sys(err, -errno, "open data directory %s", e->conf->data_dir);
        e->proc_dir = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (e->proc_dir < 0)
                return err_sys(err, -errno, "open /proc");
        r = adopt_boot_id(e->data_dir, e->boot_id);
        if (r < 0)
                return err_sys(err, r, "read boot id");
        if ((r = open_or_make(e->data_dir, "sandboxes", 0700, &e->sandboxes_dir, err)) < 0 ||
            (r = open_or_make(e->data_dir, "trash", 0700, &e->trash_dir, err)) < 0 ||
            (r = open_or_make(e->data_dir, "ahead", 0700, &e->ahead_dir, err)) < 0 ||
            (r = open_or_make(e->data_dir, HOST_LAYER_DIR, 0700, &e->host_dir, err)) < 0 ||
            (r = open_or_make(e->data_dir, "checkpoints", 0700, &e->checkpoints_dir, err)) < 0 ||
            (r = open_or_make(e->data_dir, "sealed", 0700, &e->sealed_dir, err)) < 0 ||
            (r = open_or_make(e->data_dir, LOST_DIR, 0700, &e->lost_dir, err)) < 0 ||
            (r = open_or_make(e->data_dir, "envd", 0700, &e->envd_dir, err)) < 0)
                return r;
        if (used_checkpoints_open(e->data_dir, &e->used_checkpoints, &e->mark_turn, &why) < 0)
                log_warn("used_checkpoints.missing", "error=\"%s\", waiting for the journal instead", why.msg);
        (void)sys_spread_dirs(e->sandboxes_dir); /* where that is no wish one can have, it needs no granting */
        (void)sys_spread_dirs(e->ahead_dir);
        return open_layers(e, err);
}

/* Beside our own binary, or where `make install` puts it. */
static int open_envd(struct engine *e, struct err *err)
{
        static const char *const places[] = {"sandglass-envd", "../libexec/sandglass/sandglass-envd"};
        char self[PATH_MAX], *slash;
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        AUTO_CLOSE int dir = -1;

        if (n < 0)
                return err_sys(err, -errno, "find own binary");
        self[n] = '\0';
        slash = strrchr(self, '/');
        *slash = '\0';
        dir = open(slash == self ? "/" : self, O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
                e->envd_binary = openat(dir, places[i], O_RDONLY | O_CLOEXEC);
                if (e->envd_binary >= 0) {
                        int r = envd_copies_hash_fd(e->envd_binary, e->envd_hash);

                        return r < 0 ? err_sys(err, r, "read sandglass-envd") : 0;
                }
        }
        return err_set(err, ERR_NOT_FOUND, "no sandglass-envd beside %s/%s", self, slash + 1);
}

static int drop_privileges(struct err *err)
{
        int r;

        (void)sys_raise_nofile(); /* as far as it goes */
        r = sys_keep_only_caps(caps_needed);
        if (r == 0)
                r = sys_keep_caps(true); /* while file system ids change for an overlay */
        if (r == 0) /* what an overlay's maker has, a write to it has: with this one, to the blocks reserved for root */
                r = sys_use_cap(CAP_SYS_RESOURCE, false);
        return r < 0 ? err_sys(err, r, "drop capabilities") : 0;
}

static void on_trash_remover_message(struct helper *h, const void *p, size_t n, int *fds, size_t nfds)
{
        (void)h, (void)p, (void)n;
        for (size_t i = 0; i < nfds; i++)
                close_fd(&fds[i]);
}

static int find_criu(struct engine *e, struct criu_place *place, struct err *err)
{
        if (e->namespaces->cgroups.v2 < 0)
                return err_set(err, ERR_UNAVAILABLE, "this host has no cgroup v2 hierarchy to freeze sandboxes with");
        return criu_find(e->conf->criu_dir, place, err);
}

static void on_marked(struct helper *h, const void *p, size_t n, int *fds, size_t nfds)
{
        struct engine *e = CONTAINER_OF(h, struct engine, resume_marker);
        const struct resume_marker_order *o = p;
        struct guest *s = n == sizeof(*o) ? guest_find(e, o->id) : NULL;

        (void)fds, (void)nfds;
        trash_remover_call(&e->trash_remover); /* it may have thrown something away */
        if (s)
                resume_marked(s, o);
}

/* Orders that the last marker did not carry out are given again: a mark may be written twice. */
static int start_resume_marker(struct helper *h, struct err *err)
{
        struct engine *e = CONTAINER_OF(h, struct engine, resume_marker);
        int sock, r = resume_marker_fork(&e->job_queue.conf, &sock, err);

        if (r < 0)
                return r;
        r = helper_start(h, e->loop, sock);
        if (r < 0)
                return err_sys(err, r, "watch marker");
        MAP_EACH (slot, &e->sandboxes) {
                struct guest *s = slot->value;

                if (s->thawing)
                        (void)resume_mark(s); /* an empty queue takes it */
        }
        return 0;
}

/* It begins with all that is there. */
static int start_trash_remover(struct helper *h, struct err *err)
{
        struct engine *e = CONTAINER_OF(h, struct engine, trash_remover);
        int sock, r = trash_remover_fork(e->trash_dir, &sock, err);

        if (r < 0)
                return r;
        r = helper_start(h, e->loop, sock);
        return r < 0 ? err_sys(err, r, "watch trash remover") : 0;
}

static int start_job_queue(struct engine *e, struct err *err)
{
        static struct criu_place criu; /* as long as the engine */
        struct err why = {0};
        int r;
        struct job_conf c = {
                .instance = &e->namespaces->instance,
                .cgroups = &e->namespaces->cgroups,
                .default_limits = e->default_limits,
                .data_path = e->conf->data_dir,
                .data_dir = e->data_dir,
                .sandboxes_dir = e->sandboxes_dir,
                .checkpoints_dir = e->checkpoints_dir,
                .sealed_dir = e->sealed_dir,
                .trash_dir = e->trash_dir,
                .layers_dir = e->layers_dir,
                .host_dir = e->host_dir,
                .envd_dir = e->envd_dir,
                .proc_dir = e->proc_dir,
                .envd_binary = e->envd_binary,
                .used_checkpoints = e->used_checkpoints,
                .has_link = e->namespaces->firewall != NULL,
                .has_uuid = e->namespaces->ways.has_overlay_uuid,
        };

        if (find_criu(e, &criu, &why) < 0)
                (void)snprintf(e->checkpoints_why, sizeof(e->checkpoints_why), "%s", why.msg);
        c.tool = criu_place_tool(&criu);
        memcpy(c.envd, e->envd_hash, sizeof(c.envd));
        memcpy(c.boot_id, e->boot_id, sizeof(c.boot_id));
        r = job_queue_start(&e->job_queue, e->loop, &c, err);
        if (r < 0)
                return r;
        e->resume_marker.name = "resume-mark";
        e->resume_marker.on_message = on_marked;
        e->resume_marker.again = start_resume_marker;
        return start_resume_marker(&e->resume_marker, err);
}

static void close_mounts_later(void *slots, int *fds, size_t n)
{
        slots_close_later(slots, fds, n);
}

static int start_disk(struct engine *e, struct err *err)
{
        const struct disk_dirs dirs = {.sandboxes = e->sandboxes_dir,
                                       .layers = e->layers_dir,
                                       .sealed = e->sealed_dir,
                                       .checkpoints = e->checkpoints_dir,
                                       .trash = e->trash_dir,
                                       .lost = e->lost_dir,
                                       .ahead = e->ahead_dir,
                                       .host = e->host_dir,
                                       .boot_id = e->boot_id,
                                       .has_uuid = e->namespaces->ways.has_overlay_uuid,
                                       .by_fds = e->namespaces->ways.overlay_by_fds};

        return disk_open(&e->disk, e->loop, &dirs, close_mounts_later, &e->namespaces->pool.slots, err);
}

static int start_helpers(struct engine *e, struct err *err)
{
        int r = start_disk(e, err);

        if (r < 0)
                return r;
        e->trash_remover.name = "trash";
        e->trash_remover.on_message = on_trash_remover_message;
        e->trash_remover.again = start_trash_remover;
        r = start_trash_remover(&e->trash_remover, err);
        if (r < 0)
                return r;
        r = layer_merger_start(&e->layer_merger, e->loop, e->sealed_dir, err);
        return r < 0 ? r : start_job_queue(e, err);
}

static void on_signal(int signo, void *arg)
{
        struct engine *e = arg;

        log_info("engine.stopping", "signal=%d alive=%u", signo, e->alive);
        loop_stop(e->loop);
}

static void on_supervisor_gone(struct io *io, uint32_t events)
{
        struct engine *e = CONTAINER_OF(io, struct engine, supervisor);

        (void)events;
        log_info("engine.stopping", "supervisor=gone alive=%u", e->alive);
        loop_stop(e->loop);
}

/* PDEATHSIG alone does not do: the kernel forgets it when our credentials change, as they do for every overlay. */
static int watch_supervisor(struct engine *e, struct err *err)
{
        int r = sys_pidfd_open(getppid());

        if (r < 0)
                return err_sys(err, r, "watch supervisor");
        e->supervisor.fd = r;
        e->supervisor.on = on_supervisor_gone;
        r = loop_add(e->loop, &e->supervisor, EPOLLIN);
        return r < 0 ? err_sys(err, r, "watch supervisor") : 0;
}

static int open_kinds(struct engine *e, struct err *err)
{
        int r = 0;

        for (size_t i = 0; e->kinds[i] && r == 0; i++)
                r = e->kinds[i]->open(e, err);
        return r;
}

static int begin_kinds(struct engine *e, struct err *err)
{
        int r = 0;

        for (size_t i = 0; e->kinds[i] && r == 0; i++)
                r = e->kinds[i]->begin(e, err);
        return r;
}

static int engine_start(struct engine *e, struct err *err)
{
        static const int signals[] = {SIGTERM, SIGINT, 0};
        const struct conf *c = e->conf;
        int r;

        r = loop_create(&e->loop);
        if (r < 0)
                return err_sys(err, r, "make loop");
        e->default_limits =
                (struct plan_limits){(uint64_t)c->default_memory_mb << 20, c->default_cpus, c->default_pids};
        if ((r = mount_stage_enter(err)) < 0 || (r = open_dirs(e, err)) < 0 || (r = open_envd(e, err)) < 0 ||
            (r = open_kinds(e, err)) < 0 || (r = drop_privileges(err)) < 0)
                return r;
        kernel_limits_raise(e->proc_dir);
        if ((r = adopt_all(e, err)) < 0 || (r = begin_kinds(e, err)) < 0 || (r = start_helpers(e, err)) < 0)
                return r;
        saved_items_tidy(e);
        lost_start(e);
        warm_start(e);
        adopt_busy(e);
        r = standbys_start(e, err);
        if (r < 0)
                return r;
        r = loop_signals(e->loop, signals, on_signal, e);
        if (r < 0)
                return err_sys(err, r, "watch signals");
        r = watch_supervisor(e, err);
        return r < 0 ? r : peers_start(e, err);
}

static void engine_stop(struct engine *e)
{
        peers_stop(e);
        timer_clear(&e->lost_timer);
        layer_merger_stop(&e->layer_merger);
        warm_stop(e);
        standbys_stop(e);
        trash_retry_stop(e);
        job_queue_stop(&e->job_queue);
        helper_stop(&e->resume_marker);
        disk_close(&e->disk);
        helper_stop(&e->trash_remover);
        for (size_t i = 0; e->kinds[i]; i++)
                e->kinds[i]->end(e);
}

int engine_main(const struct conf *conf)
{
        static const struct engine_ops *const kinds[] = {&namespace_ops, NULL};
        struct engine e = {.conf = conf,
                           .kinds = kinds,
                           .data_dir = -1,
                           .sandboxes_dir = -1,
                           .trash_dir = -1,
                           .ahead_dir = -1,
                           .host_dir = -1,
                           .layers_dir = -1,
                           .proc_dir = -1,
                           .used_checkpoints = -1,
                           .envd_binary = -1,
                           .checkpoints_dir = -1,
                           .sealed_dir = -1,
                           .lost_dir = -1,
                           .envd_dir = -1,
                           .supervisor = {.fd = -1},
                           .pressure = {.fd = -1}};
        struct err err = {0};
        int r;

        list_init(&e.controls);
        list_init(&e.edges);
        list_init(&e.warm);
        trash_retry_start(&e);
        list_init(&e.disk.requests); /* adopting makes some, before there is anybody to do them */
        (void)signal(SIGPIPE, SIG_IGN);
        r = kinds[0]->probe(&err);      /* new sandboxes are of this kind */
        (void)signal(SIGCHLD, SIG_IGN); /* helpers tell of their end by their sockets */
        e.namespaces = namespaces_create(&e);
        if (r == 0 && !e.namespaces)
                r = err_sys(&err, -ENOMEM, "start");
        if (r == 0)
                r = engine_start(&e, &err);
        if (r < 0) {
                log_error("engine.failed", "error=\"%s\"", err.msg);
                return 1;
        }
        log_info("engine.ready", "instance=%u adopted=%u network=%d", e.namespaces->instance.number, e.alive,
                 e.namespaces->firewall != NULL);
        r = loop_run(e.loop);
        engine_stop(&e);
        return r < 0 ? 1 : 0; /* what is left goes with the process */
}
