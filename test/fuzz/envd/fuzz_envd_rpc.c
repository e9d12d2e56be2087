#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

#include "envd/envd.h"
#include "envd/router.h"
#include "fuzz.h"
#include "http/server.h"
#include "io/loop.h"

#define TURNS_MAX 100000
#define BODY_MAX (64u << 10)

/* Calls that change nothing outside: there is no process and no watcher. */
static const struct {
        const char *path, *type;
} methods[] = {
        {"process.Process/StreamInput", "application/connect+json"},
        {"process.Process/Connect", "application/connect+json"},
        {"process.Process/SendInput", "application/json"},
        {"process.Process/SendSignal", "application/json"},
        {"process.Process/Update", "application/json"},
        {"process.Process/CloseStdin", "application/json"},
        {"process.Process/List", "application/json"},
        {"filesystem.Filesystem/Stat", "application/json"},
        {"filesystem.Filesystem/GetWatcherEvents", "application/json"},
        {"filesystem.Filesystem/RemoveWatcher", "application/json"},
};

static struct envd envd;

static struct {
        struct task turn;
        int fd;
        unsigned turns;
        char answer[4096];
        size_t answer_n;
} client;

/* Each turn of the loop: take what was answered; the end of the connection ends the run. */
static void on_turn(struct task *t)
{
        char more[4096];
        ssize_t n = recv(client.fd, more, sizeof(more), MSG_DONTWAIT);

        if (n > 0 && client.answer_n < sizeof(client.answer)) {
                size_t room = sizeof(client.answer) - client.answer_n, take = (size_t)n < room ? (size_t)n : room;

                memcpy(client.answer + client.answer_n, more, take);
                client.answer_n += take;
        }
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
                loop_stop(envd.context.loop);
                return;
        }
        MUST(++client.turns < TURNS_MAX); /* every request is answered */
        loop_post(envd.context.loop, t);
}

static void setup(void)
{
        struct http_server_options opt = {.on_request = router_on_request, .arg = &envd};

        (void)signal(SIGPIPE, SIG_IGN);
        MUST(loop_create(&envd.context.loop) == 0 && settings_init(&envd.context.settings) == 0);
        opt.loop = envd.context.loop;
        process_table_init(&envd.processes, envd.context.loop);
        watchers_init(&envd.watchers);
        MUST(http_server_create(&opt, &envd.server) == 0);
        client.turn.run = on_turn;
}

static void say(const char *p, size_t n)
{
        MUST(send(client.fd, p, n, MSG_NOSIGNAL) == (ssize_t)n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        int ends[2], buffer = 4 * BODY_MAX;
        char head[512];
        size_t which;

        if (size == 0 || size > BODY_MAX)
                return 0;
        if (!envd.context.loop)
                setup();
        which = data[0] % ARRAY_LEN(methods);
        MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        (void)setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
        client.fd = ends[0];
        client.turns = 0;
        client.answer_n = 0;
        MUST(http_server_accept(envd.server, ends[1]) == 0);
        (void)snprintf(head, sizeof(head),
                       "POST /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: "
                       "%zu\r\n\r\n",
                       methods[which].path, methods[which].type, size - 1);
        say(head, strlen(head));
        if (size > 1)
                say((const char *)data + 1, size - 1);
        loop_post(envd.context.loop, &client.turn);
        MUST(loop_run(envd.context.loop) == 0);
        MUST(client.answer_n > 12 && memcmp(client.answer, "HTTP/1.1 ", 9) == 0);
        if (strstr(methods[which].type, "connect")) /* an error of a stream is told inside of it */
                MUST(memcmp(client.answer + 9, "200", 3) == 0);
        (void)close(client.fd);
        return 0;
}
