/* disk_serve.c - the helper's side of disk.h: may block. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/host/mount_stage.h"
#include "engine/host/overlay.h"
#include "engine/storage/disk.h"
#include "engine/storage/layer_links.h"
#include "engine/storage/host_layer.h"
#include "engine/storage/lost_files.h"
#include "engine/records/origin.h"
#include "engine/storage/trash.h"
#include "engine/storage/writable_ahead.h"
#include "sys/fs.h"
#include "sys/scm.h"

#define IDLE_MS 3 /* while many sandboxes are created, none waits for directories that are made ahead */

struct disk_service {
        const struct disk_dirs *dirs;
        struct writable_ahead ahead;
        struct host_layer host;
        int sock;
        struct disk_order order;
        const char *names; /* of layers, one after the other */
        const char *text;  /* the record's */
        size_t text_len;
        const char *origin_text; /* of order.origin_len characters */
        int userns;              /* of the sandbox to be started; -1: none */
        int origin;              /* a file with an origin, or changes of one; -1: none */
        struct rootfs tree;
        struct mount_stage stage; /* open while an order is carried out that needs it */
        int prepared;             /* for the next overlay (overlay.h); 0: nothing is */
        bool is_prepared_used;
        struct layer_links links;
};

static void tell_engine(const struct disk_service *s, const struct disk_word *w, const int *fds, size_t nfds)
{
        (void)scm_send(s->sock, w, sizeof(*w), fds, nfds); /* without an engine, the next message is the end of file */
}

/* ------------------------------------------------------------- a sandbox to be started */

static int open_sandbox(struct disk_service *s, int *ret, bool *ret_is_ahead, struct err *err)
{
        const char *id = s->order.id;
        int r;

        *ret_is_ahead = !s->order.is_paused && writable_ahead_take(&s->ahead, s->dirs->sandboxes, id);
        if (!s->order.is_paused && !*ret_is_ahead && mkdirat(s->dirs->sandboxes, id, 0700) < 0)
                return err_sys(err, -errno, "make directory of sandbox %s", id);
        r = sys_open_dir(s->dirs->sandboxes, id);
        if (r < 0)
                return err_sys(err, r, "open directory of sandbox %s", id);
        *ret = r;
        return 0;
}

static int mount_on_stage(struct disk_service *s, struct rootfs_parts *parts, const struct rootfs_dirs *dirs,
                          const struct rootfs_owner *owner, struct err *err)
{
        int r = s->links.dir < 0 ? layer_links_open(&s->links, err) : 0;

        if (r == 0)
                r = mount_stage_open(&s->stage, STAGE_DISK, err);
        if (r == 0)
                r = rootfs_mount(&s->tree, parts, &s->stage, &s->links, dirs, owner, err);
        rootfs_parts_done(parts);
        if (r == 0 && s->order.is_upper_kept)
                r = rootfs_renew_boot_id(&s->tree, &s->stage, s->order.uid_base, err);
        return r;
}

/* A boot id needs the stage. */
static int build_tree(struct disk_service *s, int dir, bool is_ahead, struct err *err)
{
        struct rootfs_dirs dirs = {.layers = s->dirs->layers,
                                   .writable = {.dir = dir, .sealed = s->dirs->sealed, .trash = s->dirs->trash},
                                   .is_ahead = is_ahead,
                                   .host = &s->host};
        struct plan_create plan = {.is_upper_kept = s->order.is_upper_kept};
        const struct rootfs_owner owner = {.uid_base = s->order.uid_base,
                                           .userns = s->userns,
                                           .has_uuid = s->dirs->has_uuid,
                                           .prepared = s->prepared};
        struct rootfs_parts parts;
        const char *at = s->names;
        int r;

        for (; plan.layer_count < s->order.layer_count; at += strlen(at) + 1)
                plan.layers[plan.layer_count++] = (char *)(uintptr_t)at; /* only read */
        if ((r = rootfs_open_parts(&parts, &dirs, &plan, &owner, err)) < 0)
                return r;
        r = s->dirs->by_fds && !s->order.is_upper_kept ? rootfs_mount_by_fds(&s->tree, &parts, &dirs, &owner, err)
                                                       : mount_on_stage(s, &parts, &dirs, &owner, err);
        s->is_prepared_used = true;
        rootfs_parts_done(&parts);
        return r;
}

/* Once the sandbox runs, memory that was kept of it does not fit its files any more.  paused.json stays until envd is ready: a
 * crash before that leaves the sandbox paused. */
static int forget_memory(struct disk_service *s, int dir, struct err *err)
{
        if (!s->order.is_paused || !s->order.paused.checkpoint[0])
                return 0;
        s->order.paused.checkpoint[0] = '\0';
        return paused_write(dir, s->order.id, &s->order.paused, true, err);
}

static void hand_over_tree(struct disk_service *s)
{
        const struct disk_word w = {.number = s->order.number, .has_tree = true, .has_boot_id = s->tree.boot_id >= 0};
        int fds[2 + ROOTFS_PARTS_MAX] = {s->tree.mount, s->tree.boot_id};
        size_t n = w.has_boot_id ? 2 : 1;

        for (size_t i = 0; i < ROOTFS_PARTS_MAX; i++)
                if (s->tree.parts[i] >= 0)
                        fds[n++] = s->tree.parts[i];
        tell_engine(s, &w, fds, n);
        rootfs_done(&s->tree); /* no RCU wait: the engine has them */
}

static char *read_origin(const struct disk_service *s, size_t *ret_len)
{
        off_t size = s->origin < 0 ? -1 : lseek(s->origin, 0, SEEK_END);
        AUTO_FREE char *text = size < 0 ? NULL : malloc((size_t)size + 1);

        if (!text || pread(s->origin, text, (size_t)size, 0) != (ssize_t)size)
                return NULL;
        text[size] = '\0';
        *ret_len = (size_t)size;
        return TAKE_PTR(text);
}

static void note_origin(const struct disk_service *s, int dir)
{
        size_t len = 0;
        AUTO_FREE char *text = s->order.origin_len ? NULL : read_origin(s, &len);

        if (s->order.origin_len)
                origin_put(dir, s->order.id, s->origin_text, s->order.origin_len);
        else if (text)
                origin_put(dir, s->order.id, text, len);
}

/* The record is written last, while envd works already; but before the engine answers: every sandbox that a client knows has a
 * record.  A sandbox that a crash left without a record is ended by the next engine. */
static int make_sandbox(struct disk_service *s, struct err *err)
{
        AUTO_CLOSE int dir = -1;
        bool is_ahead;
        int r;

        if ((r = open_sandbox(s, &dir, &is_ahead, err)) < 0 || (r = build_tree(s, dir, is_ahead, err)) < 0)
                return r;
        r = forget_memory(s, dir, err);
        if (r < 0) {
                rootfs_done(&s->tree);
                return r;
        }
        hand_over_tree(s);
        note_origin(s, dir);
        return record_put(dir, s->text, s->text_len, err);
}

/* ------------------------------------------------------------- the others */

static int in_sandbox(const struct disk_service *s, int (*what)(const struct disk_service *s, int dir, struct err *err),
                      struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(s->dirs->sandboxes, s->order.id);

        return dir < 0 ? err_sys(err, dir, "open directory of sandbox %s", s->order.id) : what(s, dir, err);
}

static int save_record(const struct disk_service *s, int dir, struct err *err)
{
        return record_put(dir, s->text, s->text_len, err);
}

static int note_running(const struct disk_service *s, int dir, struct err *err)
{
        int r = paused_remove(dir);

        return r < 0 ? err_sys(err, r, "write down that sandbox %s runs", s->order.id) : 0;
}

static int note_paused(const struct disk_service *s, int dir, struct err *err)
{
        int r = record_remove(dir);

        return r < 0 ? err_sys(err, r, "write down that sandbox %s has no processes", s->order.id) : 0;
}

static int find_place(const struct disk_service *s)
{
        switch (s->order.place) {
        case DISK_SANDBOXES: return s->dirs->sandboxes;
        case DISK_CHECKPOINTS: return s->dirs->checkpoints;
        case DISK_SEALED: return s->dirs->sealed;
        case DISK_LOST: return s->dirs->lost;
        }
        return -1;
}

static int throw_away(const struct disk_service *s, struct err *err)
{
        bool is_lost = s->order.place == DISK_LOST;
        int r = is_lost ? lost_files_remove(s->dirs->lost, s->dirs->trash, s->order.id)
                        : trash_move(s->dirs->trash, find_place(s), s->order.id);

        if (r == -ENOENT && is_lost)
                return err_set(err, ERR_NOT_FOUND, "'%s' is not among what was lost", s->order.id);
        if (r == 0 && is_lost)
                log_info("lost.removed", "name=%s", s->order.id);
        if (r == 0 || r == -ENOENT)
                return 0;
        if (!sys_is_full(r))
                log_error("file.left", "name=%s error=\"%s\"", s->order.id, strerror(-r));
        return err_sys(err, r, "remove '%s'", s->order.id);
}

static int move_to_lost(const struct disk_service *s, struct err *err)
{
        int r = lost_files_keep(s->dirs->lost, find_place(s), s->order.id, &s->order.note);

        return r < 0 ? err_sys(err, r, "move '%s' aside", s->order.id) : 0;
}

/* Without a note there is nothing to change. */
static void change_origin(const struct disk_service *s)
{
        AUTO_CLOSE int dir = sys_open_dir(find_place(s), s->order.id);
        size_t len = 0;
        AUTO_FREE char *text = read_origin(s, &len);
        json_t *changes = text ? json_loadb(text, len, 0, NULL) : NULL;
        struct err none = {0};
        json_t *origin = dir < 0 ? NULL : origin_read(dir, &none);

        if (origin && changes && json_object_update(origin, changes) == 0)
                origin_write(dir, s->order.id, origin);
        json_decref(origin);
        json_decref(changes);
}

static int carry_out_order(struct disk_service *s, struct err *err)
{
        switch (s->order.what) {
        case DISK_MAKE: return make_sandbox(s, err);
        case DISK_SAVE: return in_sandbox(s, save_record, err);
        case DISK_NOTE_RUNNING: return in_sandbox(s, note_running, err);
        case DISK_NOTE_PAUSED: return in_sandbox(s, note_paused, err);
        case DISK_THROW: return throw_away(s, err);
        case DISK_LOSE: return move_to_lost(s, err);
        case DISK_TIDY_LOST: lost_files_tidy(s->dirs->lost, s->dirs->trash, s->order.days); break;
        case DISK_ORIGIN: change_origin(s); break;
        case DISK_SYNC: break;
        }
        return 0;
}

/* ------------------------------------------------------------- one after the other */

/* false: the engine is gone. */
static bool receive_order(struct disk_service *s)
{
        static char bytes[sizeof(struct disk_order) + DISK_TEXT_MAX];
        int fds[DISK_FDS_MAX];
        size_t nfds = 0, used = 0;
        ssize_t n;

        n = scm_recv(s->sock, bytes, sizeof(bytes), fds, DISK_FDS_MAX, &nfds);
        if (n < (ssize_t)sizeof(s->order))
                return false;
        memcpy(&s->order, bytes, sizeof(s->order));
        s->origin = s->order.has_text && nfds > 0 ? fds[--nfds] : -1;
        s->userns = nfds > 0 ? fds[0] : -1;
        s->names = bytes + sizeof(s->order);
        for (uint32_t i = 0; i < s->order.layer_count; i++)
                used += strlen(s->names + used) + 1;
        s->text = s->names + used;
        s->text_len = (size_t)n - sizeof(s->order) - used - s->order.origin_len;
        s->origin_text = s->text + s->text_len;
        return true;
}

static void forget_used_overlay(struct disk_service *s)
{
        if (s->is_prepared_used && s->prepared)
                (void)close(s->prepared);
        if (s->is_prepared_used)
                s->prepared = 0;
        s->is_prepared_used = false;
}

/* Without one, the next overlay is made from the beginning. */
static void prepare_overlay(struct disk_service *s)
{
        struct err none;

        if (s->prepared == 0 && overlay_prepare(s->dirs->has_uuid, &s->prepared, &none) < 0)
                s->prepared = 0;
}

static void use_idle_time(struct disk_service *s)
{
        struct pollfd p = {.fd = s->sock, .events = POLLIN};

        prepare_overlay(s);
        while (writable_ahead_wants_more(&s->ahead) && poll(&p, 1, IDLE_MS) == 0)
                writable_ahead_make(&s->ahead);
}

_Noreturn void disk_serve(const struct disk_dirs *dirs, int sock)
{
        struct disk_service s = {.dirs = dirs, .sock = sock};

        mount_stage_clear(STAGE_DISK); /* of a helper that died */
        mount_stage_init(&s.stage);
        layer_links_init(&s.links);
        writable_ahead_init(&s.ahead, dirs->ahead);
        host_layer_init(&s.host, dirs->host, dirs->boot_id);
        host_layer_tidy(&s.host);
        for (use_idle_time(&s); receive_order(&s); use_idle_time(&s)) {
                struct disk_word over = {.number = s.order.number, .is_over = true};

                s.ahead.is_refused = false;
                rootfs_init(&s.tree);
                (void)carry_out_order(&s, &over.err);
                if (over.err.kind == ERR_NO_SPACE)
                        writable_ahead_give_up(&s.ahead);
                tell_engine(&s, &over, NULL, 0);
                close_fd(&s.origin);
                close_fd(&s.userns);
                forget_used_overlay(&s);
                mount_stage_close(&s.stage); /* waits, and nobody for it */
        }
        layer_links_close(&s.links);
        _exit(0);
}
