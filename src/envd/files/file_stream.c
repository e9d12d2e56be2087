#include "envd/files/file_stream.h"

#include <errno.h>

#include "base/large_buffer.h"
#include "envd/files/gzip.h"
#include "http/server.h"

#define CHUNK (64u << 10)
#define TEXT_MAX 4096
#define STEPS_PER_TURN 4 /* then other requests get their turn */

struct file_stream *file_stream_create(int fd)
{
        struct file_stream *s = calloc(1, sizeof(*s));

        if (!s) {
                (void)close(fd);
                return NULL;
        }
        s->fd = fd;
        return s;
}

void file_stream_free(struct file_stream *s)
{
        if (!s)
                return;
        close_fd(&s->fd);
        gzip_free(s->gzip);
        for (size_t i = 0; i < s->count; i++)
                buf_done(&s->parts[i].text);
        free(s);
}

struct file_stream_part *file_stream_add(struct file_stream *s, uint64_t offset, uint64_t length)
{
        struct file_stream_part *part;

        if (s->count == FILE_STREAM_PARTS_MAX)
                return NULL;
        part = &s->parts[s->count++];
        *part = (struct file_stream_part){.text = BUF_INIT(TEXT_MAX), .offset = offset, .length = length};
        return part;
}

uint64_t file_stream_length(const struct file_stream *s)
{
        uint64_t n = 0;

        for (size_t i = 0; i < s->count; i++)
                n += s->parts[i].text.len + s->parts[i].length;
        return n;
}

static int file_stream_write(const struct file_stream *s, const void *bytes, size_t n, bool is_last)
{
        struct str in = {bytes, n}, out;
        int r = 0;

        if (!s->gzip)
                return http_write(s->rq, bytes, n);
        while (r == 0 && gzip_next(s->gzip, &in, is_last, &out) > 0)
                r = http_write(s->rq, out.p, out.n);
        return r;
}

/* One write of the part: 1 the part has more; 0 the part is done; negative errno. */
static int file_stream_send_part(struct file_stream *s, struct file_stream_part *part)
{
        static LARGE_BUFFER uint8_t chunk[CHUNK];
        ssize_t n;
        int r;

        if (part->text.len) {
                r = file_stream_write(s, buf_at(&part->text), part->text.len, false);
                buf_reset(&part->text);
                return r < 0 ? r : 1;
        }
        if (part->length == 0)
                return 0;
        n = pread(s->fd, chunk, part->length < CHUNK ? part->length : CHUNK, (off_t)part->offset);
        if (n == 0 && part->length == FILE_STREAM_TO_END)
                return 0;
        if (n < 0 && errno == EAGAIN && part->length == FILE_STREAM_TO_END)
                return 0; /* a file of the kernel that has no more for now */
        if (n <= 0)
                return n < 0 ? -errno : -ENODATA; /* the file has shrunk */
        part->offset += (uint64_t)n;
        if (part->length != FILE_STREAM_TO_END)
                part->length -= (uint64_t)n;
        r = file_stream_write(s, chunk, (size_t)n, false);
        return r < 0 ? r : 1;
}

static void file_stream_advance(struct file_stream *s)
{
        int r = 0;

        loop_unpost(&s->turn);
        for (int i = 0; i < STEPS_PER_TURN && r >= 0 && s->at < s->count && !http_is_full(s->rq); i++) {
                r = file_stream_send_part(s, &s->parts[s->at]);
                if (r == 0)
                        s->at++;
        }
        if (r >= 0 && s->at == s->count)
                r = file_stream_write(s, "", 0, true);
        if (r < 0) {
                http_abort(s->rq); /* the client must not take this for the whole file */
        } else if (s->at == s->count) {
                s->rq->on_drain = NULL;
                http_end(s->rq);
        } else if (!http_is_full(s->rq)) {
                loop_post(s->loop, &s->turn);
        }
}

static void file_stream_turn(struct task *t)
{
        file_stream_advance(CONTAINER_OF(t, struct file_stream, turn));
}

static void file_stream_drained(struct http_request *rq)
{
        file_stream_advance(rq->user);
}

static void file_stream_closed(struct http_request *rq, bool is_complete)
{
        struct file_stream *s = rq->user;

        (void)is_complete;
        loop_unpost(&s->turn);
        file_stream_free(s);
}

void file_stream_start(struct file_stream *s, struct loop *loop, struct http_request *rq)
{
        s->loop = loop;
        s->rq = rq;
        s->turn.run = file_stream_turn;
        rq->user = s;
        rq->on_close = file_stream_closed;
        rq->on_drain = file_stream_drained;
        file_stream_advance(s);
}
