#include "engine/storage/disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "model/plan.h"

#define FINISH_MS 3000

struct disk_request {
        struct list node;
        struct disk *disk;
        struct buf bytes; /* the order, until it is carried out */
        int text;         /* a file with an origin, or with changes of one; -1: none */
        uint64_t number;
        enum disk_what what;
        bool is_forgotten;  /* no request of the engine waits for it */
        int userns;         /* DISK_MAKE: borrowed, until it is over or forgotten; -1: none */
        struct rootfs tree; /* what the helper has sent */
        void (*on_tree)(void *arg, struct rootfs *tree);
        disk_on_done *on_done;
        void *arg;
};

/* ------------------------------------------------------------- ends */

static void close_tree(struct disk *d, struct rootfs *t)
{
        d->close_later(d->close_arg, &t->mount, 1);
        d->close_later(d->close_arg, &t->boot_id, 1);
        d->close_later(d->close_arg, t->parts, ROOTFS_PARTS_MAX);
}

static void disk_request_free(struct disk_request *q)
{
        if (!q)
                return;
        buf_done(&q->bytes);
        close_fd(&q->text);
        free(q);
}

static void tell_full(const struct disk_request *q)
{
        struct disk_order o;

        memcpy(&o, buf_at(&q->bytes), sizeof(o));
        q->disk->on_full(q->disk, o.place, o.id);
}

static void disk_request_finish(struct disk_request *q, const struct err *err)
{
        list_remove(&q->node);
        close_tree(q->disk, &q->tree);
        if (q->what == DISK_THROW && err->kind == ERR_NO_SPACE)
                tell_full(q);
        if (q->on_done)
                q->on_done(q->arg, err);
        disk_request_free(q);
}

void disk_forget(struct disk_request *q)
{
        if (!q)
                return;
        q->on_done = NULL;
        q->on_tree = NULL;
        q->is_forgotten = true;
}

static void take_fds(struct disk_request *q, const struct disk_word *w, int *fds, size_t nfds)
{
        struct rootfs *t = &q->tree;
        size_t first = w->has_boot_id ? 2 : 1; /* part */

        if (w->has_tree && nfds > 0)
                t->mount = TAKE_FD(fds[0]);
        if (w->has_boot_id && nfds > 1)
                t->boot_id = TAKE_FD(fds[1]);
        for (size_t i = 0; w->has_tree && i < ROOTFS_PARTS_MAX && first + i < nfds; i++)
                t->parts[i] = TAKE_FD(fds[first + i]);
        q->disk->close_later(q->disk->close_arg, fds, nfds); /* others: there are none */
        if (w->has_tree && q->on_tree)
                q->on_tree(q->arg, t);
}

static void disk_answered(struct helper *h, const void *p, size_t n, int *fds, size_t nfds)
{
        struct disk *d = CONTAINER_OF(h, struct disk, helper);
        struct disk_request *q =
                list_is_empty(&d->requests) ? NULL : LIST_ENTRY(d->requests.next, struct disk_request, node);
        struct disk_word w;

        if (n != sizeof(w) || (memcpy(&w, p, sizeof(w)), !q || w.number != q->number)) {
                d->close_later(d->close_arg, fds, nfds);
                return;
        }
        if (nfds > 0)
                take_fds(q, &w, fds, nfds);
        if (w.is_over)
                disk_request_finish(q, &w.err);
}

/* ------------------------------------------------------------- orders */

/* An origin may be too long for a message.  Negative: no memory. */
static int write_text(const char *text)
{
        AUTO_CLOSE int fd = memfd_create("origin", MFD_CLOEXEC);
        size_t n = strlen(text);

        return fd >= 0 && write(fd, text, n) == (ssize_t)n ? TAKE_FD(fd) : -ENOMEM;
}

static int send_order(struct disk *d, struct disk_request *q)
{
        int fds[DISK_FDS_MAX];
        size_t n = 0;

        if (q->what == DISK_MAKE)
                fds[n++] = q->userns;
        if (q->text >= 0)
                fds[n++] = q->text;
        return helper_send(&d->helper, buf_at(&q->bytes), q->bytes.len, fds, n);
}

/* Frees text.  NULL: no memory. */
static struct disk_request *disk_request_create(struct disk *d, struct disk_order *o, const struct plan_create *plan,
                                                char *text)
{
        struct disk_request *q = calloc(1, sizeof(*q));
        int r = q ? 0 : -ENOMEM;

        if (q) {
                o->number = q->number = ++d->last;
                q->disk = d;
                q->what = o->what;
                q->text = q->userns = -1;
                rootfs_init(&q->tree);
                buf_init(&q->bytes, sizeof(*o) + DISK_TEXT_MAX);
                r = buf_add(&q->bytes, o, sizeof(*o));
        }
        for (size_t i = 0; plan && i < plan->layer_count && r == 0; i++)
                r = buf_add(&q->bytes, plan->layers[i], strlen(plan->layers[i]) + 1);
        if (r == 0 && text)
                r = buf_add(&q->bytes, text, strlen(text));
        free(text);
        if (r == 0)
                return q;
        disk_request_free(q);
        return NULL;
}

/* When the helper is dead, the next one gets the request (start_disk_helper). */
static struct disk_request *disk_request_send(struct disk *d, struct disk_request *q)
{
        int r = q ? send_order(d, q) : -ENOMEM;

        if (r == 0 || r == -EPIPE) {
                list_push_back(&d->requests, &q->node);
                return q;
        }
        disk_request_free(q);
        return NULL;
}

static struct disk_request *disk_request_prepare(struct disk *d, struct disk_order *o, const char *name,
                                                 disk_on_done *on_done, void *arg)
{
        struct disk_request *q;

        memcpy(o->id, name, strlen(name) + 1);
        q = disk_request_create(d, o, NULL, NULL);
        if (q) {
                q->on_done = on_done;
                q->arg = arg;
        }
        return q;
}

static struct disk_request *ask_helper(struct disk *d, enum disk_what what, const char *id, disk_on_done *on_done,
                                       void *arg)
{
        struct disk_order o = {.what = what};

        return disk_request_send(d, disk_request_prepare(d, &o, id, on_done, arg));
}

struct disk_request *disk_make(struct disk *d, const struct disk_make *m, disk_on_done *on_done, void *arg)
{
        struct disk_order o = {.what = DISK_MAKE,
                               .uid_base = m->uid_base,
                               .is_paused = m->is_paused,
                               .is_upper_kept = m->plan->is_upper_kept,
                               .paused = m->paused,
                               .layer_count = (uint32_t)m->plan->layer_count};
        AUTO_FREE char *origin = m->plan->origin ? json_dumps(m->plan->origin, JSON_COMPACT) : NULL;
        size_t origin_len = origin ? strlen(origin) : 0;
        char *text = !origin && m->plan->origin ? NULL : record_encode(m->record);
        struct disk_request *q;

        if (!text)
                return NULL;
        memcpy(o.id, m->id, strlen(m->id) + 1);
        o.has_text = origin_len > DISK_ORIGIN_MAX;
        o.origin_len = o.has_text ? 0 : (uint32_t)origin_len;
        q = disk_request_create(d, &o, m->plan, text);
        if (q) {
                q->userns = m->userns;
                q->on_tree = m->on_tree;
                q->on_done = on_done;
                q->arg = arg;
                if ((o.has_text && (q->text = write_text(origin)) < 0) ||
                    (o.origin_len > 0 && buf_add(&q->bytes, origin, origin_len) < 0)) {
                        disk_request_free(q);
                        return NULL;
                }
        }
        return disk_request_send(d, q);
}

struct disk_request *disk_save(struct disk *d, const struct record *r, disk_on_done *on_done, void *arg)
{
        struct disk_order o = {.what = DISK_SAVE};
        char *text = record_encode(r);
        struct disk_request *q;

        if (!text)
                return NULL;
        memcpy(o.id, r->id, sizeof(r->id));
        q = disk_request_create(d, &o, NULL, text);
        if (q) {
                q->on_done = on_done;
                q->arg = arg;
        }
        return disk_request_send(d, q);
}

struct disk_request *disk_note_running(struct disk *d, const char *id, disk_on_done *on_done, void *arg)
{
        return ask_helper(d, DISK_NOTE_RUNNING, id, on_done, arg);
}

struct disk_request *disk_note_paused(struct disk *d, const char *id, disk_on_done *on_done, void *arg)
{
        return ask_helper(d, DISK_NOTE_PAUSED, id, on_done, arg);
}

struct disk_request *disk_throw(struct disk *d, enum disk_place place, const char *name, disk_on_done *on_done,
                                void *arg)
{
        struct disk_order o = {.what = DISK_THROW, .place = place};

        return disk_request_send(d, disk_request_prepare(d, &o, name, on_done, arg));
}

struct disk_request *disk_lose(struct disk *d, enum disk_place place, const char *name, const struct lost_note *note,
                               disk_on_done *on_done, void *arg)
{
        struct disk_order o = {.what = DISK_LOSE, .place = place, .note = *note};

        return disk_request_send(d, disk_request_prepare(d, &o, name, on_done, arg));
}

struct disk_request *disk_tidy_lost(struct disk *d, unsigned days, disk_on_done *on_done, void *arg)
{
        struct disk_order o = {.what = DISK_TIDY_LOST, .days = days};

        return disk_request_send(d, disk_request_prepare(d, &o, "", on_done, arg));
}

struct disk_request *disk_origin(struct disk *d, enum disk_place place, const char *name, const json_t *changes,
                                 disk_on_done *on_done, void *arg)
{
        struct disk_order o = {.what = DISK_ORIGIN, .place = place, .has_text = true};
        AUTO_FREE char *text = json_dumps(changes, JSON_COMPACT);
        struct disk_request *q = text ? disk_request_prepare(d, &o, name, on_done, arg) : NULL;

        if (q && (q->text = write_text(text)) < 0) {
                disk_request_free(q);
                return NULL;
        }
        return disk_request_send(d, q);
}

struct disk_request *disk_sync(struct disk *d, disk_on_done *on_done, void *arg)
{
        return ask_helper(d, DISK_SYNC, "", on_done, arg);
}

/* ------------------------------------------------------------- the process */

/* How far it came is not known. */
static void disk_helper_gone(struct helper *h)
{
        struct disk *d = CONTAINER_OF(h, struct disk, helper);
        struct disk_request *first;
        struct err err = {0};

        if (list_is_empty(&d->requests))
                return;
        first = LIST_ENTRY(d->requests.next, struct disk_request, node);
        if (first->what != DISK_MAKE)
                return;
        (void)err_set(&err, ERR_INTERRUPTED, "the disk process died: try again");
        disk_request_finish(first, &err);
}

/* The user namespace of a forgotten disk_make() may be closed.  What it began is removed by the request that follows it. */
static bool is_request_needed(const struct disk_request *q)
{
        return q->what != DISK_MAKE || !q->is_forgotten;
}

static int start_disk_helper(struct helper *h, struct err *err)
{
        struct disk *d = CONTAINER_OF(h, struct disk, helper);
        const int keep[] = {d->dirs.sandboxes, d->dirs.layers, d->dirs.sealed, d->dirs.checkpoints,
                            d->dirs.trash,     d->dirs.lost,   d->dirs.ahead,  d->dirs.host};
        const struct err none = {0};
        int sock = -1, r;
        pid_t pid = helper_fork("sg-disk", keep, sizeof(keep) / sizeof(keep[0]) - (d->dirs.host < 0), &sock);

        if (pid < 0)
                return err_sys(err, pid, "fork disk helper");
        if (pid == 0)
                disk_serve(&d->dirs, sock);
        r = helper_start(h, d->loop, sock);
        LIST_EACH (node, &d->requests) {
                struct disk_request *q = LIST_ENTRY(node, struct disk_request, node);

                if (r == 0 && !is_request_needed(q))
                        disk_request_finish(q, &none);
                else if (r == 0)
                        r = send_order(d, q);
        }
        if (r < 0)
                helper_stop(h);
        return r < 0 ? err_sys(err, r, "start disk helper") : 0;
}

int disk_open(struct disk *d, struct loop *l, const struct disk_dirs *dirs, disk_close_later *close_later,
              void *close_arg, struct err *err)
{
        d->loop = l;
        d->dirs = *dirs;
        d->close_later = close_later;
        d->close_arg = close_arg;
        d->helper.name = "disk";
        d->helper.on_message = disk_answered;
        d->helper.on_gone = disk_helper_gone;
        d->helper.again = start_disk_helper;
        return start_disk_helper(&d->helper, err);
}

void disk_close(struct disk *d)
{
        helper_finish(&d->helper, FINISH_MS);
}
