/* libsandglass: bodies of any size, and descriptors of the caller that are slow, idle, blocking or not. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "library_rig.h"

#define WRITTEN "[{\"path\":\"/f\",\"name\":\"f\",\"type\":\"file\"}]"
#define MIB (1u << 20)

/* ---- from memory ---- */

static void a_large_body_is_sent_whole(void)
{
        static const size_t sizes[] = {MIB, MIB + 1, 3 * MIB, 80 * MIB};
        char *bytes = calloc(1, 80 * MIB + 1);
        struct sg_error err = {0};
        char length[64];

        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                SAY(ok_json(WRITTEN));
                CHECK_INT(sg_file_write(box, "f", bytes, sizes[i], NULL, NULL, &err), ==, 0);
                (void)snprintf(length, sizeof(length), "Content-Length: %zu\r\n", sizes[i]);
                CHECK(strstr(seen_requests[0], length));
        }
        CHECK_INT(atomic_load(&server.dropped), >, 75 * MIB);
        memset(bytes, 'x', 70 * MIB);
        SAY(ok_json("{}"));
        CHECK_INT(sg_request(client, "PUT", "/x", bytes, NULL, NULL, NULL, &err), ==, 0);
        CHECK(strstr(seen_requests[0], "Content-Length: 73400320\r\n"));
        free(bytes);
}

static atomic_uint wrong_bytes, whole_bodies;

/* The body counts up; the first request is not answered. */
static void check_body(const char *request, size_t n, unsigned number, struct fake_answer *ret)
{
        const char *body = (const char *)memmem(request, n, "\r\n\r\n", 4) + 4;
        size_t len = n - (size_t)(body - request);

        for (size_t i = 0; i + 4 <= len; i += 4)
                if (memcmp(body + i, &(uint32_t){(uint32_t)i}, 4) != 0)
                        atomic_fetch_add(&wrong_bytes, 1);
        atomic_fetch_add(&whole_bodies, len == 2 * MIB);
        if (number > 0)
                *ret = ok_json(WRITTEN);
}

static void a_large_body_is_sent_again_from_its_beginning(void)
{
        uint32_t *bytes = malloc(2 * MIB);
        struct sg_error err = {0};
        int r;

        for (uint32_t i = 0; i < 2 * MIB / 4; i++)
                bytes[i] = 4 * i;
        SAY({0});
        server.on_request = check_body;
        r = sg_file_write(box, "f", bytes, 2 * MIB, NULL, NULL, &err);
        server.on_request = rig_on_request;
        free(bytes);
        CHECK_INT(r, ==, 0);
        CHECK_INT(atomic_load(&whole_bodies), ==, 2);
        CHECK_INT(atomic_load(&wrong_bytes), ==, 0);
}

/* ---- from and to descriptors ---- */

struct ends { /* of a pipe */
        int fds[2];
};

static void ends_close(struct ends *e)
{
        close_fd(&e->fds[0]);
        close_fd(&e->fds[1]);
}
#define AUTO_PIPE AUTO(ends_close) struct ends

static struct ends pipe_with(int flags)
{
        struct ends e = {{-1, -1}};

        if (pipe2(e.fds, O_CLOEXEC | flags) < 0)
                abort();
        return e;
}

static struct sg_cancel *cancel;

static void cancel_now(void *arg)
{
        (void)arg;
        sg_cancel_now(cancel);
}

/* Both ways to end a call that waits, for a pipe on which nothing comes or goes. */
static void ends_in_time(int (*transfer)(int fd, const struct sg_call *call, struct sg_error *err), int fd)
{
        struct sg_call call = {.timeout_ms = 50};
        struct sg_error err = {0};

        CHECK_INT(transfer(fd, &call, &err), ==, -ETIMEDOUT);
        CHECK_INT(err.kind, ==, SG_TIMEOUT);
        CHECK_INT(sg_cancel_create(&cancel, NULL), ==, 0);
        call = (struct sg_call){.cancel = cancel, .on_tick = cancel_now, .tick_ms = 10};
        CHECK_INT(transfer(fd, &call, &err), ==, -ECANCELED);
        CHECK_INT(err.kind, ==, SG_CANCELLED);
        sg_cancel_free(cancel);
}

static int upload(int fd, const struct sg_call *call, struct sg_error *err)
{
        return sg_file_upload(box, "f", fd, NULL, call, err);
}

static int load(int fd, const struct sg_call *call, struct sg_error *err)
{
        const struct sg_request_options options = {.sends_fd = true, .body_fd = fd};
        struct sg_call forever = *call;

        forever.timeout_ms = call->timeout_ms ? call->timeout_ms : SG_NO_TIMEOUT;
        return sg_request(client, "POST", "/x", NULL, &options, &forever, NULL, err);
}

static int download(int fd, const struct sg_call *call, struct sg_error *err)
{
        return sg_file_download(box, "f", fd, NULL, call, err);
}

static void an_idle_pipe_does_not_hold_a_call_up(void)
{
        static const int flags[] = {0, O_NONBLOCK};
        static char much[200000];

        for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
                AUTO_PIPE idle = pipe_with(flags[i]);

                SAY(ok_json(WRITTEN));
                ends_in_time(upload, idle.fds[0]);
                ends_in_time(load, idle.fds[0]);
                memset(much, 'x', sizeof(much) - 1);
                SAY(with_status("200 OK", "", much));
                ends_in_time(download, idle.fds[1]);
        }
}

struct slow {
        int fd;
        bool writes;
        size_t bytes, wrong;
        pthread_t thread;
};

static void *go_slowly(void *arg)
{
        struct slow *s = arg;
        char piece[5000];
        ssize_t n = 1;

        memset(piece, 'y', sizeof(piece));
        for (int i = 0; s->writes && i < 60; i++) {
                (void)sched_yield();
                n = write(s->fd, piece, sizeof(piece));
                s->bytes += n > 0 ? (size_t)n : 0;
        }
        while (!s->writes && (n = read(s->fd, piece, sizeof(piece))) > 0) {
                for (ssize_t i = 0; i < n; i++)
                        s->wrong += piece[i] != 'x';
                s->bytes += (size_t)n;
                (void)sched_yield();
        }
        if (s->writes)
                close_fd(&s->fd);
        return NULL;
}

static void pipes_carry_all_blocking_or_not(void)
{
        static const int flags[] = {0, O_NONBLOCK};
        static char much[300001];

        for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
                AUTO_PIPE up = pipe_with(0), down = pipe_with(0);
                struct slow writer = {.fd = TAKE_FD(up.fds[1]), .writes = true}, reader = {.fd = down.fds[0]};
                struct sg_error err = {0};

                CHECK(fcntl(up.fds[0], F_SETFL, flags[i]) == 0 && fcntl(down.fds[1], F_SETFL, flags[i]) == 0);
                SAY(ok_json(WRITTEN));
                CHECK(pthread_create(&writer.thread, NULL, go_slowly, &writer) == 0);
                CHECK_INT(sg_file_upload(box, "f", up.fds[0], NULL, NULL, &err), ==, 0);
                (void)pthread_join(writer.thread, NULL);
                CHECK_INT(writer.bytes, ==, 300000);
                memset(much, 'x', sizeof(much) - 1);
                SAY(with_status("200 OK", "", much));
                CHECK(pthread_create(&reader.thread, NULL, go_slowly, &reader) == 0);
                CHECK_INT(sg_file_download(box, "f", down.fds[1], NULL, NULL, &err), ==, 0);
                close_fd(&down.fds[1]);
                (void)pthread_join(reader.thread, NULL);
                CHECK_INT(reader.bytes, ==, 300000);
                CHECK_INT(reader.wrong, ==, 0);
        }
}

static void a_descriptor_that_fails_is_told(void)
{
        AUTO_PIPE p = pipe_with(0);
        struct sg_error err = {0};

        SAY(with_status("200 OK", "", "text"));
        CHECK_INT(sg_file_upload(box, "f", p.fds[1], NULL, NULL, &err), ==, -EBADF); /* the wrong end */
        CHECK(strstr(err.message, "read what is to be sent"));
        CHECK_INT(sg_file_download(box, "f", p.fds[0], NULL, NULL, &err), ==, -EBADF);
        CHECK(strstr(err.message, "write"));
}

int main(void)
{
        rig_start();
        RUN(a_large_body_is_sent_whole);
        RUN(a_large_body_is_sent_again_from_its_beginning);
        RUN(an_idle_pipe_does_not_hold_a_call_up);
        RUN(pipes_carry_all_blocking_or_not);
        RUN(a_descriptor_that_fails_is_told);
        return rig_end();
}
