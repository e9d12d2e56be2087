#include "control/catalogue/upload_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "control/catalogue/uploads.h"
#include "model/build/build_names.h"

/* ---- in the thread ---- */

static int write_all(int fd, const uint8_t *p, size_t n)
{
        while (n > 0) {
                ssize_t w = write(fd, p, n);

                if (w < 0 && errno == EINTR)
                        continue;
                if (w <= 0)
                        return w < 0 ? -errno : -EIO;
                p += w;
                n -= (size_t)w;
        }
        return 0;
}

static void upload_stream_do(struct upload_stream *up)
{
        switch (up->task) {
        case UPLOAD_WRITE: up->result = write_all(up->fd, up->pieces[0], up->used[0]); break;
        case UPLOAD_END:
                if (renameat(up->dir, up->name, up->dir, up->hash) < 0)
                        up->result = -errno;
                else
                        up->is_there = true;
                break;
        case UPLOAD_DROP:
                if (!up->is_there)
                        (void)unlinkat(up->dir, up->name, 0);
                close_fd(&up->fd); /* the last one: the blocks are given back here */
                break;
        }
}

static struct upload_stream *writer_next(struct upload_writer *w)
{
        struct list *node;

        pthread_mutex_lock(&w->lock);
        while (!(node = list_pop_front(&w->asked)) && !w->is_over)
                pthread_cond_wait(&w->changed, &w->lock);
        pthread_mutex_unlock(&w->lock);
        return node ? LIST_ENTRY(node, struct upload_stream, node) : NULL;
}

static void writer_tell(struct upload_writer *w, struct upload_stream *up)
{
        const uint64_t one = 1;

        pthread_mutex_lock(&w->lock);
        list_push_back(&w->done, &up->node);
        pthread_mutex_unlock(&w->lock);
        (void)!write(w->told.fd, &one, sizeof(one)); /* the eventfd's counter cannot overflow */
}

static void *writer_thread(void *arg)
{
        struct upload_writer *w = arg;
        struct upload_stream *up;

        while ((up = writer_next(w))) {
                upload_stream_do(up);
                writer_tell(w, up);
        }
        return NULL;
}

/* ---- in the loop ---- */

static void upload_stream_free(struct upload_stream *up)
{
        list_remove(&up->among);
        up->writer->count--;
        close_fd(&up->fd);
        close_fd(&up->dir);
        free(up->pieces[0]);
        free(up->pieces[1]);
        free(up);
}

/* The thread takes no signals: they are the loop's. */
static bool writer_start_thread(struct upload_writer *w)
{
        sigset_t all, before;

        if (w->has_thread)
                return true;
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        w->has_thread = pthread_create(&w->thread, NULL, writer_thread, w) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (!w->has_thread)
                log_warn("upload.thread", "no thread for uploads, waiting for the disk in the loop");
        return w->has_thread;
}

static void upload_stream_ask(struct upload_stream *up, int task)
{
        struct upload_writer *w = up->writer;

        up->task = task;
        up->is_asked = true;
        if (!writer_start_thread(w)) {
                upload_stream_do(up);
                writer_tell(w, up);
                return;
        }
        pthread_mutex_lock(&w->lock);
        list_push_back(&w->asked, &up->node);
        pthread_cond_signal(&w->changed);
        pthread_mutex_unlock(&w->lock);
}

/* The piece that was filled goes to the thread, if the thread has none. */
static bool upload_stream_ask_write(struct upload_stream *up)
{
        uint8_t *piece = up->pieces[1];

        if (up->is_asked || up->result < 0 || up->used[1] == 0)
                return false;
        up->pieces[1] = up->pieces[0];
        up->pieces[0] = piece;
        up->used[0] = up->used[1];
        up->used[1] = 0;
        upload_stream_ask(up, UPLOAD_WRITE);
        return true;
}

static void upload_stream_go_on(struct upload_stream *up)
{
        up->is_asked = false;
        if (up->is_dropped && up->task == UPLOAD_DROP) {
                upload_stream_free(up);
        } else if (up->is_dropped) {
                upload_stream_ask(up, UPLOAD_DROP);
        } else if (up->is_finishing && up->result == 0 && !up->is_there) {
                if (!upload_stream_ask_write(up))
                        upload_stream_ask(up, UPLOAD_END);
        } else {
                if (!up->is_finishing && up->used[1] == UPLOAD_STREAM_PIECE)
                        (void)upload_stream_ask_write(up);
                up->on(up);
        }
}

static void writer_told(struct io *io, uint32_t events)
{
        struct upload_writer *w = CONTAINER_OF(io, struct upload_writer, told);
        struct list *node;
        uint64_t n;

        (void)events;
        (void)!read(io->fd, &n, sizeof(n));
        for (;;) {
                pthread_mutex_lock(&w->lock);
                node = list_pop_front(&w->done);
                pthread_mutex_unlock(&w->lock);
                if (!node)
                        return;
                upload_stream_go_on(LIST_ENTRY(node, struct upload_stream, node));
        }
}

int upload_writer_init(struct upload_writer *w, struct loop *loop)
{
        *w = (struct upload_writer){.loop = loop, .told = {.fd = -1, .on = writer_told}};
        list_init(&w->all);
        list_init(&w->asked);
        list_init(&w->done);
        pthread_mutex_init(&w->lock, NULL);
        pthread_cond_init(&w->changed, NULL);
        w->told.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return w->told.fd < 0 ? -errno : loop_add(loop, &w->told, EPOLLIN);
}

void upload_writer_done(struct upload_writer *w)
{
        if (!w->loop)
                return;
        if (w->has_thread) {
                pthread_mutex_lock(&w->lock);
                w->is_over = true;
                pthread_cond_signal(&w->changed);
                pthread_mutex_unlock(&w->lock);
                (void)pthread_join(w->thread, NULL);
        }
        loop_del(&w->told);
        close_fd(&w->told.fd);
        LIST_EACH (node, &w->all) {
                struct upload_stream *up = LIST_ENTRY(node, struct upload_stream, among);

                if (!up->is_there && up->fd >= 0)
                        (void)unlinkat(up->dir, up->name, 0);
                upload_stream_free(up);
        }
        pthread_cond_destroy(&w->changed);
        pthread_mutex_destroy(&w->lock);
        w->loop = NULL;
}

/* ---- for the handler ---- */

static struct upload_stream *upload_stream_create(struct upload_writer *w, const char *hash)
{
        struct upload_stream *up = calloc(1, sizeof(*up));

        if (!up)
                return NULL;
        up->writer = w;
        up->fd = up->dir = -1;
        list_push_back(&w->all, &up->among);
        w->count++;
        memcpy(up->hash, hash, sizeof(up->hash));
        memcpy(up->name, UPLOAD_BEGUN, sizeof(UPLOAD_BEGUN));
        random_id(up->name + sizeof(UPLOAD_BEGUN) - 1, 20);
        up->pieces[0] = malloc(UPLOAD_STREAM_PIECE);
        up->pieces[1] = malloc(UPLOAD_STREAM_PIECE);
        if (up->pieces[0] && up->pieces[1])
                return up;
        upload_stream_free(up);
        return NULL;
}

int upload_stream_begin(struct uploads *u, int64_t team, const char *hash, void (*on)(struct upload_stream *up),
                        void *arg, struct upload_stream **ret, struct err *err)
{
        struct upload_stream *up;
        int r = 0;

        if (!build_hash_is_valid(hash))
                return err_set(err, ERR_INVALID, "Invalid files hash");
        if (u->writer.count >= UPLOAD_STREAMS_MAX)
                return err_set(err, ERR_UNAVAILABLE, "%d uploads are under way: try again later", UPLOAD_STREAMS_MAX);
        up = upload_stream_create(&u->writer, hash);
        if (!up)
                return err_sys(err, -ENOMEM, "upload");
        up->on = on;
        up->arg = arg;
        up->dir = uploads_team_dir(u, team, true);
        if (up->dir < 0)
                r = up->dir;
        else if ((up->fd = openat(up->dir, up->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
                r = -errno;
        if (r < 0) {
                upload_stream_free(up);
                return uploads_fail(err, r);
        }
        *ret = up;
        return 0;
}

size_t upload_stream_take(struct upload_stream *up, const void *p, size_t n)
{
        size_t room = UPLOAD_STREAM_PIECE - up->used[1];

        if (n > room)
                n = room;
        memcpy(up->pieces[1] + up->used[1], p, n);
        up->used[1] += n;
        if (up->used[1] == UPLOAD_STREAM_PIECE)
                (void)upload_stream_ask_write(up);
        return n;
}

void upload_stream_finish(struct upload_stream *up)
{
        up->is_finishing = true;
        if (!up->is_asked && !upload_stream_ask_write(up))
                upload_stream_ask(up, UPLOAD_END);
}

bool upload_stream_is_there(const struct upload_stream *up)
{
        return up->is_there && !up->is_asked;
}

bool upload_stream_has_failed(const struct upload_stream *up, struct err *err)
{
        if (up->is_asked || up->result == 0)
                return false;
        (void)uploads_fail(err, up->result);
        return true;
}

void upload_stream_drop(struct upload_stream *up)
{
        if (!up)
                return;
        up->is_dropped = true;
        if (!up->is_asked)
                upload_stream_ask(up, UPLOAD_DROP);
}
