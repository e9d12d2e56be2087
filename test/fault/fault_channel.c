#include <errno.h>
#include <sys/socket.h>

#include "fault.h"
#include "io/channel.h"
#include "io/loop.h"

static struct loop *loop;

struct peer {
        struct channel *ch;
        unsigned messages, closes;
        size_t nfds;
};

static void on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        struct peer *p = arg;

        (void)ch, (void)fds;
        p->messages += json_is_object(msg);
        p->nfds = nfds;
}
static void on_close(struct channel *ch, const char *reason, void *arg)
{
        struct peer *p = arg;

        p->closes += reason != NULL;
        p->ch = channel_free(ch);
}
static const struct channel_ops ops = {on_message, on_close};

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

static int talk(struct peer *a, struct peer *b)
{
        int fds[2] = {0, 1};
        int r = 0;

        for (int i = 0; i < 3 && r == 0; i++)
                r = channel_send(a->ch, json_pack("{s:s,s:i}", "op", "dial", "req", i), fds, i == 1 ? 2 : 0);
        turns(4);
        /* Either all of it arrived, or whoever could not go on said so. */
        MUST(r < 0 || b->messages == 3 || b->closes == 1);
        MUST(r == 0 || fault_was_hit());
        MUST(!b->closes || fault_was_hit());
        return r;
}

static int messages_arrive_or_the_channel_closes(void)
{
        struct peer a = {0}, b = {0};
        int s[2], r;

        r = loop_create(&loop);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) < 0)
                return BROKEN("socketpair");
        r = channel_create(loop, s[0], &ops, &a, &a.ch);
        MUST((r == 0) == (a.ch != NULL));
        if (r == 0)
                r = channel_create(loop, s[1], &ops, &b, &b.ch);
        else
                close_fd(&s[1]);
        if (r == 0)
                r = talk(&a, &b);
        a.ch = channel_free(a.ch);
        b.ch = channel_free(b.ch);
        loop = loop_free(loop);
        return r;
}

static int a_full_queue_is_released(void)
{
        struct peer a = {0};
        int s[2], fd = 0, r;
        char text[4000] = {0};

        for (size_t i = 0; i < sizeof(text) - 1; i++)
                text[i] = 'x';
        r = loop_create(&loop);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) < 0)
                return BROKEN("socketpair");
        r = channel_create(loop, s[0], &ops, &a, &a.ch);
        for (int i = 0; i < 100 && r == 0; i++) /* more than the socket takes */
                r = channel_send(a.ch, json_pack("{s:s}", "text", text), &fd, 1);
        a.ch = channel_free(a.ch);
        close_fd(&s[1]);
        loop = loop_free(loop);
        return r;
}

int main(void)
{
        EACH(messages_arrive_or_the_channel_closes);
        EACH(a_full_queue_is_released);
        return fault_done();
}
