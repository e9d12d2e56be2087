/* An HTTP client and any bytes from its server: each call ends once, nothing is left behind, and how the bytes were cut
 * into pieces makes no difference.
 * Input: one byte (bit 0: the request is HEAD, bit 1: the reader takes one byte at a time), then what the server sends
 * before it closes. */
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "fuzz.h"
#include "http/client.h"

static struct loop *loop;

struct outcome {
        unsigned ends, heads, status;
        enum err_kind kind;
        uint64_t body_len, body_sum;
        bool takes_one;
};

static void on_head(struct http_call *call, void *arg)
{
        struct outcome *o = arg;

        o->heads++;
        o->status = http_call_head(call)->status;
}

static size_t on_data(struct http_call *call, struct str piece, void *arg)
{
        struct outcome *o = arg;
        size_t n = o->takes_one ? 1 : piece.n;

        (void)call;
        MUST(piece.n > 0);
        for (size_t i = 0; i < n; i++)
                o->body_sum = o->body_sum * 31 + (uint8_t)piece.p[i];
        o->body_len += n;
        if (n < piece.n)
                http_call_resume(call);
        return n;
}

static void on_end(struct http_call *call, const struct err *why, void *arg)
{
        struct outcome *o = arg;

        (void)call;
        o->ends++;
        o->kind = why ? why->kind : ERR_NONE;
        loop_stop(loop);
}

static void on_turn(struct task *t)
{
        (void)t;
        loop_stop(loop);
}

static void turn(void)
{
        struct task t = {.run = on_turn};

        loop_post(loop, &t);
        MUST(loop_run(loop) == 0);
        loop_unpost(&t);
}

static struct outcome try(const uint8_t *p, size_t n, unsigned flags, struct fuzz_cuts *cuts)
{
        const struct http_client_options opt = {.loop = loop, .url = "http://box.test", .uses_given_connection = true};
        struct outcome o = {.takes_one = flags & 2};
        struct http_client *client;
        struct http_call *call;
        char sink[1024];
        int fd[2];

        MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) == 0);
        MUST(http_client_create(&opt, &client, NULL) == 0 && http_client_give(client, fd[0], NULL) == 0);
        MUST(http_call_start(client,
                             &(struct http_call_options){.method = flags & 1 ? "HEAD" : "GET",
                                                         .target = "/",
                                                         .on_head = on_head,
                                                         .on_data = on_data,
                                                         .on_end = on_end,
                                                         .arg = &o},
                             &call, NULL) == 0);
        turn();
        MUST(read(fd[1], sink, sizeof(sink)) > 0);
        for (size_t at = 0; at < n && !o.ends;) {
                size_t piece = cuts ? fuzz_cut(cuts, n - at) : n - at;
                ssize_t done = send(fd[1], p + at, piece, MSG_NOSIGNAL);

                at += done > 0 ? (size_t)done : 0;
                turn();
        }
        close_fd(&fd[1]);
        while (!o.ends)
                MUST(loop_run(loop) == 0);
        call = http_call_free(call);
        client = http_client_free(client);
        MUST(o.ends == 1 && o.heads <= 1 && (o.heads == 1 || o.body_len == 0));
        MUST(!(flags & 1) || o.body_len == 0);
        MUST(o.kind == ERR_NONE || o.kind == ERR_INTERNAL || o.kind == ERR_UNAVAILABLE);
        return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct outcome whole;

        if (size < 1 || size > 100000)
                return 0;
        if (!loop)
                MUST(loop_create(&loop) == 0);
        whole = try(data + 1, size - 1, data[0], NULL);
        for (unsigned way = size > 4096; way < FUZZ_WAYS; way++) {
                struct fuzz_cuts cuts = fuzz_cuts_of(data, size, way);
                struct outcome pieces = try(data + 1, size - 1, data[0], &cuts);

                MUST(pieces.kind == whole.kind && pieces.status == whole.status && pieces.heads == whole.heads);
                MUST(pieces.body_len == whole.body_len && pieces.body_sum == whole.body_sum);
        }
        return 0;
}
