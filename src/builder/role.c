#include "builder/role.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "builder/step.h"
#include "io/channel.h"
#include "io/listener.h"
#include "model/conf.h"

#define IDLE_MS 60000u
#define PEERS_MAX 64u

struct builder {
        struct loop *loop; /* owned */
        struct listener listener;
        struct list peers;
        size_t peer_count;
        struct timer idle;
        uint32_t idle_ms;
};

struct peer { /* a connection of control */
        struct list node;
        struct builder *builder;
        struct channel *channel; /* owned */
        struct list steps;       /* struct step */
};

/* A connection that waits in the backlog starts the role again, so the moment of the end loses nothing. */
static void builder_is_idle(struct timer *t)
{
        struct builder *b = CONTAINER_OF(t, struct builder, idle);

        log_info("builder.idle", "ms=%u", b->idle_ms);
        loop_stop(b->loop);
}

static void peer_free(struct peer *p)
{
        struct builder *b = p->builder;

        LIST_EACH (at, &p->steps)
                step_abandon(LIST_ENTRY(at, struct step, node));
        list_remove(&p->node);
        p->channel = channel_free(p->channel);
        free(p);
        b->peer_count--;
        if (list_is_empty(&b->peers))
                timer_set(b->loop, &b->idle, b->idle_ms);
}

static void peer_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        struct peer *p = arg;

        step_begin(p->builder->loop, ch, &p->steps, msg, fds, nfds);
}

static void peer_closed(struct channel *ch, const char *reason, void *arg)
{
        (void)ch;
        log_debug("builder.peer_closed", "reason=\"%s\"", reason);
        peer_free(arg);
}

static void builder_accept(struct listener *ln, int fd)
{
        static const struct channel_ops ops = {.on_message = peer_message, .on_close = peer_closed};
        struct builder *b = ln->arg;
        struct peer *p = b->peer_count < PEERS_MAX ? calloc(1, sizeof(*p)) : NULL;

        if (!p) {
                (void)close(fd);
                return;
        }
        p->builder = b;
        list_init(&p->steps);
        if (channel_create(b->loop, fd, &ops, p, &p->channel) < 0) {
                free(p);
                return;
        }
        b->peer_count++;
        list_push_back(&b->peers, &p->node);
        timer_clear(&b->idle);
}

static void builder_signal(int signo, void *arg)
{
        (void)signo;
        loop_stop(((struct builder *)arg)->loop);
}

static int builder_start(struct builder *b, int fd, struct err *err)
{
        static const int signals[] = {SIGTERM, SIGINT, 0};
        int r;

        r = loop_create(&b->loop);
        if (r == 0)
                r = loop_signals(b->loop, signals, builder_signal, b);
        if (r < 0)
                return err_sys(err, r, "event loop");
        r = listener_start(&b->listener, b->loop, fd, builder_accept, b);
        if (r < 0)
                return err_sys(err, r, "listen on fd %d", fd);
        b->idle.on = builder_is_idle;
        timer_set(b->loop, &b->idle, b->idle_ms);
        return 0;
}

int builder_serve(int listen_fd, uint32_t idle_ms)
{
        struct builder b = {.idle_ms = idle_ms, .listener.io.fd = -1};
        struct err err = {0};
        int r;

        list_init(&b.peers);
        r = builder_start(&b, listen_fd, &err);
        if (r == 0) {
                log_info("builder.ready", "idle_ms=%u", idle_ms);
                r = loop_run(b.loop);
                if (r < 0)
                        (void)err_sys(&err, r, "event loop");
        }
        if (r < 0)
                log_error("builder.failed", "reason=\"%s\"", err.msg);
        LIST_EACH (at, &b.peers)
                peer_free(LIST_ENTRY(at, struct peer, node));
        timer_clear(&b.idle);
        if (b.listener.io.loop)
                listener_stop(&b.listener);
        b.loop = loop_free(b.loop);
        return r < 0 ? 1 : 0;
}

int builder_main(const struct conf *conf)
{
        (void)signal(SIGPIPE, SIG_IGN);
        (void)mallopt(M_ARENA_MAX, 1);
        return builder_serve(conf->fds.builder, IDLE_MS);
}
