#include "engine/net/passage_keeper.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "sys/netlink.h"
#include "sys/scm.h"

#define LEGACY_MS 3000 /* iptables-legacy has no event */
#define BETWEEN_MS 200 /* some hosts change their rules all the time */
#define STOP_MS 20000  /* a program of the host's that is under way */

_Static_assert(sizeof(struct passage_report) <= HELPER_MESSAGE_MAX, "a report is one message");

/* ------------------------------------------------------------- the helper */

static void forget_events(int events)
{
        char bytes[512];
        ssize_t n;

        do
                n = recv(events, bytes, sizeof(bytes), MSG_TRUNC);
        while (n > 0 || (n < 0 && (errno == ENOBUFS || errno == EINTR)));
}

/* Until the rules may have changed; false: the engine is gone. */
static bool wait_for_change(int sock, int events)
{
        struct pollfd p[] = {{.fd = sock, .events = POLLIN}, {.fd = events, .events = POLLIN}};

        if (poll(p, 1, BETWEEN_MS) > 0) /* it sends nothing: this is its end */
                return false;
        if (poll(p, 2, LEGACY_MS) < 0 && errno != EINTR)
                return false;
        if (p[1].revents)
                forget_events(events);
        return !p[0].revents;
}

static _Noreturn void run_passage_keeper(const struct instance *in, int sock)
{
        AUTO_CLOSE int events = netlink_open_table_events(); /* negative: poll(2) passes over it, and time does */
        struct passage_report now = {0}, before = {.outcome = PASSAGE_BLOCKED};

        do {
                passage_open(in, &now);
                if (now.outcome == before.outcome && strcmp(now.text, before.text) == 0)
                        continue;
                if (scm_send(sock, &now, sizeof(now), NULL, 0) < 0)
                        break;
                before = now;
        } while (wait_for_change(sock, events));
        _exit(0);
}

/* ------------------------------------------------------------- the engine's end */

static void on_passage_report(struct helper *h, const void *msg, size_t n, int *fds, size_t nfds)
{
        struct passage_keeper *k = CONTAINER_OF(h, struct passage_keeper, helper);
        enum passage_outcome before = k->last.outcome;

        for (size_t i = 0; i < nfds; i++)
                close_fd(&fds[i]);
        if (n != sizeof(k->last))
                return;
        memcpy(&k->last, msg, sizeof(k->last));
        k->last.text[sizeof(k->last.text) - 1] = '\0';
        if (k->last.outcome == PASSAGE_BLOCKED)
                log_error("firewall.blocked", "by=\"%s\", sandboxes do not get out", k->last.text);
        else if (k->last.outcome == PASSAGE_OPEN)
                log_info("firewall.passage", "through=\"%s\"", k->last.text);
        else if (before != PASSAGE_FREE)
                log_info("firewall.passage", "through=\"\", no other firewall drops what sandboxes send");
}

static int passage_keeper_fork(struct helper *h, struct err *err)
{
        struct passage_keeper *k = CONTAINER_OF(h, struct passage_keeper, helper);
        int sock = -1, r;
        pid_t pid = helper_fork("sg-passage", &sock, 0, &sock);

        if (pid < 0)
                return err_sys(err, pid, "fork the passage keeper");
        if (pid == 0)
                run_passage_keeper(k->instance, sock);
        r = helper_start(h, h->home, sock);
        return r < 0 ? err_sys(err, r, "watch the passage keeper") : 0;
}

int passage_keeper_start(struct passage_keeper *k, struct loop *l, const struct instance *in, struct err *err)
{
        *k = (struct passage_keeper){.instance = in};
        k->helper.name = "passage";
        k->helper.on_message = on_passage_report;
        k->helper.again = passage_keeper_fork;
        k->helper.home = l;
        return passage_keeper_fork(&k->helper, err);
}

void passage_keeper_stop(struct passage_keeper *k)
{
        helper_finish(&k->helper, STOP_MS);
}
