/* Long bodies: the edge moves them from socket to socket without looking at them. */
#include "harness.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "edge/message/splice.h"
#include "tap.h"

#define LONG_BYTES (20u << 20)

static char long_byte(size_t i)
{
        return (char)(i * 2654435761u >> 15);
}

/* Send all of it from up, read it at c in pieces of all sizes; how many arrived as they were sent. */
static size_t carry(int up, int c, size_t total)
{
        static char out[100000], in[300000];
        size_t sent = 0, got = 0;

        for (size_t round = 0; got < total; round++) {
                size_t n = total - sent < sizeof(out) ? total - sent : sizeof(out);
                ssize_t r;

                for (size_t i = 0; i < n; i++)
                        out[i] = long_byte(sent + i);
                r = n ? send(up, out, n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
                sent += r > 0 ? (size_t)r : 0;
                if (r == (ssize_t)n && n && round % 64)
                        continue; /* let it pile up: the way is full most of the time */
                r = recv(c, in, 1 + round * 7919 % sizeof(in), 0);
                for (ssize_t i = 0; i < r; i++)
                        if (in[i] != long_byte(got + (size_t)i))
                                return got + (size_t)i;
                if (r <= 0)
                        break;
                got += (size_t)r;
        }
        return got;
}

static void a_long_body_arrives_as_it_was_sent_and_the_connection_goes_on(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/files?path=a", HOST_A("49983"), "")), ==, 0);
        up = give_both(&w, BOX_A, 49983);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nContent-Length: 20971520\r\n\r\n"), ==, 0);
        CHECK_INT(hear_head(c, head, sizeof(head)), >, 0);
        CHECK_INT(carry(up, c, LONG_BYTES), ==, LONG_BYTES);
        CHECK_INT(say(c, REQUEST("GET", "/health", HOST_A("49983"), "")), ==, 0);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
}

static void half_of_a_long_body_never_ends_cleanly(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nContent-Length: 20971520\r\n\r\n"), ==, 0);
        CHECK_INT(hear_head(c, head, sizeof(head)), >, 0);
        CHECK_INT(carry(up, c, LONG_BYTES / 2), ==, LONG_BYTES / 2);
        close_fd(&up);
        CHECK_INT(hear_end(c), ==, END_RESET);
}

/* ---- many at a time, none of them read ---- */

#define STALLED (PIPES_MAX + 8)
#define STALLED_BYTES (4u << 20)
#define SMALL 65536 /* what the kernel holds of each, here and there */

static int stalled_c[STALLED], stalled_up[STALLED];
static size_t stalled_sent[STALLED];

static unsigned pipes_of(const struct world *w)
{
        char path[64], to[64];
        unsigned count = 0;
        DIR *dir;

        (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)w->edge);
        dir = opendir(path);
        for (struct dirent *d; dir && (d = readdir(dir));) {
                ssize_t n = readlinkat(dirfd(dir), d->d_name, to, sizeof(to) - 1);

                count += n > 5 && memcmp(to, "pipe:", 5) == 0;
        }
        if (dir)
                (void)closedir(dir);
        return count;
}

static void close_stalled(int (*unused)[1])
{
        (void)unused;
        for (size_t i = 0; i < STALLED; i++) {
                close_fd(&stalled_c[i]);
                close_fd(&stalled_up[i]);
        }
}

/* Send to it until the way is full: how much more went. */
static size_t fill(size_t i)
{
        static char out[100000];
        size_t before = stalled_sent[i];
        ssize_t r;

        do {
                size_t left = STALLED_BYTES - stalled_sent[i], n = left < sizeof(out) ? left : sizeof(out);

                for (size_t k = 0; k < n; k++)
                        out[k] = long_byte(stalled_sent[i] + k);
                r = n ? send(stalled_up[i], out, n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
                stalled_sent[i] += r > 0 ? (size_t)r : 0;
        } while (r > 0);
        return stalled_sent[i] - before;
}

static bool begin(struct world *w, size_t i)
{
        const int small = SMALL;
        int c = stalled_c[i] = dial_client(w), up;
        char head[4096];

        stalled_sent[i] = 0;
        if (c < 0 || say(c, REQUEST("GET", "/", HOST_A("3000"), "")) < 0)
                return false;
        up = stalled_up[i] = i ? give_socket(w, BOX_A, 3000) : give_both(w, BOX_A, 3000);
        return up >= 0 && setsockopt(up, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0 &&
               hear_head(up, head, sizeof(head)) > 0 &&
               say(up, "HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n") == 0 &&
               hear_head(c, head, sizeof(head)) > 0;
}

/* Begin an answer to each, and send until the way is full. */
static bool stall(struct world *w)
{
        size_t sent = 1;

        for (size_t i = 0; i < STALLED; i++)
                stalled_c[i] = stalled_up[i] = -1;
        for (size_t i = 0; i < STALLED; i++)
                if (!begin(w, i))
                        return false;
        while (sent) {
                sent = 0;
                for (size_t i = 0; i < STALLED; i++)
                        sent += fill(i);
                if (sent == 0 && !is_silent(stalled_up[0], 50)) /* the last of it may be on its way */
                        return false;
                for (size_t i = 0; i < STALLED; i++)
                        sent += fill(i);
        }
        return true;
}

/* One more request: when it is answered, the edge has seen all that was before it. */
static bool is_served(struct world *w)
{
        AUTO_CLOSE int c = dial_client(w);
        char head[4096];
        const char *body;

        return say(c, REQUEST("GET", "/", "nowhere", "")) == 0 && hear_answer(c, head, sizeof(head), &body) == 400;
}

/* Read what was sent already, then the rest as it is sent. */
static bool is_whole(size_t i)
{
        static char in[100000];
        size_t got = 0;

        while (got < stalled_sent[i]) {
                size_t want = stalled_sent[i] - got < sizeof(in) ? stalled_sent[i] - got : sizeof(in);

                if (hear_bytes(stalled_c[i], in, want) != (ssize_t)want)
                        return false;
                for (size_t k = 0; k < want; k++)
                        if (in[k] != long_byte(got + k))
                                return false;
                got += want;
        }
        return true;
}

static void more_of_them_than_pipes_all_arrive(void)
{
        WORLD;
        __attribute__((cleanup(close_stalled))) int all[1] = {0};
        unsigned before;

        (void)all;
        w.send_buffer = SMALL;
        START;
        before = pipes_of(&w);
        CHECK(stall(&w));
        CHECK(is_served(&w));
        CHECK_INT(pipes_of(&w), >, before);
        CHECK_INT(pipes_of(&w), <=, before + 2 * PIPES_MAX);
        for (size_t i = 0; i < STALLED; i++)
                CHECK(is_whole(i));
        CHECK(is_served(&w));
        CHECK_INT(pipes_of(&w), <=, before + 2 * PIPES_SPARE_MAX);
}

static void clients_that_leave_take_their_pipes_along(void)
{
        WORLD;
        __attribute__((cleanup(close_stalled))) int all[1] = {0};
        unsigned before;

        (void)all;
        w.send_buffer = SMALL;
        START;
        before = pipes_of(&w);
        CHECK(stall(&w));
        CHECK(is_served(&w));
        CHECK_INT(pipes_of(&w), >, before + 2 * PIPES_SPARE_MAX);
        for (size_t i = 0; i < STALLED; i++) {
                close_fd(&stalled_c[i]);
                CHECK_INT(hear_end(stalled_up[i]), !=, END_NONE);
        }
        CHECK(is_served(&w));
        CHECK_INT(pipes_of(&w), <=, before + 2 * PIPES_SPARE_MAX);
        CHECK_INT(world_stop(&w), ==, 0);
}

static void a_sandbox_that_goes_cuts_those_that_wait(void)
{
        WORLD;
        __attribute__((cleanup(close_stalled))) int all[1] = {0};

        (void)all;
        w.send_buffer = SMALL;
        START;
        CHECK(stall(&w));
        CHECK(tell_gone(&w, BOX_A));
        for (size_t i = 0; i < STALLED; i++)
                CHECK_INT(hear_end(stalled_c[i]), ==, END_RESET);
        CHECK(is_served(&w));
}

int main(void)
{
        RUN(a_long_body_arrives_as_it_was_sent_and_the_connection_goes_on);
        RUN(half_of_a_long_body_never_ends_cleanly);
        RUN(more_of_them_than_pipes_all_arrive);
        RUN(clients_that_leave_take_their_pipes_along);
        RUN(a_sandbox_that_goes_cuts_those_that_wait);
        return tap_done();
}
