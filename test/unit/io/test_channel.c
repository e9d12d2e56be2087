#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "io/channel.h"

static struct loop *loop;

struct peer { /* a channel and what it got */
        struct channel *ch;
        unsigned messages, closes;
        unsigned stop_after; /* messages */
        json_t *last;
        int fds[CHANNEL_FDS_MAX];
        size_t nfds;
        char reason[80];
        bool keeps_fds, frees_on_message;
        int64_t sum;
};

static void on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        struct peer *p = arg;

        json_decref(p->last);
        p->last = json_incref(msg);
        p->nfds = nfds;
        p->sum += json_integer_value(json_object_get(msg, "n"));
        for (size_t i = 0; i < nfds; i++) {
                p->fds[i] = fds[i];
                if (p->keeps_fds)
                        fds[i] = -1;
        }
        if (++p->messages == p->stop_after)
                loop_stop(loop);
        if (p->frees_on_message)
                p->ch = channel_free(ch);
}
static void on_close(struct channel *ch, const char *reason, void *arg)
{
        struct peer *p = arg;

        p->closes++;
        (void)snprintf(p->reason, sizeof(p->reason), "%s", reason);
        p->ch = channel_free(ch);
        loop_stop(loop);
}
static const struct channel_ops ops = {on_message, on_close};

static void peer_done(struct peer *p)
{
        p->ch = channel_free(p->ch);
        json_decref(p->last);
        p->last = NULL;
}
#define AUTO_PEER AUTO(peer_done)

static size_t open_fds(void)
{
        size_t n = 0;
        DIR *d = opendir("/proc/self/fd");

        while (d && readdir(d))
                n++;
        closedir(d);
        return n;
}

static void give_up(struct timer *t)
{
        (void)t;
        printf("# nothing happened for 5 s\n");
        tap_case_failed = 1;
        loop_stop(loop);
}
static void run(void)
{
        struct timer limit = {.on = give_up};

        timer_set(loop, &limit, 5000);
        (void)loop_run(loop);
        timer_clear(&limit);
}
static void drain_task(struct task *t)
{
        (void)t;
        loop_stop(loop);
}
static void run_some(void)
{
        for (int i = 0; i < 4; i++) {
                struct task t = {.run = drain_task};

                loop_post(loop, &t);
                (void)loop_run(loop);
        }
}

static int make_pair(struct peer *a, struct peer *b)
{
        int s[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) < 0)
                return -errno;
        if (channel_create(loop, s[0], &ops, a, &a->ch) < 0 || channel_create(loop, s[1], &ops, b, &b->ch) < 0)
                return -ENOMEM;
        return 0;
}

/* A channel and the raw other end, for peers that misbehave. */
static int make_raw(struct peer *a, int *ret_raw)
{
        int s[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) < 0)
                return -errno;
        *ret_raw = s[1];
        return channel_create(loop, s[0], &ops, a, &a->ch);
}

static int raw_send(int fd, const void *p, size_t n, const int *fds, size_t nfds)
{
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {0};
        struct iovec iov = {(void *)(uintptr_t)p, n};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

        if (nfds) {
                struct cmsghdr *c = (void *)control;

                msg.msg_control = control;
                msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
                *c = (struct cmsghdr){CMSG_LEN(nfds * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
                memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
        }
        return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)n ? 0 : -errno;
}

static void messages_arrive_in_order_both_ways(void)
{
        AUTO_PEER struct peer a = {0}, b = {.stop_after = 3};

        CHECK_INT(make_pair(&a, &b), ==, 0);
        for (int i = 1; i <= 3; i++)
                CHECK_INT(channel_send(a.ch, json_pack("{s:i}", "n", i), NULL, 0), ==, 0);
        CHECK_INT(channel_send(b.ch, json_pack("{s:s}", "op", "hello"), NULL, 0), ==, 0);
        run();
        run_some();
        CHECK_INT(b.messages, ==, 3);
        CHECK_INT(json_integer_value(json_object_get(b.last, "n")), ==, 3);
        CHECK_STR(json_string_value(json_object_get(a.last, "op")), "hello");
}

static void fds_arrive_with_their_message(void)
{
        AUTO_PEER struct peer a = {0}, b = {.stop_after = 3, .keeps_fds = true};
        int p[2];
        char c = 0;
        size_t before = open_fds();

        CHECK(pipe2(p, O_CLOEXEC) == 0);
        CHECK_INT(make_pair(&a, &b), ==, 0);
        CHECK_INT(channel_send(a.ch, json_pack("{s:i}", "n", 1), NULL, 0), ==, 0);
        CHECK_INT(channel_send(a.ch, json_pack("{s:i}", "n", 1), NULL, 0), ==, 0);
        CHECK_INT(channel_send(a.ch, json_pack("{s:i}", "n", 1), p, 2), ==, 0);
        run();
        CHECK_INT(b.nfds, ==, 2);
        CHECK(fcntl(b.fds[0], F_GETFD) == FD_CLOEXEC && fcntl(b.fds[1], F_GETFD) == FD_CLOEXEC);
        CHECK(write(b.fds[1], "x", 1) == 1 && read(p[0], &c, 1) == 1 && c == 'x');
        close(b.fds[0]), close(b.fds[1]), close(p[0]), close(p[1]);
        peer_done(&a);
        peer_done(&b);
        CHECK_INT(open_fds(), ==, before);
}

static void fds_not_kept_are_closed(void)
{
        AUTO_PEER struct peer a = {0}, b = {.stop_after = 1};
        int p[2];
        size_t before;

        CHECK_INT(make_pair(&a, &b), ==, 0);
        CHECK(pipe2(p, O_CLOEXEC) == 0);
        before = open_fds();
        CHECK_INT(channel_send(a.ch, json_pack("{}"), p, 2), ==, 0);
        run();
        CHECK_INT(b.nfds, ==, 2);
        CHECK_INT(open_fds(), ==, before);
        close(p[0]), close(p[1]);
}

static void large_messages_and_fds_wait_in_the_queue(void)
{
        AUTO_PEER struct peer a = {0}, b = {0};
        AUTO_FREE char *big = malloc(1 << 20);
        int p[2], sent = 0, r = 0;
        size_t before = open_fds();

        CHECK(big);
        memset(big, 'x', 1 << 20);
        CHECK_INT(make_pair(&a, &b), ==, 0);
        CHECK(pipe2(p, O_CLOEXEC) == 0);
        for (; sent < 100; sent++) {
                r = channel_send(a.ch, json_pack("{s:i,s:s%}", "n", 1, "s", big, (size_t)1 << 20), p, 1);
                if (r < 0)
                        break;
        }
        CHECK_INT(r, ==, -ENOBUFS); /* bounded */
        CHECK_INT(sent, >=, 12);
        CHECK_INT(sent, <=, 17);
        close(p[0]), close(p[1]); /* the queue has its own */
        b.stop_after = (unsigned)sent;
        run();
        CHECK_INT(b.messages, ==, sent);
        CHECK_INT(b.sum, ==, sent);
        CHECK_INT(b.nfds, ==, 1);
        CHECK_INT(channel_send(a.ch, json_pack("{s:i}", "n", 1), NULL, 0), ==, 0); /* usable again */
        b.stop_after++;
        run();
        peer_done(&a);
        peer_done(&b);
        CHECK_INT(open_fds(), ==, before);
}

static void a_channel_freed_with_a_full_queue_leaves_no_fd(void)
{
        AUTO_PEER struct peer a = {0}, b = {0};
        AUTO_FREE char *big = calloc(1, 1 << 20);
        size_t before = open_fds();
        int p[2];

        CHECK(big);
        memset(big, 'x', (1 << 20) - 1);
        CHECK_INT(make_pair(&a, &b), ==, 0);
        CHECK(pipe2(p, O_CLOEXEC) == 0);
        for (int i = 0; i < 6; i++)
                CHECK_INT(channel_send(a.ch, json_pack("{s:s}", "s", big), p, 2), ==, 0);
        close(p[0]), close(p[1]);
        peer_done(&a);
        peer_done(&b);
        CHECK_INT(open_fds(), ==, before);
}

static void too_large_and_wrong_messages_are_refused_at_the_sender(void)
{
        AUTO_PEER struct peer a = {0}, b = {0};
        AUTO_FREE char *big = malloc(CHANNEL_MESSAGE_MAX);
        int fds[CHANNEL_FDS_MAX + 1] = {0}, bad = 9999;

        CHECK(big);
        memset(big, 'x', CHANNEL_MESSAGE_MAX);
        CHECK_INT(make_pair(&a, &b), ==, 0);
        CHECK_INT(channel_send(a.ch, json_pack("{s:s%}", "s", big, (size_t)CHANNEL_MESSAGE_MAX), NULL, 0), ==, -E2BIG);
        CHECK_INT(channel_send(a.ch, json_array(), NULL, 0), ==, -EINVAL);
        CHECK_INT(channel_send(a.ch, NULL, NULL, 0), ==, -EINVAL);
        CHECK_INT(channel_send(a.ch, json_object(), fds, CHANNEL_FDS_MAX + 1), ==, -EINVAL);
        CHECK_INT(channel_send(a.ch, json_object(), &bad, 1), ==, -EBADF);
        CHECK_INT(channel_send(a.ch, json_pack("{s:i}", "n", 7), NULL, 0), ==, 0); /* none of that did harm */
        b.stop_after = 1;
        run();
        CHECK_INT(b.sum, ==, 7);
}

static void the_peers_end_closes_once(void)
{
        AUTO_PEER struct peer a = {0}, b = {0};

        CHECK_INT(make_pair(&a, &b), ==, 0);
        CHECK_INT(channel_send(a.ch, json_pack("{s:i}", "n", 5), NULL, 0), ==, 0);
        a.ch = channel_free(a.ch);
        run();
        CHECK_INT(b.sum, ==, 5); /* what was sent before still counts */
        CHECK_INT(b.closes, ==, 1);
        CHECK_STR(b.reason, "peer left");
        CHECK_INT(a.closes, ==, 0);
}

static void sending_to_a_gone_peer_fails_and_then_closes_from_the_loop(void)
{
        AUTO_PEER struct peer a = {0}, b = {0};

        CHECK_INT(make_pair(&a, &b), ==, 0);
        CHECK_INT(channel_send(a.ch, json_pack("{s:i}", "n", 5), NULL, 0), ==, 0);
        a.ch = channel_free(a.ch);
        CHECK_INT(channel_send(b.ch, json_object(), NULL, 0), ==, -EPIPE);
        CHECK_INT(channel_send(b.ch, json_object(), NULL, 0), ==, -EPIPE);
        CHECK_INT(b.closes, ==, 0);
        run();
        CHECK_INT(b.sum, ==, 5);
        CHECK_INT(b.closes, ==, 1);
}

static void it_may_be_freed_inside_on_message(void)
{
        AUTO_PEER struct peer a = {0}, b = {.stop_after = 1, .frees_on_message = true};

        CHECK_INT(make_pair(&a, &b), ==, 0);
        CHECK_INT(channel_send(a.ch, json_object(), NULL, 0), ==, 0);
        CHECK_INT(channel_send(a.ch, json_object(), NULL, 0), ==, 0);
        run();
        CHECK_INT(b.messages, ==, 1);
        CHECK_INT(b.closes, ==, 0);
}

static void bytes_one_at_a_time_make_a_message(void)
{
        static const char frame[] = "\0\0\0\7\1{\"n\":3}";
        AUTO_PEER struct peer a = {0};
        AUTO_CLOSE int raw = -1;
        int zero = 0;

        CHECK_INT(make_raw(&a, &raw), ==, 0);
        for (size_t i = 0; i < sizeof(frame) - 1; i++) {
                CHECK_INT(a.messages, ==, 0);
                CHECK_INT(raw_send(raw, frame + i, 1, &zero, i == 0), ==, 0);
                run_some();
        }
        CHECK_INT(a.messages, ==, 1);
        CHECK_INT(a.sum, ==, 3);
        CHECK_INT(a.nfds, ==, 1);
        CHECK_INT(a.closes, ==, 0);
}

/* Every kind of wrong frame ends the channel and leaves no fd open. */
static void hostile_frames_close_the_channel(void)
{
        static const struct {
                const char *bytes;
                size_t n, nfds, first; /* `first`: bytes sent before without fds */
        } bad[] = {
                {"\0\0\0\0\0", 5, 0, 0},                       /* empty */
                {"\0\0\0\1\0{", 6, 0, 0},                      /* too short for an object */
                {"\0\x40\0\1\0", 5, 0, 0},                     /* over the maximum */
                {"\xff\xff\xff\xff\0", 5, 0, 0},               /* far over */
                {"\0\0\0\2\0[]", 7, 0, 0},                     /* no object */
                {"\0\0\0\2\0{x", 7, 0, 0},                     /* no JSON */
                {"\0\0\0\17\0{\"a\":1,\"a\":2} ", 20, 0, 0},   /* repeated key */
                {"\0\0\0\3\0{}\0", 8, 0, 0},                   /* NUL behind the object */
                {"\0\0\0\2\1{}", 7, 0, 0},                     /* announced fd missing */
                {"\0\0\0\2\0{}", 7, 1, 0},                     /* fd not announced */
                {"\0\0\0\2\2{}", 7, 1, 0},                     /* fewer */
                {"\0\0\0\2\1{}", 7, 2, 0},                     /* more */
                {"\0\0\0\2\377{}", 7, CHANNEL_FDS_MAX + 1, 0}, /* more than there is room for */
                {"\0\0\0\2\15{}", 7, 40, 0},
                {"\0\0\0\2\1{}", 7, 1, 3}, /* in the middle of the head */
                {"\0\0\0\2\0{}", 7, 1, 6}, /* in the text */
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                AUTO_PEER struct peer a = {0};
                AUTO_CLOSE int raw = -1;
                int fds[64] = {0};
                size_t before = open_fds();

                CHECK_INT(make_raw(&a, &raw), ==, 0);
                if (bad[i].first) {
                        CHECK_INT(raw_send(raw, bad[i].bytes, bad[i].first, NULL, 0), ==, 0);
                        run_some();
                }
                CHECK_INT(raw_send(raw, bad[i].bytes + bad[i].first, bad[i].n - bad[i].first, fds, bad[i].nfds), ==, 0);
                run_some();
                if (a.closes != 1)
                        printf("# case %zu\n", i);
                CHECK_INT(a.closes, ==, 1);
                CHECK_INT(a.messages, ==, 0);
                close_fd(&raw);
                CHECK_INT(open_fds(), ==, before);
        }
}

static void a_peer_that_leaves_within_a_frame_is_noticed(void)
{
        AUTO_PEER struct peer a = {0};
        size_t before = open_fds();
        int raw = -1, zero = 0;

        CHECK_INT(make_raw(&a, &raw), ==, 0);
        CHECK_INT(raw_send(raw, "\0\0\0\11\1{", 6, &zero, 1), ==, 0);
        run_some();
        close(raw);
        run();
        CHECK_STR(a.reason, "peer left in the middle of a frame");
        CHECK_INT(open_fds(), ==, before);
}

/* Without room for the fds the kernel drops some: the message cannot be used. */
static void running_out_of_fds_closes_the_channel_and_leaks_none(void)
{
        AUTO_PEER struct peer a = {0}, b = {0};
        struct rlimit old, tight;
        int fds[4] = {0, 0, 0, 0};
        size_t before;

        CHECK_INT(make_pair(&a, &b), ==, 0);
        before = open_fds();
        CHECK_INT(channel_send(a.ch, json_object(), fds, 4), ==, 0);
        CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
        tight = old;
        tight.rlim_cur = before - 2; /* "." and ".." are counted, the directory's own fd is gone again: one is left */
        CHECK(setrlimit(RLIMIT_NOFILE, &tight) == 0);
        run();
        CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
        CHECK_INT(b.messages, ==, 0);
        CHECK_INT(b.closes, ==, 1);
        CHECK_INT(open_fds(), ==, before - 1);
}

int main(void)
{
        if (loop_create(&loop) < 0)
                return 1;
        RUN(messages_arrive_in_order_both_ways);
        RUN(fds_arrive_with_their_message);
        RUN(fds_not_kept_are_closed);
        RUN(large_messages_and_fds_wait_in_the_queue);
        RUN(a_channel_freed_with_a_full_queue_leaves_no_fd);
        RUN(too_large_and_wrong_messages_are_refused_at_the_sender);
        RUN(the_peers_end_closes_once);
        RUN(sending_to_a_gone_peer_fails_and_then_closes_from_the_loop);
        RUN(it_may_be_freed_inside_on_message);
        RUN(bytes_one_at_a_time_make_a_message);
        RUN(hostile_frames_close_the_channel);
        RUN(a_peer_that_leaves_within_a_frame_is_noticed);
        RUN(running_out_of_fds_closes_the_channel_and_leaks_none);
        loop = loop_free(loop);
        return tap_done();
}
