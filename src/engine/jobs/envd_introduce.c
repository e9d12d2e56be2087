#include "engine/jobs/envd_introduce.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "http/client.h"
#include "model/ids.h"

#define ANSWER_MS 20000u
#define ANSWER_BYTES_MAX 4096u

/* A socket to envd, connected or about to be.  The connection belongs to the namespace that the socket was made in. */
static int connect_inside(int netns, struct err *err)
{
        const struct sockaddr_in to = {
                .sin_family = AF_INET, .sin_port = htons(ENVD_PORT), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        AUTO_CLOSE int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), sock = -1;

        if (home < 0 || setns(netns, CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "enter network namespace");
        sock = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (setns(home, CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "leave network namespace");
        if (sock < 0 ||
            (connect(sock, (const struct sockaddr *)(const void *)&to, sizeof(to)) < 0 && errno != EINPROGRESS))
                return err_sys(err, -errno, "connect to envd");
        return TAKE_FD(sock);
}

/* What answers there is a program of the sandbox's: all of it together has one limit, however slowly it goes. */
static int post_init(struct http_client *client, const char *token, const char *body, struct err *err)
{
        const struct http_header headers[] = {{token ? "X-Access-Token" : NULL, token}, {NULL, NULL}};
        const struct http_call_options call = {.method = "POST",
                                               .target = "/init",
                                               .headers = headers,
                                               .content_type = "application/json",
                                               .body = str_of(body)};
        AUTO(http_answer_done) struct http_answer answer = {0};
        int r = http_client_run(client, &call, ANSWER_BYTES_MAX, &answer, err);

        if (r < 0) {
                if (err->kind != ERR_TIMEOUT)
                        err->kind = ERR_INTERNAL; /* trying again does not help */
                return r;
        }
        return answer.head.status / 100 == 2
                       ? 0
                       : err_set(err, ERR_INTERNAL, "envd refused to go on: status %u", answer.head.status);
}

int envd_introduce(int netns, const char *token, const json_t *init, struct err *err)
{
        const struct http_client_options opt = {
                .url = "http://envd",
                .uses_given_connection = true,
                .timeouts = {.connect_ms = ANSWER_MS, .idle_ms = ANSWER_MS, .total_ms = ANSWER_MS}};
        AUTO_FREE char *body = json_dumps(init, JSON_COMPACT);
        AUTO_CLOSE int sock = -1;
        struct http_client *client = NULL;
        int r;

        if (!body)
                return err_sys(err, -ENOMEM, "write down what envd is told");
        sock = connect_inside(netns, err);
        if (sock < 0)
                return sock;
        r = http_client_create(&opt, &client, err);
        if (r == 0)
                r = http_client_give(client, TAKE_FD(sock), err);
        if (r == 0)
                r = post_init(client, token, body, err);
        client = http_client_free(client);
        return r;
}
