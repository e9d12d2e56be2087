#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "fault.h"
#include "http/client.h"

static struct loop *loop;

/* ---- calls that must end once, with the whole answer or with a reason ---- */

static unsigned ends;
static size_t body_len;
static struct err last;

static size_t on_data(struct http_call *call, struct str piece, void *arg)
{
        (void)call;
        (void)arg;
        body_len += piece.n;
        return piece.n;
}
static void on_end(struct http_call *call, const struct err *why, void *arg)
{
        (void)call;
        (void)arg;
        ends++;
        last = why ? *why : (struct err){0};
}
static ssize_t on_send(struct http_call *call, void *p, size_t n, void *arg)
{
        int *left = arg;

        (void)call;
        if (*left == 0)
                return 0;
        (*left)--;
        memset(p, 's', n);
        return (ssize_t)n;
}

static void stop(struct task *t)
{
        (void)t;
        loop_stop(loop);
}
static void turns(int n)
{
        while (n--) {
                struct task t = {.run = stop};

                loop_post(loop, &t);
                (void)loop_run(loop);
        }
}

/* The server reads what comes and answers once. */
static int answer(int fd, const char *text)
{
        static char sink[1 << 20];

        for (int i = 0; i < 20; i++) {
                turns(1);
                (void)!read(fd, sink, sizeof(sink));
        }
        if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
                return fault_was_hit() ? -EPIPE : BROKEN("the client is gone");
        turns(10);
        return 0;
}

static int converse(struct http_client *c, int server)
{
        static const struct {
                const char *answer;
                bool is_streamed;
                size_t body_len;
        } all[] = {
                {"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello", false, 5},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", true, 3},
                {"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", false, 0},
        };
        const struct http_header headers[] = {{"X-A", "b"}, {NULL, NULL}};
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_LEN(all); i++) {
                struct http_call *call = NULL;
                struct err err = {0};
                int pieces = 5;

                ends = 0;
                body_len = 0;
                r = http_call_start(c,
                                    &(struct http_call_options){.method = "PUT",
                                                                .target = "/x",
                                                                .headers = headers,
                                                                .body = STR("body"),
                                                                .on_send = all[i].is_streamed ? on_send : NULL,
                                                                .send_bytes = -1,
                                                                .on_data = on_data,
                                                                .on_end = on_end,
                                                                .arg = &pieces},
                                    &call, &err);
                if (r < 0) {
                        MUST(err.msg[0] && err.kind != ERR_NONE);
                        return r;
                }
                r = answer(server, all[i].answer);
                if (r == 0 && last.kind != ERR_NONE)
                        r = -EIO;
                MUST(ends == 1);
                MUST(r < 0 || body_len == all[i].body_len);
                MUST(last.kind == ERR_NONE || last.msg[0]);
                call = http_call_free(call);
        }
        return r;
}

static int every_call_ends_once(void)
{
        struct http_client_options opt = {.url = "http://box.test:81", .uses_given_connection = true};
        struct http_client *c = NULL;
        struct err err = {0};
        int p[2], r;

        r = loop_create(&loop);
        opt.loop = loop;
        if (r == 0)
                r = http_client_create(&opt, &c, &err);
        if (r == 0) {
                if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) < 0)
                        return BROKEN("socketpair");
                r = http_client_give(c, p[0], &err);
                if (r == 0)
                        r = converse(c, p[1]);
                close_fd(&p[1]);
        }
        c = http_client_free(c);
        loop = loop_free(loop);
        return r;
}

static int a_blocking_call_fails_in_an_orderly_way(void)
{
        const struct http_client_options opt = {.url = "http://127.0.0.1:80", .unix_path = "/nonexistent/socket"};
        const struct http_call_options call = {.method = "GET", .target = "/"};
        struct http_answer a = {0};
        struct http_client *c = NULL;
        struct err err = {0};
        int r = http_client_create(&opt, &c, &err);

        if (r == 0) {
                r = http_client_run(c, &call, 100, &a, &err);
                MUST(r < 0 && err.msg[0]);
                if (err.kind == ERR_UNAVAILABLE) /* there is no such socket: as it should be */
                        r = 0;
        }
        c = http_client_free(c);
        return r;
}

int main(void)
{
        EACH(every_call_ends_once);
        EACH(a_blocking_call_fails_in_an_orderly_way);
        return fault_done();
}
