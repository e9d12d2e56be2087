#include "engine/host/helper.h"

#include <errno.h>
#include <sys/socket.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"

static struct loop *loop;
static unsigned gone_count;

static void on_message(struct helper *h, const void *p, size_t n, int *fds, size_t nfds)
{
        (void)h, (void)p, (void)n;
        while (nfds > 0)
                close_fd(&fds[--nfds]);
}

static void on_gone(struct helper *h)
{
        (void)h;
        gone_count++;
        loop_stop(loop);
}

/* A helper whose end of the socket is the test's: closing it is its death. */
static bool start(struct helper *h, int *ret_theirs)
{
        int pair[2];

        gone_count = 0;
        *h = (struct helper){.on_message = on_message, .on_gone = on_gone};
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return false;
        *ret_theirs = pair[1];
        return helper_start(h, loop, pair[0]) == 0;
}

static void a_message_to_one_that_died_says_so(void)
{
        AUTO_CLOSE int theirs = -1;
        struct helper h;

        CHECK(start(&h, &theirs));
        close_fd(&theirs);
        CHECK_INT(helper_send(&h, "x", 1, NULL, 0), ==, -EPIPE);
        CHECK_INT(loop_run(loop), ==, 0);
        CHECK_INT(gone_count, ==, 1);
        CHECK_INT(helper_send(&h, "x", 1, NULL, 0), ==, -EPIPE);
}

static void one_that_died_with_unread_messages_is_no_different(void)
{
        AUTO_CLOSE int theirs = -1;
        struct helper h;

        CHECK(start(&h, &theirs));
        CHECK_INT(helper_send(&h, "x", 1, NULL, 0), ==, 0);
        close_fd(&theirs);
        for (int i = 0; i < 2; i++)
                CHECK_INT(helper_send(&h, "x", 1, NULL, 0), ==, -EPIPE);
        CHECK_INT(loop_run(loop), ==, 0);
        CHECK_INT(gone_count, ==, 1);
}

static void its_death_is_told_once_whatever_it_left_unread(void)
{
        for (int is_unread = 0; is_unread < 2; is_unread++) {
                AUTO_CLOSE int theirs = -1;
                struct helper h;

                CHECK(start(&h, &theirs));
                if (is_unread)
                        CHECK_INT(helper_send(&h, "x", 1, NULL, 0), ==, 0);
                close_fd(&theirs);
                CHECK_INT(loop_run(loop), ==, 0);
                CHECK_INT(gone_count, ==, 1);
                CHECK(!helper_is_running(&h));
        }
}

static void queued_messages_die_with_it(void)
{
        static const char message[HELPER_SEND_MAX];
        AUTO_CLOSE int theirs = -1;
        struct helper h;

        CHECK(start(&h, &theirs));
        for (int i = 0; i < 1000 && h.queued < 3; i++)
                CHECK_INT(helper_send(&h, message, sizeof(message), NULL, 0), ==, 0);
        CHECK_INT(h.queued, ==, 3);
        close_fd(&theirs);
        CHECK_INT(loop_run(loop), ==, 0);
        CHECK_INT(gone_count, ==, 1);
        CHECK_INT(h.queued, ==, 0);
}

int main(void)
{
        if (loop_create(&loop) < 0)
                return 1;
        RUN(a_message_to_one_that_died_says_so);
        RUN(one_that_died_with_unread_messages_is_no_different);
        RUN(its_death_is_told_once_whatever_it_left_unread);
        RUN(queued_messages_die_with_it);
        loop = loop_free(loop);
        return tap_done();
}
