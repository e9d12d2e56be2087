#include "interpreter/service/envs_fetch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "wire/http1.h"

#define ANSWER_MAX (4u << 20)
#define FETCH_MS_MAX 3000
#define READ_PIECE 16384

struct envs_fetch {
        struct loop *loop;
        struct io io;
        struct timer timer;
        struct task end;
        struct buf out, in;
        void (*on_done)(json_t *variables, void *arg);
        void *arg;
        json_t *result; /* for the end task */
};

int envs_parse_url(const char *url, struct sockaddr_in *ret, struct err *err)
{
        struct str rest = str_of(url), host;
        struct sockaddr_in to = {.sin_family = AF_INET};
        char address[INET_ADDRSTRLEN];
        uint32_t port;

        if (!str_starts(rest, "http://"))
                return err_set(err, ERR_INVALID, "'%s' does not begin with http://", url);
        rest = (struct str){rest.p + 7, rest.n - 7};
        if (str_ends(rest, "/"))
                rest.n--;
        if (!str_cut(&rest, ':', &host) || parse_u32(rest, 1, 65535, &port) < 0 || host.n >= sizeof(address))
                return err_set(err, ERR_INVALID, "'%s' has no port", url);
        if (str_is(host, "localhost"))
                host = STR("127.0.0.1");
        memcpy(address, host.p, host.n);
        address[host.n] = 0;
        if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
                return err_set(err, ERR_INVALID, "'%s' has no IPv4 address, nor localhost", url);
        to.sin_port = htons((uint16_t)port);
        *ret = to;
        return 0;
}

static void fetch_free(struct envs_fetch *f)
{
        loop_del(&f->io);
        close_fd(&f->io.fd);
        timer_clear(&f->timer);
        loop_unpost(&f->end);
        buf_done(&f->out);
        buf_done(&f->in);
        json_decref(f->result);
        free(f);
}

static void fetch_run_end(struct task *t)
{
        struct envs_fetch *f = CONTAINER_OF(t, struct envs_fetch, end);
        json_t *result = TAKE_PTR(f->result);
        void (*on_done)(json_t *, void *) = f->on_done;
        void *arg = f->arg;

        fetch_free(f);
        on_done(result, arg);
}

static void fetch_end(struct envs_fetch *f, json_t *result)
{
        loop_del(&f->io);
        timer_clear(&f->timer);
        json_decref(f->result);
        f->result = result;
        loop_post(f->loop, &f->end);
}

/* ---- the answer ---- */

static json_t *parse_variables(const struct buf *body)
{
        json_t *o = json_loadb((const char *)buf_at(body), body->len, JSON_ALLOW_NUL, NULL);

        if (o && json_is_object(o))
                return o;
        json_decref(o);
        return NULL;
}

/* true: the answer is complete (or will never be), and *ret is what it says. */
static bool parse_answer(struct envs_fetch *f, bool has_ended, json_t **ret)
{
        AUTO_BUF struct buf body = BUF_INIT(ANSWER_MAX);
        struct http1_head head = {0};
        struct http1_body framing;
        const uint8_t *at = buf_at(&f->in);
        size_t left = f->in.len, used;
        enum http1_step step = http1_parse_response(&head, at, left, false, &used);

        *ret = NULL;
        if (step != HTTP1_DONE || head.status != 200)
                return step != HTTP1_MORE || has_ended;
        http1_body_init(&framing, &head);
        while (!http1_body_is_done(&framing)) {
                struct str data;

                at += used;
                left -= used;
                step = http1_body_feed(&framing, at, left, &used, &data);
                if (step == HTTP1_DATA && buf_add(&body, data.p, data.n) < 0)
                        return true;
                if (step == HTTP1_DONE)
                        break;
                if (step == HTTP1_MORE && !has_ended)
                        return false;
                if (step == HTTP1_MORE && framing.framing == HTTP1_BODY_EOF)
                        break;
                if (step != HTTP1_DATA)
                        return true;
        }
        *ret = parse_variables(&body);
        return true;
}

static void fetch_read(struct envs_fetch *f)
{
        json_t *result;
        ssize_t n = buf_fill(&f->in, f->io.fd, READ_PIECE);

        if (n == -EAGAIN)
                return;
        if (n < 0)
                fetch_end(f, NULL);
        else if (parse_answer(f, n == 0, &result))
                fetch_end(f, result);
}

static void fetch_ready(struct io *io, uint32_t events)
{
        struct envs_fetch *f = CONTAINER_OF(io, struct envs_fetch, io);
        ssize_t n;

        if (f->out.len && (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))) {
                n = buf_drain(&f->out, f->io.fd);
                if (n < 0 && n != -EAGAIN) {
                        fetch_end(f, NULL);
                        return;
                }
                if (f->out.len == 0)
                        loop_want(&f->io, EPOLLIN);
        } else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                fetch_read(f);
        }
}

static void fetch_too_slow(struct timer *t)
{
        fetch_end(CONTAINER_OF(t, struct envs_fetch, timer), NULL);
}

/* ---- the request ---- */

static int write_request(struct buf *out, struct str token)
{
        int r = http1_write_request_line(out, STR("GET"), STR("/envs"));

        if (r == 0)
                r = http1_write_header(out, STR("Host"), STR("localhost"));
        if (r == 0)
                r = http1_write_header(out, STR("Connection"), STR("close"));
        if (r == 0 && token.n)
                r = http1_write_header(out, STR("X-Access-Token"), token);
        return r < 0 ? r : http1_write_end(out);
}

int envs_fetch_start(struct loop *loop, const struct sockaddr_in *envd, struct str token,
                     void (*on_done)(json_t *variables, void *arg), void *arg, struct envs_fetch **ret)
{
        struct envs_fetch *f = calloc(1, sizeof(*f));
        int r;

        if (!f)
                return -ENOMEM;
        *f = (struct envs_fetch){.loop = loop,
                                 .io = {.on = fetch_ready},
                                 .timer = {.on = fetch_too_slow},
                                 .end = {.run = fetch_run_end},
                                 .out = BUF_INIT(HTTP1_HEAD_MAX),
                                 .in = BUF_INIT(ANSWER_MAX),
                                 .on_done = on_done,
                                 .arg = arg};
        f->io.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        r = f->io.fd < 0 ? -errno : write_request(&f->out, token);
        if (r == 0 && connect(f->io.fd, (const struct sockaddr *)envd, sizeof(*envd)) < 0 && errno != EINPROGRESS)
                r = -errno;
        if (r == 0)
                r = loop_add(loop, &f->io, EPOLLOUT);
        if (r < 0) {
                fetch_free(f);
                return r;
        }
        timer_set(loop, &f->timer, FETCH_MS_MAX);
        *ret = f;
        return 0;
}

struct envs_fetch *envs_fetch_cancel(struct envs_fetch *f)
{
        if (f)
                fetch_free(f);
        return NULL;
}
