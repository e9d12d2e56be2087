#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/err.h"
#include "io/listener.h"

static struct loop *loop;
static int accepted[8];
static size_t accepted_count, accepted_wanted;

static void on_conn(struct listener *ln, int fd)
{
        (void)ln;
        accepted[accepted_count++ % ARRAY_LEN(accepted)] = fd;
        if (accepted_count == accepted_wanted)
                loop_stop(loop);
}

static int connect_to(uint16_t port)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0) {
                close(fd);
                return -errno;
        }
        return fd;
}

static void tcp_connections_are_accepted_nonblocking_and_without_delay(void)
{
        struct listener ln;
        struct err err = {0};
        AUTO_CLOSE int c = -1;
        socklen_t len = sizeof(int);
        int fd = -1, nodelay = 0;
        uint16_t port = 0;

        accepted_count = 0, accepted_wanted = 1;
        CHECK_INT(listen_tcp(STR("127.0.0.1:0"), false, &fd, &err), ==, 0);
        CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        CHECK_INT(socket_port(fd, &port), ==, 0);
        CHECK_INT(listener_start(&ln, loop, fd, on_conn, NULL), ==, 0);
        c = connect_to(port);
        CHECK_INT(c, >=, 0);
        CHECK_INT(loop_run(loop), ==, 0);
        CHECK(fcntl(accepted[0], F_GETFL) & O_NONBLOCK);
        CHECK(fcntl(accepted[0], F_GETFD) & FD_CLOEXEC);
        CHECK(getsockopt(accepted[0], IPPROTO_TCP, TCP_NODELAY, &nodelay, &len) == 0 && nodelay);
        close(accepted[0]);
        listener_stop(&ln);
        listener_stop(&ln);
        CHECK_INT(connect_to(port), <, 0);
}

static void local_connections_are_not_paced(void)
{
        static const struct {
                const char *addr;
                bool is_local;
        } cases[] = {{"127.0.0.1:0", true}, {"[::1]:0", true}, {"0.0.0.0:0", false}};

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_CLOSE int fd = -1, other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                char name[16] = "", usual[16] = "";
                socklen_t len = sizeof(name), usual_len = sizeof(usual);
                struct err err = {0};

                if (listen_tcp(str_of(cases[i].addr), false, &fd, &err) < 0 && err.sys == EADDRNOTAVAIL)
                        continue; /* no IPv6 here */
                CHECK_INT(getsockopt(other, IPPROTO_TCP, TCP_CONGESTION, usual, &usual_len), ==, 0);
                CHECK_INT(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len), ==, 0);
                CHECK_STR(name, cases[i].is_local ? "reno" : usual);
        }
}

static void a_taken_address_is_a_conflict_unless_the_port_is_shared(void)
{
        AUTO_CLOSE int a = -1, b = -1, c = -1, d = -1;
        struct err err = {0};
        char addr[40];
        uint16_t port;

        CHECK_INT(listen_tcp(STR("127.0.0.1:0"), true, &a, &err), ==, 0);
        CHECK_INT(socket_port(a, &port), ==, 0);
        (void)snprintf(addr, sizeof(addr), "127.0.0.1:%u", port);
        CHECK_INT(listen_tcp(str_of(addr), true, &b, &err), ==, 0);
        CHECK_INT(listen_tcp(str_of(addr), false, &c, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_CONFLICT);
        CHECK(strstr(err.msg, addr) && strstr(err.msg, "in use"));
        CHECK_INT(d, ==, -1);
}

static void all_addresses_and_ipv6_are_understood(void)
{
        AUTO_CLOSE int any = -1, six = -1, c = -1;
        struct err err = {0};
        uint16_t port;

        CHECK_INT(listen_tcp(STR(":0"), false, &any, &err), ==, 0);
        CHECK_INT(socket_port(any, &port), ==, 0);
        c = connect_to(port);
        CHECK_INT(c, >=, 0);
        if (listen_tcp(STR("[::1]:0"), false, &six, &err) < 0)
                CHECK_INT(err.kind, ==, ERR_INTERNAL); /* a machine without IPv6 */
}

static void strange_addresses_are_refused(void)
{
        static const char *const bad[] = {"",
                                          ":",
                                          "3000",
                                          "127.0.0.1",
                                          "127.0.0.1:",
                                          "127.0.0.1:65536",
                                          "a:1",
                                          "::1:3000",
                                          "[::1:3000",
                                          "[]:1",
                                          "1.2.3.4:-1",
                                          "1.2.3.4: 1",
                                          "1.2.3.4.5:1",
                                          "[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]:1"};

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct err err = {0};
                int fd = -7;

                CHECK_INT(listen_tcp(str_of(bad[i]), false, &fd, &err), ==, -EINVAL);
                CHECK_INT(err.kind, ==, ERR_INVALID);
                CHECK_INT(fd, ==, -7);
        }
}

static void unix_sockets_replace_old_files_and_have_the_mode(void)
{
        char dir[] = "/tmp/listener-XXXXXX", path[64], longer[200];
        AUTO_CLOSE int a = -1, b = -1, c = -1;
        struct err err = {0};
        struct stat st;

        CHECK(mkdtemp(dir));
        (void)snprintf(path, sizeof(path), "%s/s", dir);
        (void)snprintf(longer, sizeof(longer), "%s/%0150d", dir, 1);
        CHECK_INT(connect_unix(path, &c), ==, -ENOENT);
        CHECK_INT(listen_unix(path, 0600, &a, &err), ==, 0);
        CHECK_INT(listen_unix(path, 0660, &b, &err), ==, 0);
        CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0660);
        CHECK_INT(connect_unix(path, &c), ==, 0);
        CHECK(fcntl(c, F_GETFL) & O_NONBLOCK);
        CHECK_INT(listen_unix(longer, 0600, &a, &err), ==, -ENAMETOOLONG);
        CHECK_INT(connect_unix(longer, &c), ==, -ENAMETOOLONG);
        close_fd(&b);
        close_fd(&c);
        CHECK_INT(connect_unix(path, &c), ==, -ECONNREFUSED);
        (void)unlink(path);
        (void)rmdir(dir);
}

static void free_an_fd(struct timer *t)
{
        struct rlimit lim;

        (void)t;
        (void)getrlimit(RLIMIT_NOFILE, &lim);
        lim.rlim_cur += 8;
        (void)setrlimit(RLIMIT_NOFILE, &lim);
}
static void accepting_goes_on_after_running_out_of_fds(void)
{
        AUTO_CLOSE int c = -1;
        struct timer later = {.on = free_an_fd};
        struct rlimit old, tight;
        struct listener ln;
        struct err err = {0};
        int fd = -1, probe;
        uint16_t port;

        accepted_count = 0, accepted_wanted = 1;
        CHECK_INT(listen_tcp(STR("127.0.0.1:0"), false, &fd, &err), ==, 0);
        CHECK_INT(socket_port(fd, &port), ==, 0);
        CHECK_INT(listener_start(&ln, loop, fd, on_conn, NULL), ==, 0);
        c = connect_to(port);
        probe = dup(c);
        close(probe);
        CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
        tight = old;
        tight.rlim_cur = (rlim_t)probe;
        CHECK(setrlimit(RLIMIT_NOFILE, &tight) == 0);
        timer_set(loop, &later, 20);
        CHECK_INT(loop_run(loop), ==, 0);
        CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
        CHECK_INT(accepted_count, ==, 1);
        CHECK(!timer_is_armed(&later));
        close(accepted[0]);
        listener_stop(&ln);
}

int main(void)
{
        if (loop_create(&loop) < 0)
                return 1;
        RUN(tcp_connections_are_accepted_nonblocking_and_without_delay);
        RUN(local_connections_are_not_paced);
        RUN(a_taken_address_is_a_conflict_unless_the_port_is_shared);
        RUN(all_addresses_and_ipv6_are_understood);
        RUN(strange_addresses_are_refused);
        RUN(unix_sockets_replace_old_files_and_have_the_mode);
        RUN(accepting_goes_on_after_running_out_of_fds);
        loop = loop_free(loop);
        return tap_done();
}
