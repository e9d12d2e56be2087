#include "engine/net/dns_service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/net/dns_message.h"

#define QUERIES_MAX 1024u
#define QUERIES_OF_ONE_MAX 128u
#define QUERY_BYTES_MAX 1500u
#define BATCH 64u    /* of packets, before others have their turn */
#define TRY_MS 2000u /* a client asks again after 5 s */
#define TRIES_MIN 3u /* with fewer servers, some are asked again */

struct dns_asked { /* one query */
        struct list node;
        struct dns_service *service;
        struct sockaddr_in client;
        unsigned slot;
        struct io up;
        struct timer timer;
        size_t attempt;
        uint16_t up_id;
        struct dns_query query;
        struct task free_task;
        size_t len;
        uint8_t message[];
};

unsigned dns_service_slot(const struct dns_service *s, const struct sockaddr_in *from)
{
        uint32_t slot = ntohl(from->sin_addr.s_addr) - s->first_address;

        return slot < SLOTS_MAX ? slot : SLOTS_MAX;
}

static void answer(const struct dns_service *s, const struct sockaddr_in *to, const void *p, size_t n)
{
        (void)sendto(s->udp.fd, p, n, MSG_DONTWAIT, (const struct sockaddr *)(const void *)to, sizeof(*to));
}

static struct str text_of(const struct dns_asked *a)
{
        return (struct str){(const char *)a->message, a->len};
}

static void free_asked(struct task *t)
{
        free(CONTAINER_OF(t, struct dns_asked, free_task));
}

static void close_up(struct dns_asked *a)
{
        loop_del(&a->up);
        close_fd(&a->up.fd);
}

static void asked_end(struct dns_asked *a)
{
        struct dns_service *s = a->service;

        close_up(a);
        timer_clear(&a->timer);
        list_remove(&a->node);
        s->query_count--;
        s->queries_of[a->slot]--;
        a->free_task.run = free_asked; /* we may be inside one of its callbacks */
        loop_post(s->loop, &a->free_task);
}

static void asked_fail(struct dns_asked *a)
{
        uint8_t out[DNS_REFUSAL_MAX];

        answer(a->service, &a->client, out, dns_refuse(text_of(a), &a->query, DNS_SERVER_FAILURE, out));
        asked_end(a);
}

static void on_up(struct io *io, uint32_t events);

/* A socket for each try: its port and the id are what a forged answer would have to guess. */
static int ask_server(struct dns_asked *a)
{
        struct dns_service *s = a->service;
        int fd = dns_upstreams_connect(&s->upstreams, a->attempt, SOCK_DGRAM), r;

        if (fd < 0)
                return fd;
        random_bytes(&a->up_id, sizeof(a->up_id));
        dns_set_id(a->message, a->up_id);
        a->up = (struct io){.fd = fd, .on = on_up};
        r = send(fd, a->message, a->len, MSG_DONTWAIT) < 0 ? -errno : loop_add(s->loop, &a->up, EPOLLIN);
        if (r < 0)
                close_up(a);
        else
                timer_set(s->loop, &a->timer, TRY_MS);
        return r;
}

static size_t tries_of(const struct dns_service *s)
{
        return s->upstreams.servers.count > TRIES_MIN ? s->upstreams.servers.count : TRIES_MIN;
}

/* The first try, or the next one after one that failed. */
static void asked_try(struct dns_asked *a)
{
        close_up(a);
        while (a->attempt < tries_of(a->service)) {
                if (ask_server(a) == 0)
                        return;
                a->attempt++;
        }
        asked_fail(a);
}

static void on_try_over(struct timer *t)
{
        struct dns_asked *a = CONTAINER_OF(t, struct dns_asked, timer);

        a->attempt++;
        asked_try(a);
}

static void on_up(struct io *io, uint32_t events)
{
        struct dns_asked *a = CONTAINER_OF(io, struct dns_asked, up);
        static uint8_t in[65536];
        ssize_t n = recv(io->fd, in, sizeof(in), MSG_DONTWAIT);

        (void)events;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n < 0) { /* nobody is there */
                a->attempt++;
                asked_try(a);
                return;
        }
        if (!dns_is_answer((struct str){(const char *)in, (size_t)n}, text_of(a), &a->query, a->up_id))
                return; /* somebody else's: the right one may follow */
        dns_upstreams_prefer(&a->service->upstreams, a->attempt);
        dns_set_id(in, a->query.id);
        answer(a->service, &a->client, in, (size_t)n);
        asked_end(a);
}

/* ------------------------------------------------------------- what sandboxes send */

static void ask(struct dns_service *s, const struct sockaddr_in *from, unsigned slot, struct str m,
                const struct dns_query *q)
{
        struct dns_asked *a = calloc(1, sizeof(*a) + m.n);

        if (!a)
                return; /* it asks again */
        *a = (struct dns_asked){.service = s, .client = *from, .slot = slot, .query = *q, .len = m.n};
        a->up.fd = -1;
        a->timer.on = on_try_over;
        memcpy(a->message, m.p, m.n);
        list_push_back(&s->queries, &a->node);
        s->query_count++;
        s->queries_of[slot]++;
        dns_upstreams_follow(&s->upstreams);
        asked_try(a);
}

static void take_query(struct dns_service *s, const struct sockaddr_in *from, struct str m)
{
        unsigned slot = dns_service_slot(s, from);
        uint8_t out[DNS_REFUSAL_MAX];
        struct dns_query q;
        int r = dns_query_parse(m, &q);

        if (slot >= SLOTS_MAX || r < 0)
                return;
        if (r > 0 || m.n > QUERY_BYTES_MAX)
                answer(s, from, out, dns_refuse(m, &q, r > 0 ? (enum dns_code)r : DNS_FORMAT_ERROR, out));
        else if (s->query_count >= QUERIES_MAX || s->queries_of[slot] >= QUERIES_OF_ONE_MAX)
                answer(s, from, out, dns_refuse(m, &q, DNS_SERVER_FAILURE, out));
        else
                ask(s, from, slot, m, &q);
}

static void on_udp(struct io *io, uint32_t events)
{
        struct dns_service *s = CONTAINER_OF(io, struct dns_service, udp);
        static char in[65536];

        (void)events;
        for (unsigned i = 0; i < BATCH; i++) {
                struct sockaddr_in from = {0};
                socklen_t len = sizeof(from);
                ssize_t n = recvfrom(io->fd, in, sizeof(in), MSG_DONTWAIT, (struct sockaddr *)(void *)&from, &len);

                if (n < 0)
                        return;
                if (len == sizeof(from) && from.sin_family == AF_INET)
                        take_query(s, &from, (struct str){in, (size_t)n});
        }
}

static void on_engine(struct io *io, uint32_t events)
{
        struct dns_service *s = CONTAINER_OF(io, struct dns_service, engine);

        (void)events; /* it sends nothing: this is its end */
        loop_stop(s->loop);
}

int dns_forwarder_serve(const struct dns_service_conf *c)
{
        static struct dns_service s;
        int r = loop_create(&s.loop);

        if (r < 0)
                return r;
        list_init(&s.queries);
        list_init(&s.streams);
        s.first_address = c->first_address;
        dns_upstreams_init(&s.upstreams, c->resolv_conf, c->servers, c->server_port);
        s.udp = (struct io){.fd = c->udp, .on = on_udp};
        s.engine = (struct io){.fd = c->engine, .on = on_engine};
        r = loop_add(s.loop, &s.udp, EPOLLIN);
        if (r == 0)
                r = listener_start(&s.tcp, s.loop, c->tcp, dns_service_on_stream, &s);
        if (r == 0 && c->engine >= 0)
                r = loop_add(s.loop, &s.engine, EPOLLIN);
        return r < 0 ? r : loop_run(s.loop);
}
