/* The HTTP server: uploads, slow readers, clients that leave, time, and its own end. */
#include "base/clock.h"
#include "http_rig.h"

static void an_upload_is_held_back_while_paused(void)
{
        AUTO_CLOSE int c = -1;
        static char piece[10000];
        uint64_t sent = 0;
        ssize_t n = 0;

        CHECK_INT(start_default(), ==, 0);
        seen.take_most = 1000;
        c = dial();
        put(c, "PUT /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\n");
        for (int i = 0; i < 1000; i++) {
                n = write(c, piece, sizeof(piece));
                if (n < 0)
                        break;
                sent += (uint64_t)n;
                turns(1);
        }
        CHECK_INT(n, ==, -1);
        CHECK_INT(sent, <, 1000000); /* the socket's buffer, and one piece here */
        CHECK_INT(seen.uploaded, ==, 1000);
        seen.take_most = 0;
        http_resume_body(seen.last);
        while (sent < 5000000) {
                n = write(c, piece, 5000000 - sent < sizeof(piece) ? 5000000 - sent : sizeof(piece));
                sent += n > 0 ? (uint64_t)n : 0;
                turns(1);
        }
        turns(5);
        CHECK_INT(seen.uploaded, ==, 5000000);
        CHECK_INT(seen.ends, ==, 1);
        CHECK(strstr(get(c), "\r\n\r\n5000000"));
}

static void a_handler_may_answer_in_the_middle_of_an_upload(void)
{
        AUTO_CLOSE int c = -1;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, "PUT /full HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n0123456789");
        CHECK(strstr(get(c), "{\"code\":507,\"message\":\"no room for \\\"it?\\\"\"}"));
        put(c, "0123456789" GET("/hello"));
        CHECK_STR(get(c), HI);
        CHECK_INT(seen.ends, ==, 0);
}

static void a_slow_reader_stops_the_producer(void)
{
        static char sink[100000];
        AUTO_CLOSE int c = -1;
        uint64_t got = 0;
        ssize_t n;

        CHECK_INT(start_default(), ==, 0);
        seen.pieces_left = 500; /* 15 MB */
        c = dial();
        put(c, GET("/flood"));
        turns(20);
        CHECK_INT(seen.pieces_left, >, 450);
        CHECK_INT(seen.queued_most, <=, HTTP_OUT_HIGH + 40000);
        for (int i = 0; i < 100000 && !seen.closes; i++) {
                while ((n = read(c, sink, sizeof(sink))) > 0)
                        got += (uint64_t)n;
                turns(1);
        }
        while ((n = read(c, sink, sizeof(sink))) > 0)
                got += (uint64_t)n;
        CHECK_INT(seen.completes, ==, 1);
        CHECK_INT(got, >, 15000000);
        CHECK_INT(seen.drains, >, 5);
        CHECK_INT(seen.queued_most, <=, HTTP_OUT_HIGH + 40000);
        put(c, GET("/hello"));
        CHECK_STR(get(c), HI);
}

static void a_client_that_leaves_is_noticed_at_once(void)
{
        static const char *const paths[] = {GET("/late"), GET("/stream"), GET("/flood"),
                                            "PUT /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n123"};

        for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
                int c;

                CHECK_INT(start_default(), ==, 0);
                seen.pieces_left = 1000;
                c = dial();
                put(c, paths[i]);
                CHECK(seen.last);
                CHECK_INT(seen.closes, ==, 0);
                close(c);
                turns(2);
                CHECK_INT(seen.closes, ==, 1);
                CHECK_INT(seen.completes, ==, 0);
                CHECK_INT(http_server_conn_count(server), ==, 0);
        }
}

static void half_closing_counts_as_leaving_while_the_answer_is_not_there(void)
{
        AUTO_CLOSE int c = -1;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, GET("/late"));
        CHECK(shutdown(c, SHUT_WR) == 0);
        turns(2);
        CHECK_INT(seen.closes, ==, 1);
        c = (close(c), dial());
        CHECK(write(c, GET("/hello"), strlen(GET("/hello"))) > 0 && shutdown(c, SHUT_WR) == 0);
        turns(4);
        CHECK(strstr(get(c), "\r\n\r\nhi")); /* answered at once: it gets it */
}

static void writing_to_a_gone_client_fails_until_the_close_is_told(void)
{
        int c, r = 0;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, GET("/stream"));
        close(c);
        for (int i = 0; i < 3 && r == 0; i++) {
                static char big[20000];

                r = http_write(seen.last, big, sizeof(big));
        }
        CHECK_INT(r, ==, -EPIPE);
        http_end(seen.last); /* harmless */
        CHECK_INT(seen.closes, ==, 0);
        turns(1);
        CHECK_INT(seen.closes, ==, 1);
}

static void answers_may_come_later_and_abort_cuts(void)
{
        AUTO_CLOSE int c = -1;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, GET("/late") GET("/stream"));
        CHECK_STR(get(c), "");
        http_reply(seen.last, 200, "text/plain", NULL, "hi", 2);
        CHECK_STR(get(c), HI); /* without a turn of the loop */
        turns(4);
        CHECK_STR(get(c), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n");
        http_write(seen.last, "more", 4);
        turns(1);
        CHECK_STR(get(c), "4\r\nmore\r\n");
        http_abort(seen.last);
        turns(1);
        CHECK_INT(seen.closes, ==, 2);
        CHECK_INT(seen.completes, ==, 1);
        CHECK(!strstr(get(c), "0\r\n\r\n"));
}

static void files_are_sent_whole_and_cut_when_they_shrink(void)
{
        static char got[4 << 20];
        size_t n = 0;
        AUTO_CLOSE int c = -1, file = -1;
        ssize_t r = 1;

        file = memfd_create("file", MFD_CLOEXEC);
        CHECK(file >= 0 && ftruncate(file, 3 << 20) == 0 && pwrite(file, "start", 5, 5) == 5 &&
              pwrite(file, "end", 3, (3 << 20) - 3) == 3);
        for (int is_cut = 0; is_cut < 2; is_cut++) {
                CHECK_INT(start_default(), ==, 0);
                seen.file = file;
                seen.file_len = (3 << 20) - 5;
                close_fd(&c);
                c = dial();
                put(c, "POST /file HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
                if (is_cut)
                        CHECK(ftruncate(file, 1 << 20) == 0);
                n = 0;
                for (int i = 0; i < 100000 && r != 0 && !(seen.closes && r < 0); i++) {
                        r = read(c, got + n, sizeof(got) - n);
                        n += r > 0 ? (size_t)r : 0;
                        turns(1);
                }
                CHECK_INT(seen.completes, ==, !is_cut);
                if (is_cut)
                        continue;
                CHECK(memmem(got, 300, "\r\n\r\nstart", 9));
                CHECK(memcmp(got + n - 3, "end", 3) == 0);
                put(c, GET("/hello"));
                CHECK_STR(get(c), HI);
                put(c, "HEAD /file HTTP/1.1\r\nHost: h\r\n\r\n");
                CHECK(strstr(get(c), "Content-Length: 3145723\r\n\r\n"));
                r = 1;
        }
}

static bool is_gone(void)
{
        return http_server_conn_count(server) == 0;
}
/* Run until the server closes; the client's end of file is the event. */
static void on_eof(struct io *io, uint32_t events)
{
        if (events & (EPOLLRDHUP | EPOLLHUP))
                loop_stop(io->loop);
}
static int run_to_eof(int fd)
{
        struct io io = {.fd = fd, .on = on_eof};

        if (loop_add(loop, &io, EPOLLRDHUP) < 0)
                return -1;
        (void)loop_run(loop);
        loop_del(&io);
        return 0;
}
static void slow_heads_and_bodies_time_out_and_idle_connections_close(void)
{
        static const struct {
                const char *text, *answer;
        } cases[] = {
                {"GET /hello HT", "HTTP/1.1 408 "},
                {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na", "HTTP/1.1 408 "},
                {"", "<EOF>"},
                {GET("/hello"), HI},
                {"POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na", HI},
        };
        struct http_server_options opt = options();

        opt.head_timeout_ms = 10;
        opt.idle_timeout_ms = 10;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_CLOSE int c = -1;
                const char *got = "";

                CHECK_INT(start(&opt), ==, 0);
                c = dial();
                if (cases[i].text[0])
                        CHECK(write(c, cases[i].text, strlen(cases[i].text)) > 0);
                turns(2);
                CHECK(run_to_eof(c) == 0);
                got = get(c);
                CHECK(strncmp(got, cases[i].answer, strlen(cases[i].answer)) == 0);
                close_fd(&c);
                turns(3);
                CHECK(is_gone());
                CHECK_INT(seen.requests, ==, seen.closes);
        }
}

static void a_client_that_takes_nothing_is_cut_where_the_server_says_so(void)
{
        static char whole[2 << 20];
        struct http_server_options opt = options();

        opt.stall_timeout_ms = 10;
        for (int is_whole = 0; is_whole < 2; is_whole++) {
                AUTO_CLOSE int c = -1;

                CHECK_INT(start(&opt), ==, 0);
                seen.pieces_left = 500;
                c = dial();
                put(c, is_whole ? GET("/late") : GET("/flood"));
                if (is_whole)
                        http_reply(seen.last, 200, "text/plain", NULL, whole, sizeof(whole));
                CHECK_INT(run_to_eof(c), ==, 0);
                turns(2);
                CHECK(is_gone());
                CHECK_INT(seen.closes, ==, 1);
                CHECK_INT(seen.completes, ==, 0);
        }
}

/* A little now and then, for longer than a client may take nothing. */
static void a_client_that_takes_a_little_is_not_cut(void)
{
        static char sink[200000];
        struct http_server_options opt = options();
        AUTO_CLOSE int c = -1;
        uint64_t begun, next;

        opt.stall_timeout_ms = 2000;
        CHECK_INT(start(&opt), ==, 0);
        seen.pieces_left = 500; /* 15 MB: more than is taken */
        c = dial();
        put(c, GET("/flood"));
        begun = next = clock_mono_ms();
        while (clock_mono_ms() - begun < 2500) {
                turns(1);
                if (clock_mono_ms() < next)
                        continue;
                (void)!read(c, sink, sizeof(sink));
                next = clock_mono_ms() + 50;
        }
        CHECK_INT(seen.closes, ==, 0);
        CHECK_INT(seen.pieces_left, >, 0);
}

/* As readers of envd's streams are promised. */
static void without_such_a_limit_a_client_may_take_its_time(void)
{
        AUTO_CLOSE int c = -1;
        uint64_t begun;

        CHECK_INT(start_default(), ==, 0);
        seen.pieces_left = 500;
        c = dial();
        put(c, GET("/flood"));
        begun = clock_mono_ms();
        while (clock_mono_ms() - begun < 30)
                turns(1);
        CHECK_INT(seen.closes, ==, 0);
}

static void connections_over_the_limit_get_503(void)
{
        int c[4];

        CHECK_INT(start_default(), ==, 0);
        for (int i = 0; i < 4; i++)
                c[i] = dial();
        CHECK(strncmp(get(c[3]), "HTTP/1.1 503 ", 13) == 0);
        put(c[2], GET("/hello"));
        CHECK_STR(get(c[2]), HI);
        close(c[0]);
        turns(2);
        CHECK_INT(http_server_conn_count(server), ==, 2);
        for (int i = 1; i < 4; i++)
                close(c[i]);
}

static bool is_stopped;
static void on_stopped(void *arg)
{
        *(bool *)arg = true;
}
static void stopping_lets_running_exchanges_end(void)
{
        AUTO_CLOSE int idle = -1, busy = -1;

        is_stopped = false;
        CHECK_INT(start_default(), ==, 0);
        idle = dial();
        busy = dial();
        put(idle, GET("/hello"));
        put(busy, GET("/late"));
        CHECK_STR(get(idle), HI);
        http_server_stop(server, on_stopped, &is_stopped);
        turns(3);
        CHECK_STR(get(idle), "<EOF>");
        CHECK(!is_stopped);
        http_reply(seen.last, 200, "text/plain", NULL, "hi", 2);
        turns(3);
        CHECK(strstr(get(busy), "Connection: close\r\n"));
        CHECK(is_stopped);
        is_stopped = false;
        CHECK_INT(start_default(), ==, 0);
        http_server_stop(server, on_stopped, &is_stopped); /* nothing to wait for */
        CHECK(!is_stopped);
        turns(1);
        CHECK(is_stopped);
}

static void freeing_the_server_tells_every_handler(void)
{
        AUTO_CLOSE int a = -1, b = -1;

        CHECK_INT(start_default(), ==, 0);
        a = dial();
        b = dial();
        put(a, GET("/late"));
        put(b, GET("/stream"));
        server = http_server_free(server);
        CHECK_INT(seen.closes, ==, 2);
        CHECK_INT(seen.completes, ==, 0);
}

static void it_listens_on_sockets_given_to_it(void)
{
        AUTO_CLOSE int c = -1;
        char dir[] = "/tmp/http-XXXXXX", path[64];
        int fd = -1;

        CHECK(mkdtemp(dir));
        (void)snprintf(path, sizeof(path), "%s/s", dir);
        CHECK_INT(start_default(), ==, 0);
        CHECK_INT(listen_unix(path, 0600, &fd, NULL), ==, 0);
        CHECK_INT(http_server_listen(server, fd), ==, 0);
        CHECK_INT(connect_unix(path, &c), ==, 0);
        put(c, GET("/hello"));
        CHECK_STR(get(c), HI);
        server = http_server_free(server);
        CHECK_STR(get(c), "<EOF>");
        (void)unlink(path);
        (void)rmdir(dir);
}

int main(void)
{
        if (rig_start() < 0)
                return 1;
        RUN(an_upload_is_held_back_while_paused);
        RUN(a_handler_may_answer_in_the_middle_of_an_upload);
        RUN(a_slow_reader_stops_the_producer);
        RUN(a_client_that_leaves_is_noticed_at_once);
        RUN(half_closing_counts_as_leaving_while_the_answer_is_not_there);
        RUN(writing_to_a_gone_client_fails_until_the_close_is_told);
        RUN(answers_may_come_later_and_abort_cuts);
        RUN(files_are_sent_whole_and_cut_when_they_shrink);
        RUN(slow_heads_and_bodies_time_out_and_idle_connections_close);
        RUN(a_client_that_takes_nothing_is_cut_where_the_server_says_so);
        RUN(a_client_that_takes_a_little_is_not_cut);
        RUN(without_such_a_limit_a_client_may_take_its_time);
        RUN(connections_over_the_limit_get_503);
        RUN(stopping_lets_running_exchanges_end);
        RUN(freeing_the_server_tells_every_handler);
        RUN(it_listens_on_sockets_given_to_it);
        rig_stop();
        return tap_done();
}
