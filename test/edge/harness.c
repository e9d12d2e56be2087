#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "edge/role.h"
#include "io/listener.h"
#include "io/tls.h"
#include "model/conf.h"

#define WAIT_MS 5000

/* ---- bytes ---- */

static bool wait_for(int fd, short what, int ms)
{
        struct pollfd p = {.fd = fd, .events = what};

        return poll(&p, 1, ms) == 1;
}

int say_bytes(int fd, const void *p, size_t n)
{
        const char *at = p;

        while (n) {
                ssize_t w;

                if (!wait_for(fd, POLLOUT, WAIT_MS))
                        return -1;
                w = send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (w < 0 && errno == EAGAIN)
                        continue;
                if (w <= 0)
                        return -1;
                at += w;
                n -= (size_t)w;
        }
        return 0;
}

int say(int fd, const char *text)
{
        return say_bytes(fd, text, strlen(text));
}

ssize_t hear_bytes(int fd, void *out, size_t n)
{
        size_t have = 0;

        while (have < n) {
                ssize_t r;

                if (!wait_for(fd, POLLIN, WAIT_MS))
                        return -1;
                r = recv(fd, (char *)out + have, n - have, 0);
                if (r < 0)
                        return -1;
                if (r == 0)
                        break;
                have += (size_t)r;
        }
        return (ssize_t)have;
}

ssize_t hear_head(int fd, char *out, size_t size)
{
        size_t n = 0;

        while (n + 1 < size) {
                if (hear_bytes(fd, out + n, 1) != 1) {
                        out[n] = 0;
                        printf("# head ended after: %s\n", out);
                        return -1;
                }
                n++;
                out[n] = 0;
                if (n >= 4 && memcmp(out + n - 4, "\r\n\r\n", 4) == 0)
                        return (ssize_t)n;
        }
        return -1;
}

bool has_line(const char *head, const char *line)
{
        char text[512];

        (void)snprintf(text, sizeof(text), "\r\n%s\r\n", line);
        return strcasestr(head, text) != NULL;
}

bool hears(int fd, const char *text)
{
        size_t n = strlen(text);
        AUTO_FREE char *got = calloc(1, n + 1);
        ssize_t r = got ? hear_bytes(fd, got, n) : -1;

        if (r == (ssize_t)n && memcmp(got, text, n) == 0)
                return true;
        printf("# heard \"%s\"\n", r < 0 ? "(nothing)" : got);
        return false;
}

enum end hear_end(int fd)
{
        char skip[4096];

        for (;;) {
                ssize_t n;

                if (!wait_for(fd, POLLIN, WAIT_MS))
                        return END_NONE;
                n = recv(fd, skip, sizeof(skip), 0);
                if (n == 0)
                        return END_CLEAN;
                if (n < 0)
                        return END_RESET;
        }
}

bool is_silent(int fd, int ms)
{
        return !wait_for(fd, POLLIN, ms);
}

/* ---- clients ---- */

int dial_client(const struct world *w)
{
        return dial_port(w->port);
}

int dial_port(uint16_t port)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        const int on = 1;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
                close_fd(&fd);
        if (fd >= 0)
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        return fd;
}

static ssize_t hear_chunks(int fd, char *out, size_t size)
{
        size_t n = 0;

        for (;;) {
                char line[64];
                size_t len = 0;
                unsigned long chunk;

                while (len < 2 || line[len - 1] != '\n') {
                        if (len + 1 >= sizeof(line) || hear_bytes(fd, line + len, 1) != 1)
                                return -1;
                        len++;
                }
                line[len] = 0;
                chunk = strtoul(line, NULL, 16);
                if (n + chunk + 2 >= size || hear_bytes(fd, out + n, chunk + 2) != (ssize_t)chunk + 2)
                        return -1;
                if (memcmp(out + n + chunk, "\r\n", 2) != 0)
                        return -1;
                n += chunk;
                out[n] = 0;
                if (chunk == 0)
                        return (ssize_t)n;
        }
}

int hear_answer(int fd, char *out, size_t size, const char **ret_body)
{
        ssize_t head = hear_head(fd, out, size);
        const char *length;
        size_t n;

        if (head < 0 || strncmp(out, "HTTP/1.1 ", 9) != 0)
                return -1;
        out[head - 1] = 0; /* the head as text, without its last line end */
        *ret_body = out + head;
        out[head] = 0;
        length = strcasestr(out, "\r\ncontent-length: ");
        if (strcasestr(out, "\r\ntransfer-encoding: chunked")) {
                if (hear_chunks(fd, out + head, size - (size_t)head) < 0)
                        return -1;
        } else if (length) {
                n = strtoul(length + 18, NULL, 10);
                if (n + 1 > size - (size_t)head || hear_bytes(fd, out + head, n) != (ssize_t)n)
                        return -1;
                out[(size_t)head + n] = 0;
        }
        return (int)strtol(out + 9, NULL, 10);
}

/* ---- channels ---- */

static json_t *hear_message(int fd)
{
        unsigned char head[5];
        char text[8192];
        size_t n;

        if (hear_bytes(fd, head, 5) != 5)
                return NULL;
        n = (size_t)head[2] << 8 | head[3];
        if (head[0] || head[1] || n > sizeof(text) || hear_bytes(fd, text, n) != (ssize_t)n)
                return NULL;
        return json_loadb(text, n, 0, NULL);
}

static bool say_message(int fd, json_t *msg, int pass)
{
        AUTO_FREE char *text = json_dumps(msg, JSON_COMPACT);
        size_t n = text ? strlen(text) : 0;
        unsigned char head[5] = {0, 0, (unsigned char)(n >> 8), (unsigned char)n, pass >= 0};
        struct iovec iov[2] = {{head, 5}, {text, n}};
        union {
                struct cmsghdr h;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {0};
        struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};

        json_decref(msg);
        if (pass >= 0) {
                control.h = (struct cmsghdr){
                        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
                memcpy(CMSG_DATA(&control.h), &pass, sizeof(pass));
                m.msg_control = &control;
                m.msg_controllen = sizeof(control.space);
        }
        return text && sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)(n + 5);
}

static json_int_t hear_op(int fd, const char *op, const char *id, int port)
{
        json_t *msg = hear_message(fd);
        const char *got_op = json_string_value(json_object_get(msg, "op"));
        const char *got_id = json_string_value(json_object_get(msg, "id"));
        json_int_t req = json_integer_value(json_object_get(msg, "req"));
        bool fits = got_op && strcmp(got_op, op) == 0 && (!id || (got_id && strcmp(got_id, id) == 0)) &&
                    (port == 0 || json_integer_value(json_object_get(msg, "port")) == port);

        if (!fits)
                printf("# message: %s %s, not %s %s\n", got_op ? got_op : "-", got_id ? got_id : "-", op,
                       id ? id : "-");
        json_decref(msg);
        return fits ? req : -1;
}

static json_t *error_answer(json_int_t req, const char *kind)
{
        return json_pack("{s:I, s:{s:s, s:s}}", "req", req, "error", "kind", kind, "message", "said the test");
}

bool give_route(struct world *w, const char *id, const char *token, const char *mask)
{
        json_int_t req = hear_op(w->routes_ch, "route", id, 0);
        json_t *route = json_pack("{s:s, s:s, s:s*, s:s*}", "id", id, "state", "running", "traffic_token", token,
                                  "mask_host", mask);

        return req >= 0 &&
               say_message(w->routes_ch, json_pack("{s:I, s:b, s:o}", "req", req, "ok", 1, "route", route), -1);
}

bool give_no_route(struct world *w, const char *id)
{
        json_int_t req = hear_op(w->routes_ch, "route", id, 0);

        return req >= 0 && say_message(w->routes_ch, error_answer(req, "not_found"), -1);
}

bool tell_gone(struct world *w, const char *id)
{
        return say_message(w->routes_ch, json_pack("{s:s, s:s}", "event", "gone", "id", id), -1);
}

bool tell_stopped(struct world *w, const char *id, long at_us)
{
        return say_message(w->routes_ch,
                           json_pack("{s:s, s:{s:s, s:s, s:b, s:I}}", "event", "route", "route", "id", id, "state",
                                     "paused", "resumes", 1, "at", (json_int_t)at_us),
                           -1);
}

static json_t *paused_route(const char *id, const char *state, const char *token, bool resumes)
{
        return json_pack("{s:s, s:s, s:s*, s:b}", "id", id, "state", state, "traffic_token", token, "resumes", resumes);
}

bool give_paused(struct world *w, const char *id, const char *token, bool resumes)
{
        json_int_t req = hear_op(w->routes_ch, "route", id, 0);

        return req >= 0 && say_message(w->routes_ch,
                                       json_pack("{s:I, s:b, s:o}", "req", req, "ok", 1, "route",
                                                 paused_route(id, "paused", token, resumes)),
                                       -1);
}

bool tell_state(struct world *w, const char *id, const char *state, bool resumes)
{
        return say_message(w->routes_ch,
                           json_pack("{s:s, s:o}", "event", "route", "route", paused_route(id, state, NULL, resumes)),
                           -1);
}

long hear_resume(struct world *w, const char *id, int port, const char *token)
{
        json_t *msg = hear_message(w->routes_ch);
        const char *op = json_string_value(json_object_get(msg, "op"));
        const char *got_id = json_string_value(json_object_get(msg, "id"));
        const char *got_token = json_string_value(json_object_get(msg, "access_token"));
        long req = (long)json_integer_value(json_object_get(msg, "req"));
        bool fits = op && strcmp(op, "resume") == 0 && got_id && strcmp(got_id, id) == 0 &&
                    json_integer_value(json_object_get(msg, "port")) == port && !token == !got_token &&
                    (!token || strcmp(token, got_token) == 0);

        if (!fits)
                printf("# message: %s %s, token %s\n", op ? op : "-", got_id ? got_id : "-",
                       got_token ? got_token : "-");
        json_decref(msg);
        return fits ? req : -1;
}

long hear_signed(struct world *w, const char *query, const char *operation)
{
        json_t *msg = hear_message(w->routes_ch);
        const char *op = json_string_value(json_object_get(msg, "op"));
        const char *got = json_string_value(json_object_get(msg, "query"));
        const char *what = json_string_value(json_object_get(msg, "operation"));
        long req = (long)json_integer_value(json_object_get(msg, "req"));
        bool fits = op && strcmp(op, "signed") == 0 && got && strcmp(got, query) == 0 && what &&
                    strcmp(what, operation) == 0;

        if (!fits)
                printf("# message: %s %s %s\n", op ? op : "-", what ? what : "-", got ? got : "-");
        json_decref(msg);
        return fits ? req : -1;
}

long hear_token(struct world *w, const char *token)
{
        json_t *msg = hear_message(w->routes_ch);
        const char *op = json_string_value(json_object_get(msg, "op"));
        const char *got = json_string_value(json_object_get(msg, "access_token"));
        long req = (long)json_integer_value(json_object_get(msg, "req"));
        bool fits = op && strcmp(op, "token") == 0 && got && strcmp(got, token) == 0;

        if (!fits)
                printf("# message: %s %s\n", op ? op : "-", got ? got : "-");
        json_decref(msg);
        return fits ? req : -1;
}

bool answer_signed(struct world *w, long req, const char *id)
{
        json_t *msg = id ? json_pack("{s:I, s:b, s:s}", "req", (json_int_t)req, "ok", 1, "id", id)
                         : json_pack("{s:I, s:{s:s, s:s}}", "req", (json_int_t)req, "error", "kind", "not_found",
                                     "message", "nobody signed it");

        return req >= 0 && say_message(w->routes_ch, msg, -1);
}

bool grant_resume(struct world *w, long req, const char *id)
{
        return req >= 0 && say_message(w->routes_ch,
                                       json_pack("{s:I, s:b, s:o}", "req", (json_int_t)req, "ok", 1, "route",
                                                 paused_route(id, "running", NULL, false)),
                                       -1);
}

bool refuse_resume(struct world *w, long req, const char *kind, const char *message)
{
        return req >= 0 && say_message(w->routes_ch,
                                       json_pack("{s:I, s:{s:s, s:s}}", "req", (json_int_t)req, "error", "kind", kind,
                                                 "message", message),
                                       -1);
}

/* A TCP pair: *ret_far is for the edge. */
static int tcp_pair(int *ret_far)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        AUTO_CLOSE int ln = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        socklen_t len = sizeof(at);
        AUTO_CLOSE int far = -1;
        int near;

        if (bind(ln, (struct sockaddr *)&at, len) < 0 || listen(ln, 1) < 0 ||
            getsockname(ln, (struct sockaddr *)&at, &len) < 0)
                return -1;
        far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(far, (struct sockaddr *)&at, sizeof(at)) < 0)
                return -1;
        near = accept4(ln, NULL, NULL, SOCK_CLOEXEC);
        (void)fcntl(far, F_SETFL, O_NONBLOCK);
        *ret_far = TAKE_FD(far);
        return near;
}

int give_socket_made(struct world *w, const char *id, int port, long at_us)
{
        json_int_t req = hear_op(w->dial_ch, "dial", id, port);
        AUTO_CLOSE int far = -1;
        int near;

        if (req < 0)
                return -1;
        near = tcp_pair(&far);
        if (near < 0 ||
            !say_message(w->dial_ch, json_pack("{s:I, s:b, s:I}", "req", req, "ok", 1, "at", (json_int_t)at_us), far))
                return -1;
        return near;
}

int give_socket(struct world *w, const char *id, int port)
{
        return give_socket_made(w, id, port, 0);
}

bool give_error(struct world *w, const char *kind)
{
        json_int_t req = hear_op(w->dial_ch, "dial", NULL, 0);

        return req >= 0 && say_message(w->dial_ch, error_answer(req, kind), -1);
}

int give_both(struct world *w, const char *id, int port)
{
        return give_route(w, id, NULL, NULL) ? give_socket(w, id, port) : -1;
}

static int accept_on(int ln)
{
        return wait_for(ln, POLLIN, WAIT_MS) ? accept4(ln, NULL, NULL, SOCK_CLOEXEC) : -1;
}

int accept_api(const struct world *w)
{
        return accept_on(w->api);
}

bool accept_routes(struct world *w)
{
        w->routes_ch = accept_on(w->routes);
        return w->routes_ch >= 0 && give_no_route(w, NULL);
}

bool accept_dial(struct world *w)
{
        w->dial_ch = accept_on(w->dial);
        return w->dial_ch >= 0;
}

void world_lose_control(struct world *w)
{
        close_fd(&w->routes_ch);
}

static bool answer_any(int ch, int *up)
{
        json_t *msg = hear_message(ch), *answer;
        const char *op = json_string_value(json_object_get(msg, "op"));
        const char *id = json_string_value(json_object_get(msg, "id"));
        json_int_t req = json_integer_value(json_object_get(msg, "req"));
        AUTO_CLOSE int far = -1;
        bool fine = op && id;

        if (fine && strcmp(op, "dial") == 0) {
                close_fd(up);
                *up = tcp_pair(&far);
                answer = json_pack("{s:I, s:b}", "req", req, "ok", 1);
        } else if (fine && strcmp(id, BOX_A) == 0) {
                answer = json_pack("{s:I, s:b, s:{s:s, s:s}}", "req", req, "ok", 1, "route", "id", BOX_A, "state",
                                   "running");
        } else {
                answer = error_answer(req, "not_found");
        }
        json_decref(msg);
        return say_message(ch, answer, far) && fine;
}

/* Whatever comes is one request; the answer is always the same. */
static bool answer_request(int fd)
{
        char skip[4096];
        ssize_t n = recv(fd, skip, sizeof(skip), 0);

        return n > 0 && say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") == 0;
}

static void take_channel(int ln, int *ch)
{
        close_fd(ch);
        *ch = accept4(ln, NULL, NULL, SOCK_CLOEXEC);
}

bool serve_until_heard(struct world *w, int c)
{
        AUTO_CLOSE int up = -1;

        for (;;) {
                struct pollfd p[] = {{w->routes, POLLIN, 0},  {w->dial, POLLIN, 0}, {w->routes_ch, POLLIN, 0},
                                     {w->dial_ch, POLLIN, 0}, {up, POLLIN, 0},      {c, POLLIN, 0}};

                if (poll(p, ARRAY_LEN(p), WAIT_MS) <= 0)
                        return false;
                if (p[5].revents)
                        return true;
                if (p[0].revents)
                        take_channel(w->routes, &w->routes_ch);
                else if (p[2].revents && !answer_any(w->routes_ch, &up))
                        close_fd(&w->routes_ch);
                if (p[1].revents)
                        take_channel(w->dial, &w->dial_ch);
                else if (p[3].revents && !answer_any(w->dial_ch, &up))
                        close_fd(&w->dial_ch);
                else if (p[4].revents && !answer_request(up))
                        close_fd(&up);
        }
}

/* ---- the world ---- */

void world_init(struct world *w)
{
        *w = (struct world){
                .api = -1, .routes = -1, .dial = -1, .routes_ch = -1, .dial_ch = -1, .http = -1, .https = -1};
        w->limits = edge_limits_default;
        w->limits.port_timeout_ms = 0; /* a port is open or it is not, unless the test is about that */
}

static int listen_below(const struct world *w, const char *name)
{
        char path[128];
        int fd = -1;

        (void)snprintf(path, sizeof(path), "%s/run/%s", w->dir, name);
        return listen_unix(path, 0600, &fd, NULL) < 0 ? -1 : fd;
}

static void run_edge(struct world *w)
{
        char cert[128], key[128], data[64];
        char domain[] = DOMAIN, level[] = "error";
        struct conf conf = {.data_dir = data, .domain = domain, .log_level = level};
        int r;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that crashes leaves nothing running */
        (void)snprintf(data, sizeof(data), "%s", w->dir);
        (void)snprintf(cert, sizeof(cert), "%s/ca/cert.pem", w->dir);
        (void)snprintf(key, sizeof(key), "%s/ca/key.pem", w->dir);
        close_fd(&w->api);
        close_fd(&w->routes);
        close_fd(&w->dial);
        conf.sandbox_connections_max = w->connections_max;
        conf.access_log = w->access_log;
        memset(&conf.fds, 0xff, sizeof(conf.fds)); /* -1: it has none of them */
        conf.fds.http = w->http;
        if (w->https >= 0) {
                conf.fds.https = w->https;
                conf.fds.tls_cert = open(cert, O_RDONLY | O_CLOEXEC);
                conf.fds.tls_key = open(key, O_RDONLY | O_CLOEXEC);
        }
        log_setup("edge", w->access_log ? LOG_INFO : LOG_WARN);
        if (w->in_edge)
                w->in_edge();
        r = edge_run(&conf, &w->limits);
        exit(r);
}

static int make_places(struct world *w)
{
        char path[128];
        struct err err = {0};

        (void)snprintf(w->dir, sizeof(w->dir), "/tmp/edge-test-XXXXXX");
        if (!mkdtemp(w->dir))
                return -1;
        (void)snprintf(path, sizeof(path), "%s/run", w->dir);
        if (mkdir(path, 0700) < 0)
                return -1;
        if (w->https != -1) { /* asked for by -2 */
                (void)snprintf(path, sizeof(path), "%s/ca", w->dir);
                if (mkdir(path, 0700) < 0 || tls_local_ca(path, "box.test", &err) < 0 ||
                    listen_tcp(STR("127.0.0.1:0"), true, &w->https, &err) < 0 ||
                    socket_port(w->https, &w->tls_port) < 0)
                        return -1;
        }
        w->api = listen_below(w, "api.sock");
        w->routes = listen_below(w, "routes.sock");
        w->dial = listen_below(w, "dial.sock");
        return w->api < 0 || w->routes < 0 || w->dial < 0 ? -1 : 0;
}

int world_launch(struct world *w)
{
        struct err err = {0};

        if (make_places(w) < 0 || listen_tcp(STR("127.0.0.1:0"), true, &w->http, &err) < 0 ||
            socket_port(w->http, &w->port) < 0 ||
            (w->send_buffer &&
             setsockopt(w->http, SOL_SOCKET, SO_SNDBUF, &w->send_buffer, sizeof(w->send_buffer)) < 0)) {
                printf("# cannot start: %s %s\n", err.msg, strerror(errno));
                return -1;
        }
        (void)fflush(stdout);
        w->edge = fork();
        if (w->edge == 0)
                run_edge(w);
        close_fd(&w->http);
        if (w->https >= 0)
                close_fd(&w->https);
        return w->edge < 0 ? -1 : 0;
}

int world_start(struct world *w)
{
        if (world_launch(w) < 0)
                return -1;
        return accept_dial(w) && accept_routes(w) ? 0 : -1;
}

int world_signal(struct world *w)
{
        return kill(w->edge, SIGTERM);
}

int world_stop(struct world *w)
{
        int status = 0;

        if (w->edge <= 0)
                return -1;
        (void)kill(w->edge, SIGTERM);
        for (int i = 0; i < 700; i++) { /* a child's end has no fd to wait for without pidfd; ten ms at a time */
                if (waitpid(w->edge, &status, WNOHANG) == w->edge) {
                        w->edge = 0;
                        return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
                }
                (void)poll(NULL, 0, 10);
        }
        return -1;
}

static void remove_places(const struct world *w)
{
        static const char *const names[] = {"run/api.sock", "run/routes.sock", "run/dial.sock", "ca/ca.pem",
                                            "ca/ca.key",    "ca/cert.pem",     "ca/key.pem"};
        char path[128];

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                (void)snprintf(path, sizeof(path), "%s/%s", w->dir, names[i]);
                (void)unlink(path);
        }
        (void)snprintf(path, sizeof(path), "%s/run", w->dir);
        (void)rmdir(path);
        (void)snprintf(path, sizeof(path), "%s/ca", w->dir);
        (void)rmdir(path);
        (void)rmdir(w->dir);
}

void world_end(struct world *w)
{
        if (w->edge > 0) {
                (void)kill(w->edge, SIGKILL);
                (void)waitpid(w->edge, NULL, 0);
        }
        close_fd(&w->api);
        close_fd(&w->routes);
        close_fd(&w->dial);
        close_fd(&w->routes_ch);
        close_fd(&w->dial_ch);
        if (w->dir[0])
                remove_places(w);
}

int open_tunnel(struct world *w, int c)
{
        int up;

        if (say(c, REQUEST("GET", "/ws", HOST_A("6080"), WEBSOCKET)) < 0)
                return -1;
        up = give_both(w, BOX_A, 6080);
        return hears(up, REQUEST("GET", "/ws", HOST_A("6080"), WEBSOCKET)) && say(up, SWITCH) == 0 && hears(c, SWITCH)
                       ? up
                       : -1;
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

long world_rss_kb(const struct world *w)
{
        char path[64], line[256];
        long kb = -1;
        FILE *f;

        if (SANITIZED)
                return 0; /* what is freed is kept to be watched: the size says nothing */
        (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)w->edge);
        f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f))
                if (strncmp(line, "VmRSS:", 6) == 0)
                        kb = strtol(line + 6, NULL, 10);
        if (f)
                (void)fclose(f);
        return kb;
}
