/* An HTTP/2 connection: any frames from the client, any bytes from the upstreams.  Whatever comes, nothing is left
 * behind when the connection is gone.
 * Input: the number of bytes (two of them) that each upstream answers with, those bytes, and the client's, behind a
 * proper greeting. */
#include <fcntl.h>
#include <sys/socket.h>

#include "edge/route/dial.h"
#include "edge/proxy/edge.h"
#include "edge/http2/h2_session.h"
#include "edge/route/routes.h"
#include "edge/route/upstream.h"
#include "fuzz.h"

#define UPSTREAMS 3
#define ROUNDS 24
#define GREETING "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"

static struct edge edge;

struct rounds { /* of the loop, then it ends */
        struct task task;
        unsigned left;
};

static void on_round(struct task *t)
{
        struct rounds *r = CONTAINER_OF(t, struct rounds, task);

        if (--r->left)
                loop_post(edge.loop, t);
        else
                loop_stop(edge.loop);
}

static void turn(unsigned rounds)
{
        struct rounds r = {.task = {.run = on_round}, .left = rounds};

        loop_post(edge.loop, &r.task);
        MUST(loop_run(edge.loop) == 0);
}

static void pair(int fd[2])
{
        MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) == 0);
}

static void start(void)
{
        static struct conf conf = {.data_dir = (char *)"/nonexistent", .domain = (char *)"box.test"};
        static struct edge_limits limits;

        limits = edge_limits_default;
        limits.clients_max = 100;
        edge.conf = &conf;
        edge.limits = &limits;
        edge.clients_max = 100;
        list_init(&edge.conns);
        buf_init(&edge.out, 56 << 10);
        MUST(loop_create(&edge.loop) == 0);
        edge.h2 = h2_setup_create(&edge);
        MUST(edge.h2);
        upstream_pool_init(&edge.upstreams,
                           &(struct upstream_pool_options){.loop = edge.loop,
                                                           .limits = &limits,
                                                           .blocks = &edge.blocks,
                                                           .role_paths = {"/nonexistent/api", "/nonexistent/agent"}});
        MUST(routes_start(&edge.routes, edge.loop, &conf, &limits) == 0);
        MUST(dial_start(&edge.dialler, edge.loop, &conf, limits.dials_max) == 0);
}

static void no_stream(struct stream *s, uint32_t events)
{
        (void)s;
        (void)events;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        int ups[UPSTREAMS], fd[2];
        struct stream first;
        size_t said;

        if (size < 2)
                return 0;
        if (!edge.loop)
                start();
        said = (size_t)data[0] << 8 | data[1];
        data += 2;
        size -= 2;
        said = said < size ? said : size;
        for (int i = 0; i < UPSTREAMS; i++) {
                struct upstream *u;

                pair(fd);
                u = upstream_create(&edge.upstreams, fd[0], NULL, 0);
                MUST(u);
                upstream_keep(u);
                ups[i] = fd[1];
        }
        pair(fd);
        MUST(stream_init(&first, edge.loop, fd[0], NULL, no_stream) == 0);
        h2_session_take_over(&edge, &first, GREETING, sizeof(GREETING) - 1);
        (void)!write(fd[1], data + said, size - said);
        turn(ROUNDS / 2);
        for (int i = 0; i < UPSTREAMS; i++) {
                (void)!write(ups[i], data, said);
                if (i)
                        (void)shutdown(ups[i], SHUT_WR);
        }
        turn(ROUNDS / 2);
        close_fd(&fd[1]);
        turn(4);
        while (!list_is_empty(&edge.conns)) { /* one that lingers */
                struct client_conn *n = LIST_ENTRY(edge.conns.next, struct client_conn, node);

                n->ops->cut(n);
        }
        upstream_pool_done(&edge.upstreams);
        for (int i = 0; i < UPSTREAMS; i++)
                close_fd(&ups[i]);
        turn(3);
        MUST(edge.client_count == 0 && edge.h2_waiting == 0 && edge.dialler.count == 0 &&
             edge.upstreams.idle_count == 0);
        return 0;
}
