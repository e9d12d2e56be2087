#include "engine/net/dns_upstreams.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"

#define LOOK_MS 1000u
#define TEXT_MAX (64u << 10)

static void read_servers(struct dns_upstreams *u)
{
        AUTO_CLOSE int fd = open(u->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        static char text[TEXT_MAX];
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));

        resolvers_parse((struct str){text, n > 0 ? (size_t)n : 0}, &u->servers);
        resolvers_replace(&u->servers, u->instead);
        u->preferred = 0;
}

void dns_upstreams_init(struct dns_upstreams *u, const char *path, const json_t *instead, uint16_t port)
{
        *u = (struct dns_upstreams){.path = path, .instead = instead, .port = port};
        if (stat(path, &u->seen) < 0)
                u->seen = (struct stat){0};
        read_servers(u);
        u->look_due_ms = clock_mono_ms() + LOOK_MS;
}

void dns_upstreams_follow(struct dns_upstreams *u)
{
        uint64_t now = clock_mono_ms();
        struct stat st = {0};

        if (now < u->look_due_ms)
                return;
        u->look_due_ms = now + LOOK_MS;
        if (stat(u->path, &st) < 0)
                st = (struct stat){0};
        if (st.st_ino == u->seen.st_ino && st.st_dev == u->seen.st_dev && st.st_size == u->seen.st_size &&
            st.st_mtim.tv_sec == u->seen.st_mtim.tv_sec && st.st_mtim.tv_nsec == u->seen.st_mtim.tv_nsec)
                return;
        u->seen = st;
        read_servers(u);
}

static socklen_t make_address(const struct dns_upstreams *u, const struct resolver *s, struct sockaddr_storage *ret)
{
        const struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(u->port), .sin_addr = s->v4};
        const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                                        .sin6_port = htons(u->port),
                                        .sin6_addr = s->v6,
                                        .sin6_scope_id = s->link[0] ? if_nametoindex(s->link) : 0};

        if (s->family == AF_INET)
                memcpy(ret, &v4, sizeof(v4));
        else
                memcpy(ret, &v6, sizeof(v6));
        return s->family == AF_INET ? sizeof(v4) : sizeof(v6);
}

int dns_upstreams_connect(const struct dns_upstreams *u, size_t attempt, int type)
{
        struct sockaddr_storage to;
        AUTO_CLOSE int fd = -1;
        socklen_t len;

        if (u->servers.count == 0)
                return -EDESTADDRREQ;
        len = make_address(u, &u->servers.server[(u->preferred + attempt) % u->servers.count], &to);
        fd = socket(to.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0 || (connect(fd, (const struct sockaddr *)&to, len) < 0 && errno != EINPROGRESS))
                return -errno;
        return TAKE_FD(fd);
}

void dns_upstreams_prefer(struct dns_upstreams *u, size_t attempt)
{
        if (u->servers.count > 0)
                u->preferred = (u->preferred + attempt) % u->servers.count;
}
