/* Sandboxes that end, parts of ours that come and go, the edge's own end; TLS. */
#include <poll.h>

#include "harness.h"

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/str.h"
#include "tap.h"

static char answer[65536];

static int ask(int c, const char *request, const char **ret_body)
{
        return say(c, request) < 0 ? -1 : hear_answer(c, answer, sizeof(answer), ret_body);
}

/* ---- ends ---- */

static void gone_sandboxes_lose_route_then_connections(void)
{
        WORLD;
        AUTO_CLOSE int stream = -1, tunnel = -1, waiting = -1, idle = -1, other = -1;
        AUTO_CLOSE int up = -1, ws = -1, slow = -1, kept = -1, far = -1;
        char head[4096];
        const char *body;

        START;
        stream = dial_client(&w), tunnel = dial_client(&w), waiting = dial_client(&w), idle = dial_client(&w);
        other = dial_client(&w);
        ws = open_tunnel(&w, tunnel);
        CHECK_INT(say(stream, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        up = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"), ==, 0);
        CHECK_INT(hear_head(stream, head, sizeof(head)), >, 0);
        CHECK(hears(stream, "1\r\nx\r\n"));
        CHECK_INT(say(waiting, REQUEST("GET", "/", HOST_A("3001"), "")), ==, 0);
        slow = give_socket(&w, BOX_A, 3001);
        CHECK_INT(hear_head(slow, head, sizeof(head)), >, 0);
        CHECK_INT(say(idle, REQUEST("GET", "/", HOST_A("49983"), "")), ==, 0);
        kept = give_socket(&w, BOX_A, 49983);
        CHECK_INT(hear_head(kept, head, sizeof(head)), >, 0);
        CHECK_INT(say(kept, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(idle, answer, sizeof(answer), &body), ==, 200);
        CHECK_INT(say(other, REQUEST("GET", "/", HOST_B("3000"), "")), ==, 0);
        far = give_both(&w, BOX_B, 3000);
        CHECK_INT(hear_head(far, head, sizeof(head)), >, 0);

        CHECK(tell_gone(&w, BOX_A));
        CHECK_INT(hear_end(stream), ==, END_RESET);
        CHECK_INT(hear_end(tunnel), ==, END_RESET);
        CHECK_INT(hear_end(waiting), ==, END_RESET);
        CHECK_INT(hear_end(up), !=, END_NONE);
        CHECK_INT(hear_end(ws), !=, END_NONE);
        CHECK_INT(hear_end(slow), !=, END_NONE);
        CHECK_INT(hear_end(kept), !=, END_NONE);
        /* A client that merely used it goes on, and learns that it is gone; other sandboxes are untouched. */
        CHECK_INT(say(idle, REQUEST("GET", "/health", HOST_A("49983"), "")), ==, 0);
        CHECK(give_no_route(&w, BOX_A));
        CHECK_INT(hear_answer(idle, answer, sizeof(answer), &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
        CHECK_INT(say(far, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(other, answer, sizeof(answer), &body), ==, 200);
}

static void gone_while_dialling_is_not_found_or_cut(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        CHECK(give_route(&w, BOX_A, NULL, NULL));
        CHECK(!is_silent(w.dial_ch, 5000));
        CHECK(tell_gone(&w, BOX_A));
        CHECK_INT(hear_end(c), ==, END_RESET);
        CHECK(give_error(&w, "gone")); /* an answer nobody waits for */
}

/* An edge may hear of a pause when the sandbox runs again already. */
static void late_news_of_a_pause_cuts_nobody_who_came_after_it(void)
{
        WORLD;
        AUTO_CLOSE int before = -1, after = -1, dialling = -1, late = -1;
        AUTO_CLOSE int up_before = -1, up_after = -1, up_dialling = -1, up_late = -1;
        char head[4096];
        const char *body;

        START;
        before = dial_client(&w), after = dial_client(&w), dialling = dial_client(&w), late = dial_client(&w);
        CHECK_INT(say(before, REQUEST("POST", "/", HOST_A("3000"), "")), ==, 0);
        CHECK(give_route(&w, BOX_A, NULL, NULL));
        up_before = give_socket_made(&w, BOX_A, 3000, 1000);
        CHECK_INT(hear_head(up_before, head, sizeof(head)), >, 0);
        CHECK_INT(say(after, REQUEST("POST", "/", HOST_A("3001"), "")), ==, 0);
        up_after = give_socket_made(&w, BOX_A, 3001, 3000);
        CHECK_INT(hear_head(up_after, head, sizeof(head)), >, 0);
        CHECK_INT(say(dialling, REQUEST("POST", "/", HOST_A("3002"), "")), ==, 0);
        CHECK_INT(say(late, REQUEST("POST", "/", HOST_A("3003"), "")), ==, 0);

        CHECK(tell_stopped(&w, BOX_A, 2000));
        CHECK_INT(hear_end(before), ==, END_RESET);
        CHECK_INT(hear_end(up_before), !=, END_NONE);
        CHECK_INT(say(up_after, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(after, answer, sizeof(answer), &body), ==, 200);
        up_dialling = give_socket_made(&w, BOX_A, 3002, 3000); /* of the one that runs again */
        CHECK_INT(hear_head(up_dialling, head, sizeof(head)), >, 0);
        CHECK_INT(say(up_dialling, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(dialling, answer, sizeof(answer), &body), ==, 200);

        up_late = give_socket_made(&w, BOX_A, 3003, 1500); /* made before the pause: of no use */
        CHECK(grant_resume(&w, hear_resume(&w, BOX_A, 3003, NULL), BOX_A));
        CHECK_INT(hear_end(up_late), !=, END_NONE);
        close_fd(&up_late);
        up_late = give_socket_made(&w, BOX_A, 3003, 4000);
        CHECK_INT(hear_head(up_late, head, sizeof(head)), >, 0);
        CHECK_INT(say(up_late, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(late, answer, sizeof(answer), &body), ==, 200);
}

/* What was asked on a kept connection and may be asked again is asked again, when the sandbox runs. */
static void what_may_be_repeated_is_not_cut_by_a_pause(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, kept = -1, fresh = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("49983"), "")), ==, 0);
        CHECK(give_route(&w, BOX_A, NULL, NULL));
        kept = give_socket_made(&w, BOX_A, 49983, 1000);
        CHECK_INT(hear_head(kept, head, sizeof(head)), >, 0);
        CHECK_INT(say(kept, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("GET", "/again", HOST_A("49983"), "")), ==, 0);
        CHECK_INT(hear_head(kept, head, sizeof(head)), >, 0);
        CHECK(tell_stopped(&w, BOX_A, 2000));
        CHECK_INT(hear_end(kept), !=, END_NONE);
        CHECK(grant_resume(&w, hear_resume(&w, BOX_A, 49983, NULL), BOX_A));
        fresh = give_socket_made(&w, BOX_A, 49983, 3000);
        CHECK(hears(fresh, "GET /again "));
        CHECK_INT(say(fresh, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
}

/* It is refused by a closed port, is paused and then ended. */
static void what_stops_while_it_is_dialled_is_looked_at_again(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        CHECK(give_route(&w, BOX_A, NULL, NULL));
        CHECK(!is_silent(w.dial_ch, 5000));
        CHECK(tell_stopped(&w, BOX_A, 2000));
        CHECK(give_error(&w, "unavailable"));
        CHECK_INT(hear_resume(&w, BOX_A, 3000, NULL), >=, 0);
        CHECK(tell_gone(&w, BOX_A));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
}

/* ---- parts of ours that come and go ---- */

static void waits_for_control_and_asks_again(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1, running = -1, run = -1;
        char head[4096];
        const char *body;

        START;
        running = dial_client(&w);
        CHECK_INT(say(running, REQUEST("GET", "/", HOST_B("3000"), "")), ==, 0);
        run = give_both(&w, BOX_B, 3000);
        CHECK_INT(hear_head(run, head, sizeof(head)), >, 0);
        world_lose_control(&w);
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("49983"), "")), ==, 0);
        CHECK(is_silent(c, 20));
        CHECK(accept_routes(&w));
        /* What runs is asked for again, as is what was asked meanwhile. */
        CHECK(give_route(&w, BOX_B, NULL, NULL));
        up = give_both(&w, BOX_A, 49983);
        CHECK(hears(up, "GET / "));
        CHECK_INT(say(run, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(running, answer, sizeof(answer), &body), ==, 200);
}

static void a_sandbox_that_ended_meanwhile_is_cut(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        world_lose_control(&w);
        CHECK(accept_routes(&w));
        CHECK(give_no_route(&w, BOX_A));
        CHECK_INT(hear_end(c), ==, END_RESET);
}

/* It may wait for a disk. */
static void waits_longer_for_a_control_that_is_there(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        struct pollfd p = {.events = POLLIN};
        char head[4096];
        const char *body;

        w.limits.wait_timeout_ms = 20;
        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        p.fd = c;
        CHECK_INT(poll(&p, 1, 200), ==, 0); /* many times that long, and no answer */
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
}

static void gives_up_on_control_after_a_while(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, box = -1;
        const char *body;

        w.limits.wait_timeout_ms = 100;
        START;
        world_lose_control(&w);
        w.routes_ch = -1;
        box = dial_client(&w);
        CHECK_INT(say(box, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        CHECK_INT(hear_answer(box, answer, sizeof(answer), &body), ==, 503);
        CHECK(strstr(body, "\"sandboxId\":\"" BOX_A "\"") && strstr(body, "\"code\":503"));
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("POST", "/sandboxes", "localhost", "Content-Length: 2\r\n") "{}"), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 503);
        CHECK(strstr(body, "{\"code\":503,\"message\":\""));
        /* The connection is still good. */
        CHECK_INT(ask(c, REQUEST("GET", "/", "nowhere", ""), &body), ==, 400);
}

static void an_api_that_dies_is_tried_again_for_reads_only(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, api = -1, next = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/1", "localhost", "")), ==, 0);
        api = accept_api(&w);
        CHECK_INT(hear_head(api, head, sizeof(head)), >, 0);
        CHECK_INT(say(api, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("GET", "/2", "localhost", "")), ==, 0);
        CHECK(hears(api, "GET /2 "));
        close_fd(&api);
        next = accept_api(&w);
        CHECK(hears(next, REQUEST("GET", "/2", "localhost", "")));
        CHECK_INT(say(next, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("POST", "/3", "localhost", "Content-Length: 0\r\n")), ==, 0);
        CHECK(hears(next, "POST /3 "));
        close_fd(&next);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 503);
        CHECK(strstr(body, "\"code\":503"));
}

static void waits_for_the_engine_and_asks_again(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        CHECK(give_route(&w, BOX_A, NULL, NULL));
        CHECK(!is_silent(w.dial_ch, 5000));
        close_fd(&w.dial_ch);
        CHECK(accept_dial(&w));
        up = give_socket(&w, BOX_A, 3000);
        CHECK(hears(up, "GET / "));
}

static void ends_in_order(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, idle = -1, up = -1;
        char head[4096];
        const char *body;

        START;
        idle = dial_client(&w);
        CHECK_INT(ask(idle, REQUEST("GET", "/", "nowhere", ""), &body), ==, 400);
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(world_signal(&w), ==, 0);
        CHECK_INT(hear_end(idle), ==, END_CLEAN);
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        CHECK(strstr(answer, "Connection: close"));
        CHECK_INT(hear_end(c), ==, END_CLEAN);
        close_fd(&c);
        CHECK_INT(world_stop(&w), ==, 0);
}

static void ends_although_streams_go_on(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;

        w.limits.stop_timeout_ms = 50;
        START;
        c = dial_client(&w);
        up = open_tunnel(&w, c);
        CHECK(up >= 0);
        CHECK_INT(world_stop(&w), ==, 0);
        CHECK_INT(hear_end(c), ==, END_RESET);
}

/* ---- TLS ---- */

static SSL *tls_client(const struct world *w, SSL_CTX *ctx, int fd)
{
        static const unsigned char alpn[] = "\x08http/1.1";
        SSL *ssl = SSL_new(ctx);

        (void)w;
        if (!ssl || SSL_set_fd(ssl, fd) != 1 || SSL_set_tlsext_host_name(ssl, HOST_A("49983")) != 1 ||
            SSL_set1_host(ssl, HOST_A("49983")) != 1 || SSL_set_alpn_protos(ssl, alpn, sizeof(alpn) - 1) != 0 ||
            SSL_connect(ssl) != 1) {
                SSL_free(ssl);
                return NULL;
        }
        return ssl;
}

static void check_tls(struct world *w, SSL_CTX *ctx, int fd)
{
        static const char request[] = REQUEST("POST", "/up", HOST_A("49983"), "Content-Length: 200000\r\n");
        static char sent[200000], got[200000];
        const unsigned char *proto;
        unsigned proto_len;
        char head[4096];
        size_t n, have = 0;
        AUTO_CLOSE int up = -1;
        SSL *ssl = tls_client(w, ctx, fd);

        CHECK(ssl);
        SSL_get0_alpn_selected(ssl, &proto, &proto_len);
        CHECK(str_is((struct str){(const char *)proto, proto_len}, "http/1.1"));
        for (size_t i = 0; i < sizeof(sent); i++)
                sent[i] = (char)(i * 7 + i / 256);
        CHECK_INT(SSL_write_ex(ssl, request, sizeof(request) - 1, &n), ==, 1);
        up = give_both(w, BOX_A, 49983);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(SSL_write_ex(ssl, sent, sizeof(sent), &n), ==, 1);
        CHECK_INT(hear_bytes(up, got, sizeof(got)), ==, sizeof(got));
        CHECK(memcmp(sent, got, sizeof(got)) == 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n"), ==, 0);
        CHECK_INT(say_bytes(up, sent, sizeof(sent)), ==, 0);
        CHECK_INT(SSL_read_ex(ssl, head, sizeof("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n") - 1, &n), ==, 1);
        memset(got, 0, sizeof(got));
        while (have < sizeof(got)) {
                CHECK_INT(SSL_read_ex(ssl, got + have, sizeof(got) - have, &n), ==, 1);
                have += n;
        }
        CHECK(memcmp(sent, got, sizeof(got)) == 0);
        /* Again, now cut in the middle: TLS sees no proper end. */
        CHECK_INT(SSL_write_ex(ssl, REQUEST("GET", "/", HOST_A("49983"), ""),
                               sizeof(REQUEST("GET", "/", HOST_A("49983"), "")) - 1, &n),
                  ==, 1);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(tell_gone(w, BOX_A));
        CHECK_INT(SSL_read_ex(ssl, head, sizeof(head), &n), ==, 0);
        CHECK_INT(SSL_get_error(ssl, 0), !=, SSL_ERROR_ZERO_RETURN);
        SSL_free(ssl);
}

static void speaks_tls_by_host_name(void)
{
        WORLD;
        AUTO_CLOSE int fd = -1;
        char ca[128];
        SSL_CTX *ctx;

        w.https = -2;
        START;
        fd = dial_port(w.tls_port);
        ctx = SSL_CTX_new(TLS_client_method());
        (void)snprintf(ca, sizeof(ca), "%s/ca/ca.pem", w.dir);
        CHECK_INT(SSL_CTX_load_verify_locations(ctx, ca, NULL), ==, 1);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        check_tls(&w, ctx, fd);
        SSL_CTX_free(ctx);
}

int main(void)
{
        RUN(gone_sandboxes_lose_route_then_connections);
        RUN(gone_while_dialling_is_not_found_or_cut);
        RUN(late_news_of_a_pause_cuts_nobody_who_came_after_it);
        RUN(what_may_be_repeated_is_not_cut_by_a_pause);
        RUN(what_stops_while_it_is_dialled_is_looked_at_again);
        RUN(waits_for_control_and_asks_again);
        RUN(a_sandbox_that_ended_meanwhile_is_cut);
        RUN(waits_longer_for_a_control_that_is_there);
        RUN(gives_up_on_control_after_a_while);
        RUN(an_api_that_dies_is_tried_again_for_reads_only);
        RUN(waits_for_the_engine_and_asks_again);
        RUN(ends_in_order);
        RUN(ends_although_streams_go_on);
        RUN(speaks_tls_by_host_name);
        return tap_done();
}
