/* disk_serve.c - the helper's side of disk.h: may block. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/storage/disk.h"
#include "engine/storage/lost_files.h"
#include "engine/records/origin.h"
#include "engine/storage/trash.h"
#include "sys/fs.h"
#include "sys/scm.h"

#define AHEAD_MAX 16u
#define AHEAD_ROOM_BYTES (64u << 20) /* and inodes: on a disk with less, others need them more */
#define AHEAD_ROOM_INODES 4096u
#define IDLE_MS 3 /* one that creates many does not wait for directories that nobody wants yet */

struct ahead { /* a new directory costs the file system more than all the rest */
        unsigned count, last;
        bool is_refused; /* by the disk: not before the next job */
};

struct disk_task {
        const struct disk_dirs *dirs;
        struct ahead *ahead;
        int sock;
        struct disk_order order;
        const char *names; /* of layers, one after the other */
        const char *text;  /* the record's */
        size_t text_len;
        int fds[DISK_FDS];
        int origin; /* a file with an origin, or changes of one; -1: none */
        struct rootfs tree;
};

static void say(const struct disk_task *j, const struct disk_word *w, const int *fds, size_t nfds)
{
        (void)scm_send(j->sock, w, sizeof(*w), fds, nfds); /* nobody there: the next message is the end of file */
}

/* ------------------------------------------------------------- directories made ahead */

static void name_ahead(unsigned number, char out[32])
{
        (void)snprintf(out, 32, "%u", number);
}

static bool has_room(const struct disk_dirs *dirs)
{
        struct statvfs st;

        return fstatvfs(dirs->ahead, &st) == 0 && (uint64_t)st.f_bavail * st.f_frsize >= AHEAD_ROOM_BYTES &&
               (st.f_files == 0 || st.f_favail >= AHEAD_ROOM_INODES); /* 0: they are not counted */
}

/* Of a helper before us, which may have died in the middle of one; or since the disk is full. */
static void remove_ahead(const struct disk_dirs *dirs)
{
        AUTO_DIR DIR *d = sys_list(dirs->ahead);
        struct dirent *e;

        while (d && (e = sys_list_next(d)))
                if (sys_remove_tree(dirs->ahead, e->d_name) < 0)
                        log_warn("file.left", "name=ahead/%.32s", e->d_name);
}

static void make_ahead(const struct disk_dirs *dirs, struct ahead *a)
{
        AUTO_CLOSE int dir = -1;
        char name[32];
        int r;

        name_ahead(a->last + 1, name);
        r = !has_room(dirs) ? -ENOSPC : mkdirat(dirs->ahead, name, 0700) < 0 ? -errno : 0;
        if (r == 0)
                r = dir = sys_open_dir(dirs->ahead, name);
        if (r >= 0)
                r = rootfs_make_ahead(dir);
        a->is_refused = r < 0;
        if (r < 0)
                (void)sys_remove_tree(dirs->ahead, name);
        else {
                a->last++;
                a->count++;
        }
}

static void give_up_ahead(const struct disk_dirs *dirs, struct ahead *a)
{
        if (a->count > 0)
                remove_ahead(dirs);
        a->count = a->last = 0;
}

/* The newest is surely in memory. */
static bool take_ahead(const struct disk_task *j)
{
        struct ahead *a = j->ahead;
        char name[32];

        if (a->count == 0)
                return false;
        name_ahead(a->last, name);
        if (renameat2(j->dirs->ahead, name, j->dirs->sandboxes, j->order.id, RENAME_NOREPLACE) < 0)
                return false; /* mkdir says why */
        a->last--;
        a->count--;
        return true;
}

/* ------------------------------------------------------------- a sandbox to be started */

static int open_sandbox(const struct disk_task *j, int *ret, bool *ret_is_ahead, struct err *err)
{
        const char *id = j->order.id;
        int r;

        *ret_is_ahead = !j->order.is_paused && take_ahead(j);
        if (!j->order.is_paused && !*ret_is_ahead && mkdirat(j->dirs->sandboxes, id, 0700) < 0)
                return err_sys(err, -errno, "make directory of sandbox %s", id);
        r = sys_open_dir(j->dirs->sandboxes, id);
        if (r < 0)
                return err_sys(err, r, "open directory of sandbox %s", id);
        *ret = r;
        return 0;
}

static int build_tree(struct disk_task *j, int dir, bool is_ahead, struct err *err)
{
        struct rootfs_dirs dirs = {j->dirs->layers, j->dirs->sealed, dir, j->dirs->trash, is_ahead};
        struct plan_create plan = {.is_upper_kept = j->order.is_upper_kept};
        const struct rootfs_mounts mounts = {.uid_base = j->order.uid_base,
                                             .userns = j->fds[DISK_USERNS],
                                             .proc = j->fds[DISK_PROC],
                                             .sys = j->fds[DISK_SYS],
                                             .dev = j->fds[DISK_DEV]};
        const char *at = j->names;
        int r;

        for (; plan.layer_count < j->order.layer_count; at += strlen(at) + 1)
                plan.layers[plan.layer_count++] = (char *)(uintptr_t)at; /* only read */
        r = rootfs_build(&j->tree, &dirs, &plan, &mounts, err);
        if (r == 0 && j->order.is_upper_kept)
                rootfs_renew_boot_id(&j->tree, j->order.uid_base);
        return r;
}

/* Once it runs, memory that is kept of it does not fit its files any more.  That it is paused stays written until envd
 * is ready: a crash before that leaves it there. */
static int forget_memory(struct disk_task *j, int dir, struct err *err)
{
        if (!j->order.is_paused || !j->order.paused.checkpoint[0])
                return 0;
        j->order.paused.checkpoint[0] = '\0';
        return paused_write(dir, j->order.id, &j->order.paused, true, err);
}

/* The engine's slot cleaner closes what is not needed any more: each of them is an RCU wait. */
static void hand_over_tree(struct disk_task *j)
{
        struct disk_word w = {.number = j->order.number};
        struct rootfs *t = &j->tree;
        int fds[HELPER_FDS_MAX];

        while (t->later_count >= HELPER_FDS_MAX) { /* more than go with the tree */
                t->later_count -= HELPER_FDS_MAX;
                say(j, &w, t->later + t->later_count, HELPER_FDS_MAX);
                for (size_t i = 0; i < HELPER_FDS_MAX; i++)
                        close_fd(&t->later[t->later_count + i]);
        }
        fds[0] = t->mount;
        memcpy(fds + 1, t->later, t->later_count * sizeof(int));
        w.has_tree = true;
        say(j, &w, fds, 1 + t->later_count);
        close_fd(&t->mount);
        while (t->later_count > 0)
                close_fd(&t->later[--t->later_count]);
}

static char *read_origin(const struct disk_task *j, size_t *ret_len)
{
        off_t size = j->origin < 0 ? -1 : lseek(j->origin, 0, SEEK_END);
        AUTO_FREE char *text = size < 0 ? NULL : malloc((size_t)size + 1);

        if (!text || pread(j->origin, text, (size_t)size, 0) != (ssize_t)size)
                return NULL;
        text[size] = '\0';
        *ret_len = (size_t)size;
        return TAKE_PTR(text);
}

static void note_origin(const struct disk_task *j, int dir)
{
        size_t len = 0;
        AUTO_FREE char *text = read_origin(j, &len);

        if (text)
                origin_put(dir, j->order.id, text, len);
}

/* The record comes last, so that envd works meanwhile; but before anybody is told: no sandbox that anybody knows of is
 * without.  One that a crash leaves without is ended by the next engine. */
static int make(struct disk_task *j, struct err *err)
{
        AUTO_CLOSE int dir = -1;
        bool is_ahead;
        int r;

        if ((r = open_sandbox(j, &dir, &is_ahead, err)) < 0 || (r = build_tree(j, dir, is_ahead, err)) < 0)
                return r;
        r = forget_memory(j, dir, err);
        if (r < 0) {
                rootfs_done(&j->tree);
                return r;
        }
        hand_over_tree(j);
        note_origin(j, dir);
        return record_put(dir, j->text, j->text_len, err);
}

/* ------------------------------------------------------------- the others */

static int in_sandbox(const struct disk_task *j, int (*what)(const struct disk_task *j, int dir, struct err *err),
                      struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(j->dirs->sandboxes, j->order.id);

        return dir < 0 ? err_sys(err, dir, "open directory of sandbox %s", j->order.id) : what(j, dir, err);
}

static int save(const struct disk_task *j, int dir, struct err *err)
{
        return record_put(dir, j->text, j->text_len, err);
}

static int wake(const struct disk_task *j, int dir, struct err *err)
{
        int r = paused_remove(dir);

        return r < 0 ? err_sys(err, r, "write down that sandbox %s runs", j->order.id) : 0;
}

static int rest(const struct disk_task *j, int dir, struct err *err)
{
        int r = record_remove(dir);

        return r < 0 ? err_sys(err, r, "write down that sandbox %s has no processes", j->order.id) : 0;
}

static int find_place(const struct disk_task *j)
{
        switch (j->order.place) {
        case DISK_SANDBOXES: return j->dirs->sandboxes;
        case DISK_CHECKPOINTS: return j->dirs->checkpoints;
        case DISK_SEALED: return j->dirs->sealed;
        case DISK_LOST: return j->dirs->lost;
        }
        return -1;
}

static int discard(const struct disk_task *j, struct err *err)
{
        bool is_lost = j->order.place == DISK_LOST;
        int r = is_lost ? lost_files_remove(j->dirs->lost, j->dirs->trash, j->order.id)
                        : trash_move(j->dirs->trash, find_place(j), j->order.id);

        if (r == -ENOENT && is_lost)
                return err_set(err, ERR_NOT_FOUND, "'%s' is not among what was lost", j->order.id);
        if (r == 0 && is_lost)
                log_info("lost.removed", "name=%s", j->order.id);
        if (r == 0 || r == -ENOENT)
                return 0;
        if (!sys_is_full(r))
                log_error("file.left", "name=%s error=\"%s\"", j->order.id, strerror(-r));
        return err_sys(err, r, "remove '%s'", j->order.id);
}

static int lose(const struct disk_task *j, struct err *err)
{
        int r = lost_files_keep(j->dirs->lost, find_place(j), j->order.id, &j->order.note);

        return r < 0 ? err_sys(err, r, "move '%s' aside", j->order.id) : 0;
}

/* Nothing is to be changed where nothing is noted. */
static void change_origin(const struct disk_task *j)
{
        AUTO_CLOSE int dir = sys_open_dir(find_place(j), j->order.id);
        size_t len = 0;
        AUTO_FREE char *text = read_origin(j, &len);
        json_t *changes = text ? json_loadb(text, len, 0, NULL) : NULL;
        struct err none = {0};
        json_t *origin = dir < 0 ? NULL : origin_read(dir, &none);

        if (origin && changes && json_object_update(origin, changes) == 0)
                origin_write(dir, j->order.id, origin);
        json_decref(origin);
        json_decref(changes);
}

static int carry_out(struct disk_task *j, struct err *err)
{
        switch (j->order.what) {
        case DISK_MAKE: return make(j, err);
        case DISK_SAVE: return in_sandbox(j, save, err);
        case DISK_NOTE_RUNNING: return in_sandbox(j, wake, err);
        case DISK_NOTE_PAUSED: return in_sandbox(j, rest, err);
        case DISK_THROW: return discard(j, err);
        case DISK_LOSE: return lose(j, err);
        case DISK_TIDY_LOST: lost_files_tidy(j->dirs->lost, j->dirs->trash, j->order.days); break;
        case DISK_ORIGIN: change_origin(j); break;
        case DISK_SYNC: break;
        }
        return 0;
}

/* ------------------------------------------------------------- one after the other */

/* false: the engine is gone. */
static bool receive(struct disk_task *j)
{
        static char bytes[sizeof(struct disk_order) + DISK_TEXT_MAX];
        int fds[DISK_FDS + 1];
        size_t nfds = 0, used = 0;
        ssize_t n;

        n = scm_recv(j->sock, bytes, sizeof(bytes), fds, DISK_FDS + 1, &nfds);
        if (n < (ssize_t)sizeof(j->order))
                return false;
        memcpy(&j->order, bytes, sizeof(j->order));
        j->origin = j->order.has_text && nfds > 0 ? fds[--nfds] : -1;
        for (size_t i = 0; i < DISK_FDS; i++)
                j->fds[i] = i < nfds ? fds[i] : -1;
        j->names = bytes + sizeof(j->order);
        for (uint32_t i = 0; i < j->order.layer_count; i++)
                used += strlen(j->names + used) + 1;
        j->text = j->names + used;
        j->text_len = (size_t)n - sizeof(j->order) - used;
        return true;
}

static void use_idle_time(const struct disk_task *j)
{
        struct pollfd p = {.fd = j->sock, .events = POLLIN};

        while (j->ahead->count < AHEAD_MAX && !j->ahead->is_refused && poll(&p, 1, IDLE_MS) == 0)
                make_ahead(j->dirs, j->ahead);
}

_Noreturn void disk_serve(const struct disk_dirs *dirs, int sock)
{
        struct ahead ahead = {0};
        struct disk_task j = {.dirs = dirs, .ahead = &ahead, .sock = sock};

        remove_ahead(dirs);
        for (use_idle_time(&j); receive(&j); use_idle_time(&j)) {
                struct disk_word over = {.number = j.order.number, .is_over = true};

                ahead.is_refused = false;
                rootfs_init(&j.tree);
                (void)carry_out(&j, &over.err);
                if (over.err.kind == ERR_NO_SPACE)
                        give_up_ahead(dirs, &ahead);
                say(&j, &over, NULL, 0);
                close_fd(&j.origin);
                for (size_t i = 0; i < DISK_FDS; i++)
                        close_fd(&j.fds[i]); /* the engine has them, too: no wait */
        }
        _exit(0);
}
