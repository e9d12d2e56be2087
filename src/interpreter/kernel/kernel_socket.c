#include "interpreter/kernel/kernel_socket.h"

#include <errno.h>
#include <stdio.h>
#include <zmq.h>

#include "base/auto.h"
#include "interpreter/jupyter/message.h"

#define SOCKETS_MAX 8192
#define RECEIVED_MAX 16   /* messages that wait in a feed */
#define SENT_MAX 64       /* requests that wait in a queue */
#define DRAIN_MESSAGES 64 /* then others have their turn */
#define DRAIN_BYTES (1u << 20)
#define RECONNECT_MS 10
#define RECONNECT_MS_MAX 200
#define CUT_MS 100 /* a connection that was lost is made again at once, unless libzmq itself closed it */
#define ADDRESS_MAX 64

struct kernel_socket {
        struct kernel_socket_options opt;
        void *handle; /* NULL: freed */
        struct io io;
        struct task drain, release;
        bool is_held;
        /* Of a feed: what happens to its connection. */
        void *monitor; /* NULL: none */
        struct io monitor_io;
        struct timer cut; /* runs from the loss of the connection to the next try of libzmq's */
};

struct zmq_threads {
        void *handle;
};

int zmq_threads_create(struct zmq_threads **ret)
{
        struct zmq_threads *z = calloc(1, sizeof(*z));

        if (!z)
                return -ENOMEM;
        z->handle = zmq_ctx_new();
        if (!z->handle) {
                free(z);
                return -ENOMEM;
        }
        (void)zmq_ctx_set(z->handle, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
        *ret = z;
        return 0;
}

struct zmq_threads *zmq_threads_free(struct zmq_threads *z)
{
        if (z) {
                (void)zmq_ctx_term(z->handle);
                free(z);
        }
        return NULL;
}

const char *zmq_version_text(void)
{
        static char text[32];
        int major, minor, patch;

        zmq_version(&major, &minor, &patch);
        (void)snprintf(text, sizeof(text), "%d.%d.%d", major, minor, patch);
        return text;
}

/* ---- receiving ---- */

struct received {
        zmq_msg_t parts[JUPYTER_FRAMES_MAX];
        struct str frames[JUPYTER_FRAMES_MAX];
        size_t count, bytes;
};

static void received_done(struct received *m)
{
        for (size_t i = 0; i < m->count; i++)
                (void)zmq_msg_close(&m->parts[i]);
}

static void received_add(struct received *m, zmq_msg_t *part, size_t bytes_max)
{
        m->bytes += zmq_msg_size(part);
        if (m->count == JUPYTER_FRAMES_MAX || m->bytes > bytes_max) {
                (void)zmq_msg_close(part);
                return;
        }
        (void)zmq_msg_init(&m->parts[m->count]);
        (void)zmq_msg_move(&m->parts[m->count], part);
        (void)zmq_msg_close(part);
        m->count++;
}

/* All frames of the next message; false: there is none.  libzmq hands a message out only when it is complete. */
static bool receive(struct kernel_socket *s, struct received *m)
{
        bool has_more = true;

        m->count = m->bytes = 0;
        while (has_more) {
                zmq_msg_t part;

                (void)zmq_msg_init(&part);
                if (zmq_msg_recv(&part, s->handle, ZMQ_DONTWAIT) < 0) {
                        int code = zmq_errno();

                        (void)zmq_msg_close(&part);
                        if (code == EINTR)
                                continue;
                        received_done(m);
                        return false;
                }
                has_more = zmq_msg_more(&part);
                received_add(m, &part, s->opt.bytes_max);
        }
        for (size_t i = 0; i < m->count; i++)
                m->frames[i] = (struct str){zmq_msg_data(&m->parts[i]), zmq_msg_size(&m->parts[i])};
        return true;
}

static void deliver(struct kernel_socket *s, const struct received *m)
{
        if (m->bytes > s->opt.bytes_max)
                s->opt.on_too_large(m->bytes, s->opt.arg);
        else
                s->opt.on_message(m->frames, m->count, s->opt.arg);
}

/* Without this, a held socket's fd would stay readable. */
static void note_events(struct kernel_socket *s)
{
        int events;
        size_t n = sizeof(events);

        (void)zmq_getsockopt(s->handle, ZMQ_EVENTS, &events, &n);
}

static void kernel_socket_drain(struct task *t)
{
        struct kernel_socket *s = CONTAINER_OF(t, struct kernel_socket, drain);
        struct received m;
        size_t bytes = 0;

        for (unsigned i = 0; s->handle && !s->is_held; i++) {
                if (i == DRAIN_MESSAGES || bytes > DRAIN_BYTES) {
                        loop_post(s->opt.loop, &s->drain);
                        return;
                }
                if (!receive(s, &m))
                        return;
                bytes += m.bytes;
                deliver(s, &m);
                received_done(&m);
        }
        if (s->handle)
                note_events(s);
}

static void kernel_socket_on_event(struct io *io, uint32_t events)
{
        struct kernel_socket *s = CONTAINER_OF(io, struct kernel_socket, io);

        (void)events;
        note_events(s);
        loop_post(s->opt.loop, &s->drain);
}

/* ---- the connection of a feed ---- */

static void address_of(const struct kernel_socket *s, char out[ADDRESS_MAX])
{
        (void)snprintf(out, ADDRESS_MAX, "tcp://127.0.0.1:%u", s->opt.port);
}

static bool monitor_read(struct kernel_socket *s);

/* libzmq gave the connection up, so a frame was too large.  Not so if it tries again and this process was frozen meanwhile. */
static void kernel_socket_was_cut(struct timer *t)
{
        struct kernel_socket *s = CONTAINER_OF(t, struct kernel_socket, cut);
        char address[ADDRESS_MAX];

        if (monitor_read(s))
                return;
        address_of(s, address);
        (void)zmq_disconnect(s->handle, address); /* it may have nothing of it left */
        (void)zmq_connect(s->handle, address);
        s->opt.on_too_large(0, s->opt.arg);
}

/* The next event; 0: there is none. */
static uint16_t next_event(struct kernel_socket *s)
{
        uint16_t event = 0;
        bool has_more = true;

        for (int i = 0; has_more; i++) {
                zmq_msg_t part;

                (void)zmq_msg_init(&part);
                if (zmq_msg_recv(&part, s->monitor, ZMQ_DONTWAIT) < 0) {
                        (void)zmq_msg_close(&part);
                        return 0;
                }
                if (i == 0 && zmq_msg_size(&part) >= sizeof(event))
                        memcpy(&event, zmq_msg_data(&part), sizeof(event));
                has_more = zmq_msg_more(&part);
                (void)zmq_msg_close(&part);
        }
        return event;
}

/* True if there was an event. */
static bool monitor_read(struct kernel_socket *s)
{
        bool has_any = false;
        uint16_t event;

        for (; (event = next_event(s)); has_any = true)
                if (event == ZMQ_EVENT_DISCONNECTED)
                        timer_set(s->opt.loop, &s->cut, CUT_MS);
                else
                        timer_clear(&s->cut);
        return has_any;
}

static void monitor_on_event(struct io *io, uint32_t events)
{
        (void)events;
        (void)monitor_read(CONTAINER_OF(io, struct kernel_socket, monitor_io));
}

static int monitor_open(struct kernel_socket *s)
{
        char address[ADDRESS_MAX];
        size_t n = sizeof(s->monitor_io.fd);
        int none = 0;

        (void)snprintf(address, sizeof(address), "inproc://feed-%p", (void *)s);
        if (zmq_socket_monitor(s->handle, address,
                               ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_DISCONNECTED) < 0)
                return -zmq_errno();
        s->monitor = zmq_socket(s->opt.threads->handle, ZMQ_PAIR);
        if (!s->monitor || zmq_setsockopt(s->monitor, ZMQ_LINGER, &none, sizeof(none)) < 0 ||
            zmq_connect(s->monitor, address) < 0 || zmq_getsockopt(s->monitor, ZMQ_FD, &s->monitor_io.fd, &n) < 0)
                return -zmq_errno();
        s->monitor_io.on = monitor_on_event;
        s->cut.on = kernel_socket_was_cut;
        (void)monitor_read(s); /* its fd says only what comes after it was found empty */
        return loop_add(s->opt.loop, &s->monitor_io, EPOLLIN);
}

static void monitor_close(struct kernel_socket *s)
{
        loop_del(&s->monitor_io);
        timer_clear(&s->cut);
        if (s->monitor) {
                (void)zmq_socket_monitor(s->handle, NULL, 0);
                (void)zmq_close(s->monitor);
        }
        s->monitor = NULL;
}

/* ---- sending ---- */

int kernel_socket_send(struct kernel_socket *s, const struct str *frames, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0);

                while (zmq_send(s->handle, frames[i].p, frames[i].n, flags) < 0)
                        if (zmq_errno() != EINTR)
                                return -zmq_errno();
        }
        loop_post(s->opt.loop, &s->drain); /* sending may have taken note of what the fd had to say */
        return 0;
}

void kernel_socket_hold(struct kernel_socket *s, bool is_held)
{
        if (s->is_held && !is_held)
                loop_post(s->opt.loop, &s->drain);
        s->is_held = is_held;
}

bool kernel_socket_is_held(const struct kernel_socket *s)
{
        return s->is_held;
}

/* ---- life ---- */

static void kernel_socket_release(struct task *t)
{
        free(CONTAINER_OF(t, struct kernel_socket, release));
}

struct kernel_socket *kernel_socket_free(struct kernel_socket *s)
{
        if (!s)
                return NULL;
        loop_del(&s->io);
        loop_unpost(&s->drain);
        monitor_close(s);
        (void)zmq_close(s->handle);
        s->handle = NULL;
        s->release.run = kernel_socket_release;
        loop_post(s->opt.loop, &s->release);
        return NULL;
}

static int set_int(struct kernel_socket *s, int option, int value)
{
        return zmq_setsockopt(s->handle, option, &value, sizeof(value)) < 0 ? -zmq_errno() : 0;
}

static int configure(struct kernel_socket *s)
{
        int64_t cut = 2 * (int64_t)s->opt.bytes_max;
        const char *identity = s->opt.identity;
        bool is_feed = s->opt.kind == KERNEL_SOCKET_FEED;
        int r;

        if ((r = set_int(s, ZMQ_LINGER, 0)) < 0 || (r = set_int(s, ZMQ_RECONNECT_IVL, RECONNECT_MS)) < 0 ||
            (r = set_int(s, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS_MAX)) < 0 ||
            (r = set_int(s, ZMQ_RCVHWM, RECEIVED_MAX)) < 0 || (r = set_int(s, ZMQ_SNDHWM, SENT_MAX)) < 0)
                return r;
        if (zmq_setsockopt(s->handle, ZMQ_MAXMSGSIZE, &cut, sizeof(cut)) < 0)
                return -zmq_errno();
        if (is_feed)
                return zmq_setsockopt(s->handle, ZMQ_SUBSCRIBE, "", 0) < 0 ? -zmq_errno() : 0;
        r = set_int(s, ZMQ_IMMEDIATE, 1); /* nothing is queued for a kernel that does not listen yet */
        if (r < 0)
                return r;
        return zmq_setsockopt(s->handle, ZMQ_ROUTING_ID, identity, strlen(identity)) < 0 ? -zmq_errno() : 0;
}

static int connect_and_watch(struct kernel_socket *s)
{
        char address[ADDRESS_MAX];
        size_t n = sizeof(s->io.fd);

        address_of(s, address);
        if (zmq_connect(s->handle, address) < 0 || zmq_getsockopt(s->handle, ZMQ_FD, &s->io.fd, &n) < 0)
                return -zmq_errno();
        s->io.on = kernel_socket_on_event;
        return loop_add(s->opt.loop, &s->io, EPOLLIN);
}

int kernel_socket_create(const struct kernel_socket_options *opt, struct kernel_socket **ret)
{
        struct kernel_socket *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return -ENOMEM;
        s->opt = *opt;
        s->drain.run = kernel_socket_drain;
        s->handle = zmq_socket(opt->threads->handle, opt->kind == KERNEL_SOCKET_FEED ? ZMQ_SUB : ZMQ_DEALER);
        if (!s->handle) {
                r = -zmq_errno();
                free(s);
                return r;
        }
        s->monitor_io.fd = -1;
        r = configure(s);
        if (r == 0 && opt->kind == KERNEL_SOCKET_FEED)
                r = monitor_open(s);
        if (r == 0)
                r = connect_and_watch(s);
        if (r < 0) {
                monitor_close(s);
                (void)zmq_close(s->handle);
                free(s);
                return r;
        }
        loop_post(opt->loop, &s->drain);
        *ret = s;
        return 0;
}
