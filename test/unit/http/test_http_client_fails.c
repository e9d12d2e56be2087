/* What goes wrong: every wait has an end, and what is not HTTP, too long or cut off is never taken for an answer. */
#include "http_client_rig.h"

#include <ftw.h>
#include <sys/stat.h>

#include "io/listener.h"
#include "io/stream.h"
#include "io/tls.h"

#define SHORT_MS 20u

/* ---- answers ---- */

static void broken_answers_are_refused(void)
{
        static const struct {
                const char *answer;
                const char *said;
        } cases[] = {
                {"SSH-2.0-OpenSSH_9\r\n", "not HTTP"},
                {"HTTP/2.0 200 OK\r\n\r\n", "not HTTP"},
                {"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", "not HTTP"},
                {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", "not HTTP"},
                {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", "not HTTP"},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "not HTTP"},
                {"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n", "not HTTP"},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "broken body"},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhiii\r\n", "broken body"},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n", "broken body"},
                {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "status 101"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_RIG struct rig r = {.server = -1};

                CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
                CHECK_INT(start_get(&r), ==, 0);
                say(&r, cases[i].answer);
                if (told.ends != 1 || !strstr(told.why.msg, cases[i].said))
                        printf("# case %zu: %s\n", i, told.why.msg);
                CHECK_INT(told.ends, ==, 1);
                CHECK_INT(told.why.kind, ==, ERR_INTERNAL);
                CHECK(strstr(told.why.msg, cases[i].said));
                CHECK(strstr(heard(&r), "<EOF>"));
        }
}

static void an_endless_head_is_refused(void)
{
        AUTO_RIG struct rig r = {.server = -1};
        char line[1000];

        (void)snprintf(line, sizeof(line), "X-A: %0980d\r\n", 0);
        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        CHECK_INT(start_get(&r), ==, 0);
        say(&r, "HTTP/1.1 200 OK\r\n");
        for (int i = 0; i < 100 && !told.ends; i++)
                say(&r, line);
        CHECK_INT(told.ends, ==, 1);
        CHECK_INT(told.why.kind, ==, ERR_INTERNAL);
        CHECK(strstr(told.why.msg, "head too big"));
}

static void endless_interim_answers_are_refused(void)
{
        AUTO_RIG struct rig r = {.server = -1};

        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        CHECK_INT(start_get(&r), ==, 0);
        for (int i = 0; i < 100 && !told.ends; i++)
                say(&r, "HTTP/1.1 103 Early Hints\r\n\r\n");
        CHECK_INT(told.ends, ==, 1);
        CHECK_INT(told.why.kind, ==, ERR_INTERNAL);
        CHECK_INT(told.heads, ==, 0);
}

static void an_answer_that_is_cut_off_is_no_answer(void)
{
        static const char *const answers[] = {
                "",
                "HTTP/1.1 200",
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n",
        };

        for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
                AUTO_RIG struct rig r = {.server = -1};

                CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
                CHECK_INT(start_get(&r), ==, 0);
                (void)heard(&r); /* else the end is a reset */
                say(&r, answers[i]);
                CHECK_INT(told.ends, ==, 0);
                hang_up(&r);
                CHECK_INT(told.ends, ==, 1);
                CHECK_INT(told.why.kind, ==, ERR_UNAVAILABLE);
        }
}

static void a_request_whose_body_fails_or_is_short_ends(void)
{
        AUTO_RIG struct rig r = {.server = -1};
        struct http_call_options opt = get_options();

        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        opt.method = "PUT";
        opt.on_send = on_send;
        opt.send_bytes = 10;
        told.to_send = "abc";
        CHECK_INT(start(&r, &opt), ==, 0);
        CHECK_INT(told.ends, ==, 1);
        CHECK_INT(told.why.kind, ==, ERR_INTERNAL);
        CHECK(strstr(told.why.msg, "7 bytes early"));
        CHECK(strstr(heard(&r), "<EOF>"));
}

/* ---- time ---- */

static void a_silent_server_is_given_up(void)
{
        static const char *const answers[] = {"", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi"};

        for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
                AUTO_RIG struct rig r = {.server = -1};

                CHECK_INT(rig_open(&r, (struct http_timeouts){.idle_ms = SHORT_MS}), ==, 0);
                CHECK_INT(start_get(&r), ==, 0);
                say(&r, answers[i]);
                CHECK_INT(told.ends, ==, 0);
                run_to_end();
                CHECK_INT(told.why.kind, ==, ERR_TIMEOUT);
                CHECK_STR(told.why.msg, "box.test:81 was silent for 0.02 s");
        }
}

static void a_server_that_does_not_read_is_given_up(void)
{
        static char flood[8 << 20];
        AUTO_RIG struct rig r = {.server = -1};
        struct http_call_options opt = get_options();

        memset(flood, 'f', sizeof(flood) - 1);
        CHECK_INT(rig_open(&r, (struct http_timeouts){.idle_ms = SHORT_MS}), ==, 0);
        opt.method = "PUT";
        opt.body = (struct str){flood, sizeof(flood)};
        CHECK_INT(start(&r, &opt), ==, 0);
        run_to_end();
        CHECK_INT(told.why.kind, ==, ERR_TIMEOUT);
}

/* Bytes keep coming, so it is never silent; the caller's patience has an end all the same. */
static void a_trickle_is_ended_by_the_total_time(void)
{
        AUTO_RIG struct rig r = {.server = -1};

        CHECK_INT(rig_open(&r, (struct http_timeouts){.idle_ms = 10000, .total_ms = 2 * SHORT_MS}), ==, 0);
        CHECK_INT(start_get(&r), ==, 0);
        say(&r, "HTTP/1.1 200 OK\r\n\r\n");
        while (!told.ends && write(r.server, "x", 1) == 1)
                turns(1);
        CHECK_INT(told.ends, ==, 1);
        CHECK_INT(told.why.kind, ==, ERR_TIMEOUT);
        CHECK_STR(told.why.msg, "no answer from box.test:81 within 0.04 s");
        CHECK_INT(told.pieces, >, 0);
}

static void a_connection_that_is_not_made_is_given_up(void)
{
        AUTO_RIG struct rig r = {.server = -1};
        AUTO_CLOSE int refused = -1;
        struct http_client_options opt = {
                .loop = loop, .url = "http://127.0.0.1:1", .timeouts = {.connect_ms = SHORT_MS}};
        uint16_t port = 0;
        char url[64];

        /* A port that was just given back refuses. */
        memset(&told, 0, sizeof(told));
        CHECK_INT(listen_tcp(STR("127.0.0.1:0"), false, &refused, NULL), ==, 0);
        CHECK_INT(socket_port(refused, &port), ==, 0);
        close_fd(&refused);
        (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
        opt.url = url;
        CHECK_INT(http_client_create(&opt, &r.client, NULL), ==, 0);
        CHECK_INT(start_get(&r), ==, 0);
        run_to_end();
        CHECK_INT(told.why.kind, ==, ERR_UNAVAILABLE);
        CHECK_INT(told.why.sys, ==, ECONNREFUSED);
        rig_done(&r);

        /* No such socket. */
        memset(&told, 0, sizeof(told));
        opt.unix_path = "/nonexistent/socket";
        CHECK_INT(http_client_create(&opt, &r.client, NULL), ==, 0);
        CHECK_INT(start_get(&r), ==, 0);
        run_to_end();
        CHECK_INT(told.why.kind, ==, ERR_UNAVAILABLE);
        CHECK_INT(told.why.sys, ==, ENOENT);
}

/* ---- TLS ---- */

static char dir[] = "/tmp/http-client-tls-XXXXXX";

static const char *in_dir(const char *name)
{
        static char path[16][120]; /* the last few stay */
        static unsigned next;
        char *p = path[next++ % 16];

        (void)snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
        return p;
}

struct tls_server { /* answers once it has read something */
        struct stream s;
        bool is_told, ends_properly;
        size_t got;
        const char *answer;
};

static void tls_server_ready(struct stream *s, uint32_t events)
{
        struct tls_server *v = CONTAINER_OF(s, struct tls_server, s);
        char bytes[4096];
        ssize_t n = stream_read(s, bytes, sizeof(bytes));

        (void)events;
        if (n > 0)
                v->got += (size_t)n;
        if (n > 0 && !v->is_told) {
                v->is_told = true;
                (void)stream_write(s, v->answer, strlen(v->answer));
                if (v->ends_properly)
                        stream_shutdown_write(s);
        } else if (n != -EAGAIN) {
                loop_del(&s->io);
        }
}

struct tls_case {
        const char *name, *ca, *answer;
        bool ends_properly, hangs_up;
        enum err_kind kind;
};

static void tls_call(const struct tls_case *k)
{
        AUTO_RIG struct rig r = {.server = -1};
        struct tls_server v = {.s.io.fd = -1, .ends_properly = k->ends_properly, .answer = k->answer};
        struct tls_context *server_tls = NULL, *client_tls = NULL;
        char url[64];
        int p[2];

        (void)snprintf(url, sizeof(url), "https://%s", k->name);
        CHECK_INT(tls_context_create(
                          &(struct tls_options){.cert_pem_path = in_dir("cert.pem"), .key_pem_path = in_dir("key.pem")},
                          &server_tls, NULL),
                  ==, 0);
        CHECK_INT(tls_client_context_create(k->ca, &client_tls, NULL), ==, 0);
        CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p), ==, 0);
        CHECK_INT(stream_init(&v.s, loop, p[1], server_tls, tls_server_ready), ==, 0);
        stream_want(&v.s, EPOLLIN);
        memset(&told, 0, sizeof(told));
        CHECK_INT(http_client_create(&(struct http_client_options){.loop = loop,
                                                                   .url = url,
                                                                   .uses_given_connection = true,
                                                                   .tls = client_tls,
                                                                   .timeouts = {.total_ms = 5000}},
                                     &r.client, NULL),
                  ==, 0);
        CHECK_INT(http_client_give(r.client, p[0], NULL), ==, 0);
        CHECK_INT(start_get(&r), ==, 0);
        for (int i = 0; i < 1000 && !(k->hangs_up && v.is_told) && !told.ends; i++)
                turns(1);
        if (k->hangs_up)
                stream_done(&v.s);
        run_to_end();
        if (told.why.kind != k->kind)
                printf("# %s: %s\n", k->name, told.why.msg);
        CHECK_INT(told.why.kind, ==, k->kind);
        if (k->kind == ERR_DENIED) {
                CHECK_INT(v.got, ==, 0);
                CHECK(strstr(told.why.msg, "is not trusted: "));
        }
        rig_done(&r);
        stream_done(&v.s);
        server_tls = tls_context_free(server_tls);
        client_tls = tls_context_free(client_tls);
}

static void a_server_proves_its_name(void)
{
        static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        static const char until_end[] = "HTTP/1.1 200 OK\r\n\r\nhi";
        const struct tls_case cases[] = {
                {.name = "localhost", .ca = in_dir("ca.pem"), .answer = answer},
                {.name = "127.0.0.1", .ca = in_dir("ca.pem"), .answer = answer},
                {.name = "a.localhost", .ca = in_dir("ca.pem"), .answer = answer},
                {.name = "localhost", .ca = in_dir("ca.pem"), .answer = until_end, .ends_properly = true},
                /* cut off: TLS can tell it from the end */
                {.name = "localhost",
                 .ca = in_dir("ca.pem"),
                 .answer = until_end,
                 .hangs_up = true,
                 .kind = ERR_UNAVAILABLE},
                {.name = "example.com", .ca = in_dir("ca.pem"), .answer = answer, .kind = ERR_DENIED},
                {.name = "127.0.0.2", .ca = in_dir("ca.pem"), .answer = answer, .kind = ERR_DENIED},
                {.name = "localhost", .ca = NULL, .answer = answer, .kind = ERR_DENIED}, /* the system's authorities */
        };

        for (size_t i = 0; i < ARRAY_LEN(cases) && !tap_case_failed; i++)
                tls_call(&cases[i]);
}

static void https_without_authorities_is_refused(void)
{
        struct http_client *c = NULL;
        struct tls_context *t = NULL;
        struct err e = {0};

        CHECK_INT(http_client_create(&(struct http_client_options){.loop = loop, .url = "https://127.0.0.1"}, &c, &e),
                  <, 0);
        CHECK_INT(e.kind, ==, ERR_INVALID);
        CHECK_INT(tls_client_context_create("/nonexistent/ca.pem", &t, &e), <, 0);
        CHECK_INT(e.kind, ==, ERR_INVALID);
}

/* Plain bytes where TLS is spoken. */
static void a_server_without_tls_is_an_error(void)
{
        AUTO_RIG struct rig r = {.server = -1};
        struct tls_context *client_tls = NULL;
        int p[2];

        CHECK_INT(tls_client_context_create(in_dir("ca.pem"), &client_tls, NULL), ==, 0);
        memset(&told, 0, sizeof(told));
        CHECK_INT(http_client_create(&(struct http_client_options){.loop = loop,
                                                                   .url = "https://localhost",
                                                                   .uses_given_connection = true,
                                                                   .tls = client_tls,
                                                                   .timeouts = {.connect_ms = 5000}},
                                     &r.client, NULL),
                  ==, 0);
        CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p), ==, 0);
        CHECK_INT(http_client_give(r.client, p[0], NULL), ==, 0);
        r.server = p[1];
        CHECK_INT(start_get(&r), ==, 0);
        say(&r, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        run_to_end();
        CHECK_INT(told.why.kind, ==, ERR_UNAVAILABLE);
        rig_done(&r);

        /* And one that never answers the greeting. */
        memset(&told, 0, sizeof(told));
        CHECK_INT(http_client_create(&(struct http_client_options){.loop = loop,
                                                                   .url = "https://localhost",
                                                                   .uses_given_connection = true,
                                                                   .tls = client_tls,
                                                                   .timeouts = {.connect_ms = SHORT_MS}},
                                     &r.client, NULL),
                  ==, 0);
        CHECK_INT(rig_give(&r), ==, 0);
        CHECK_INT(start_get(&r), ==, 0);
        run_to_end();
        CHECK_INT(told.why.kind, ==, ERR_TIMEOUT);
        CHECK_STR(told.why.msg, "no connection to localhost within 0.02 s");
        rig_done(&r);
        client_tls = tls_context_free(client_tls);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}

int main(void)
{
        if (loop_create(&loop) < 0 || !mkdtemp(dir) || tls_local_ca(dir, "localhost", NULL) < 0)
                return 1;
        RUN(broken_answers_are_refused);
        RUN(an_endless_head_is_refused);
        RUN(endless_interim_answers_are_refused);
        RUN(an_answer_that_is_cut_off_is_no_answer);
        RUN(a_request_whose_body_fails_or_is_short_ends);
        RUN(a_silent_server_is_given_up);
        RUN(a_server_that_does_not_read_is_given_up);
        RUN(a_trickle_is_ended_by_the_total_time);
        RUN(a_connection_that_is_not_made_is_given_up);
        RUN(a_server_proves_its_name);
        RUN(https_without_authorities_is_refused);
        RUN(a_server_without_tls_is_an_error);
        (void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        loop = loop_free(loop);
        return tap_done();
}
