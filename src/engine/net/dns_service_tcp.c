/* dns_service_tcp.c - queries by TCP, which programs use for long answers: each connection has one to a server. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "engine/net/dns_service.h"
#include "engine/net/dns_message.h"

#define STREAMS_MAX 128u
#define STREAMS_OF_ONE_MAX 16u
#define QUERY_BYTES_MAX 4096u
#define STREAM_MS 20000u
#define READ_BYTES 16384u

struct dns_stream {
        struct list node;
        struct dns_service *service;
        unsigned slot;
        struct io client, up;
        struct timer timer;
        struct buf from_client; /* a query that is not complete */
        struct buf to_up, to_client;
        bool is_client_done; /* it sends nothing more */
        bool is_up_done;
        struct task free_task;
};

static void free_stream(struct task *t)
{
        free(CONTAINER_OF(t, struct dns_stream, free_task));
}

static void stream_end(struct dns_stream *st)
{
        struct dns_service *s = st->service;

        loop_del(&st->client);
        loop_del(&st->up);
        close_fd(&st->client.fd);
        close_fd(&st->up.fd);
        timer_clear(&st->timer);
        buf_done(&st->from_client);
        buf_done(&st->to_up);
        buf_done(&st->to_client);
        list_remove(&st->node);
        s->stream_count--;
        s->streams_of[st->slot]--;
        st->free_task.run = free_stream;
        loop_post(s->loop, &st->free_task);
}

static void on_stream_over(struct timer *t)
{
        stream_end(CONTAINER_OF(t, struct dns_stream, timer));
}

/* Each complete query, if it is one that may be asked. */
static int pass_queries(struct dns_stream *st)
{
        struct buf *in = &st->from_client;
        struct dns_query q;

        while (in->len >= 2) {
                size_t n = (size_t)buf_at(in)[0] << 8 | buf_at(in)[1];

                if (n > QUERY_BYTES_MAX)
                        return -EMSGSIZE;
                if (in->len < 2 + n)
                        return 0;
                if (dns_query_parse((struct str){(const char *)buf_at(in) + 2, n}, &q) != 0)
                        return -EBADMSG;
                if (buf_add(&st->to_up, buf_at(in), 2 + n) < 0)
                        return -E2BIG;
                buf_consume(in, 2 + n);
        }
        return 0;
}

static int drain(struct buf *b, int fd)
{
        ssize_t n = b->len > 0 ? buf_drain(b, fd) : 0;

        return n < 0 && n != -EAGAIN ? (int)n : 0;
}

/* While the client does not take what there is, the server is out of the loop: its end would be told again and again. */
static int stream_want(struct dns_stream *st)
{
        loop_want(&st->client, (st->is_client_done ? 0 : EPOLLIN) | (st->to_client.len > 0 ? EPOLLOUT : 0));
        if (st->to_client.len > 0) {
                loop_del(&st->up);
                return 0;
        }
        if (!st->up.loop)
                return loop_add(st->service->loop, &st->up, EPOLLIN | (st->to_up.len > 0 ? EPOLLOUT : 0));
        loop_want(&st->up, EPOLLIN | (st->to_up.len > 0 ? EPOLLOUT : 0));
        return 0;
}

static int fill(struct buf *b, int fd, bool *ret_is_done)
{
        ssize_t n = buf_fill(b, fd, READ_BYTES);

        if (n == 0)
                *ret_is_done = true;
        return n < 0 && n != -EAGAIN ? (int)n : 0;
}

static void stream_go_on(struct dns_stream *st, int r)
{
        if (r == 0)
                r = drain(&st->to_client, st->client.fd);
        if (r < 0 || (st->is_up_done && st->to_client.len == 0) || stream_want(st) < 0)
                stream_end(st);
}

static void on_client(struct io *io, uint32_t events)
{
        struct dns_stream *st = CONTAINER_OF(io, struct dns_stream, client);
        int r = events & EPOLLERR ? -EPIPE : 0;

        if (r == 0 && events & (EPOLLIN | EPOLLHUP) && !st->is_client_done)
                r = fill(&st->from_client, io->fd, &st->is_client_done);
        if (r == 0)
                r = pass_queries(st);
        if (r == 0 && st->is_client_done && events & EPOLLHUP)
                r = -EPIPE;
        stream_go_on(st, r);
}

static void on_server(struct io *io, uint32_t events)
{
        struct dns_stream *st = CONTAINER_OF(io, struct dns_stream, up);
        int r = events & EPOLLERR ? -ECONNREFUSED : 0;

        if (r == 0 && events & EPOLLOUT)
                r = drain(&st->to_up, io->fd);
        if (r == 0 && events & (EPOLLIN | EPOLLHUP) && st->to_client.len == 0)
                r = fill(&st->to_client, io->fd, &st->is_up_done);
        stream_go_on(st, r);
}

static int stream_start(struct dns_service *s, struct dns_stream *st)
{
        int r;

        dns_upstreams_follow(&s->upstreams);
        r = dns_upstreams_connect(&s->upstreams, 0, SOCK_STREAM);
        if (r < 0)
                return r;
        st->up = (struct io){.fd = r, .on = on_server};
        st->client.on = on_client;
        r = loop_add(s->loop, &st->up, 0);
        return r < 0 ? r : loop_add(s->loop, &st->client, EPOLLIN);
}

void dns_service_on_stream(struct listener *ln, int fd)
{
        struct dns_service *s = ln->arg;
        struct sockaddr_in from = {0};
        socklen_t len = sizeof(from);
        unsigned slot;
        struct dns_stream *st;

        slot = getpeername(fd, (struct sockaddr *)(void *)&from, &len) < 0 ? SLOTS_MAX : dns_service_slot(s, &from);
        st = slot < SLOTS_MAX && s->stream_count < STREAMS_MAX && s->streams_of[slot] < STREAMS_OF_ONE_MAX
                     ? calloc(1, sizeof(*st))
                     : NULL;
        if (!st) {
                (void)close(fd);
                return;
        }
        *st = (struct dns_stream){.service = s, .slot = slot, .up = {.fd = -1}, .client = {.fd = fd}};
        st->from_client = BUF_INIT(2 + QUERY_BYTES_MAX + READ_BYTES);
        st->to_up = BUF_INIT(4 * QUERY_BYTES_MAX + READ_BYTES);
        st->to_client = BUF_INIT(READ_BYTES);
        st->timer.on = on_stream_over;
        list_push_back(&s->streams, &st->node);
        s->stream_count++;
        s->streams_of[slot]++;
        timer_set(s->loop, &st->timer, STREAM_MS);
        if (stream_start(s, st) < 0)
                stream_end(st);
}
