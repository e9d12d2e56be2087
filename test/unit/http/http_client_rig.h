/* http_client_rig.h - calls of http/client.h in the test's own loop, and the other end of their connection. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "http/client.h"

#include "tap.h"

static struct loop *loop;

/* ---- what callbacks were told ---- */

static struct {
        unsigned heads, pieces, ends;
        char body[200000];
        size_t body_len;
        struct err why;      /* of the last end; ERR_NONE: complete */
        size_t take_most;    /* per piece; 0: all */
        const char *to_send; /* what on_send gives */
        size_t send_most;    /* per call; 0: all that fits */
        uint64_t sent;
        bool sends_slowly; /* every other time there is nothing */
        bool was_slow;
        bool frees_in_head, frees_in_data, frees_in_send;
        struct http_call *call;
} told;

static void on_head(struct http_call *call, void *arg)
{
        (void)arg;
        told.heads++;
        if (told.frees_in_head)
                told.call = http_call_free(call);
}
static size_t on_data(struct http_call *call, struct str piece, void *arg)
{
        size_t n = told.take_most && told.take_most < piece.n ? told.take_most : piece.n;

        (void)arg;
        told.pieces++;
        if (told.body_len + n < sizeof(told.body))
                memcpy(told.body + told.body_len, piece.p, n);
        told.body_len += n;
        if (told.frees_in_data)
                told.call = http_call_free(call);
        return n;
}
static void on_end(struct http_call *call, const struct err *why, void *arg)
{
        (void)call;
        (void)arg;
        told.ends++;
        told.why = why ? *why : (struct err){0};
}
static ssize_t on_send(struct http_call *call, void *p, size_t n, void *arg)
{
        size_t left = strlen(told.to_send);

        (void)arg;
        if (told.frees_in_send) {
                told.call = http_call_free(call);
                return 0;
        }
        told.was_slow = told.sends_slowly && !told.was_slow;
        if (told.was_slow)
                return -EAGAIN;
        n = left < n ? left : n;
        n = told.send_most && told.send_most < n ? told.send_most : n;
        memcpy(p, told.to_send, n);
        told.to_send += n;
        told.sent += n;
        return (ssize_t)n;
}

/* ---- the loop ---- */

static void stop_task(struct task *t)
{
        (void)t;
        loop_stop(loop);
}
static void turns(int n)
{
        while (n--) {
                struct task t = {.run = stop_task};

                loop_post(loop, &t);
                (void)loop_run(loop);
        }
}
/* Until the call has ended: its timeouts see to it. */
__attribute__((unused)) static void run_to_end(void)
{
        while (!told.ends) {
                turns(1);
        }
}

/* ---- a client with one end of a socket pair ---- */

struct rig {
        struct http_client *client;
        int server; /* the other end */
};

static void rig_done(struct rig *r)
{
        told.call = http_call_free(told.call);
        r->client = http_client_free(r->client);
        close_fd(&r->server);
}
#define AUTO_RIG AUTO(rig_done)

static int rig_give(struct rig *r)
{
        int p[2];

        close_fd(&r->server);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) < 0 || fcntl(p[1], F_SETFL, O_RDWR | O_NONBLOCK) < 0)
                return -errno;
        r->server = p[1];
        return http_client_give(r->client, p[0], NULL);
}

static int rig_open(struct rig *r, struct http_timeouts timeouts)
{
        const struct http_client_options opt = {
                .loop = loop, .url = "http://box.test:81", .uses_given_connection = true, .timeouts = timeouts};

        memset(&told, 0, sizeof(told));
        return http_client_create(&opt, &r->client, NULL) < 0 ? -1 : rig_give(r);
}

static struct http_call_options get_options(void)
{
        return (struct http_call_options){.method = "GET",
                                          .target = "/a?b=c",
                                          .send_bytes = -1,
                                          .on_head = on_head,
                                          .on_data = on_data,
                                          .on_end = on_end};
}
static int start(struct rig *r, const struct http_call_options *opt)
{
        struct err e = {0};
        int n = http_call_start(r->client, opt, &told.call, &e);

        if (n < 0)
                printf("# %s\n", e.msg);
        turns(3);
        return n;
}
static int start_get(struct rig *r)
{
        const struct http_call_options opt = get_options();

        return start(r, &opt);
}

/* ---- the server's side ---- */

static void say_n(struct rig *r, const char *p, size_t n)
{
        if (write(r->server, p, n) != (ssize_t)n)
                tap_case_failed = 1;
        turns(4);
}
static void say(struct rig *r, const char *text)
{
        say_n(r, text, strlen(text));
}
static void hang_up(struct rig *r)
{
        close_fd(&r->server);
        turns(4);
}
/* What has arrived; ends in "<EOF>" when the client closed. */
static const char *heard(struct rig *r)
{
        static char text[200000];
        size_t n = 0;
        ssize_t got;

        while ((got = read(r->server, text + n, sizeof(text) - n - 6)) > 0) {
                n += (size_t)got;
                turns(2);
        }
        memcpy(text + n, got == 0 ? "<EOF>" : "", got == 0 ? 6 : 1);
        return text;
}
__attribute__((unused)) static const char *body(void)
{
        told.body[told.body_len < sizeof(told.body) ? told.body_len : sizeof(told.body) - 1] = 0;
        return told.body;
}
