#include "world.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/netlink.h"
#include "sys/proc.h"

uint32_t world_net, world_private_net;
static pid_t world;
static int host_nl;

static void choose_addresses(void)
{
        unsigned n = (unsigned)getpid();

        world_net =
                0xc6336400u + n % 32 * 8; /* 198.51.100.0/24; real hosts have been seen in the other such networks */
        world_private_net = 0x0ac80000u + (n % 0x3000u << 8); /* 10.200.0.0 and up */
}

const char *world_text(uint32_t addr)
{
        static char text[4][32];
        static unsigned at;
        char *out = text[++at % 4];

        (void)snprintf(out, 32, "%u.%u.%u.%u", addr >> 24, addr >> 16 & 255, addr >> 8 & 255, addr & 255);
        return out;
}

const char *world_net_text(uint32_t addr, unsigned prefix)
{
        static char text[4][40];
        static unsigned at;
        char *out = text[++at % 4];

        (void)snprintf(out, 40, "%s/%u", world_text(addr), prefix);
        return out;
}

int world_listen(uint16_t port)
{
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(fd, (struct sockaddr *)(void *)&a, sizeof(a)) < 0 || listen(fd, 64) < 0)
                return -1;
        return fd;
}

static _Noreturn void live_in_the_world(int ready, int go)
{
        int ln, nl, index;
        char c;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWNET) < 0)
                _exit(1);
        (void)!write(ready, "u", 1);
        if (read(go, &c, 1) != 1) /* the link is there */
                _exit(1);
        nl = netlink_open();
        index = netlink_link_index(nl, "world");
        (void)netlink_link_up(nl, netlink_link_index(nl, "lo"));
        (void)netlink_link_up(nl, index);
        (void)netlink_address_add(nl, index, WORLD_THERE, 29);
        (void)netlink_address_add(nl, index, WORLD_ANOTHER, 29);
        (void)netlink_address_add(nl, index, WORLD_PRIVATE, 24);
        ln = world_listen(80);
        (void)!write(ready, "l", 1);
        for (;;) {
                int fd = accept(ln, NULL, NULL);

                (void)close(fd);
        }
}

bool world_make(void)
{
        static const uint8_t mac[6] = {2, 0x77, 0, 0, 0, 1}, there_mac[6] = {2, 0x77, 0, 0, 0, 2};
        AUTO_CLOSE int proc = open("/proc", O_PATH | O_CLOEXEC), netns = -1;
        struct netlink_route private_route = {.prefix = 24};
        int ready[2], go[2], index;
        char name[16], c;

        choose_addresses();
        private_route.dst = world_private_net;
        if (pipe(ready) < 0 || pipe(go) < 0)
                return false;
        world = fork();
        if (world == 0)
                live_in_the_world(ready[1], go[0]);
        (void)close(ready[1]);
        if (read(ready[0], &c, 1) != 1)
                return false;
        netns = sys_ns_open(proc, world, "net");
        (void)snprintf(name, sizeof(name), "w%d", (int)getpid());
        host_nl = netlink_open();
        if (netlink_veth_create(
                    host_nl,
                    &(struct netlink_veth){
                            .name = name, .peer = "world", .peer_netns = netns, .mac = mac, .peer_mac = there_mac}) < 0)
                return false;
        (void)!write(go[1], "g", 1);
        if (read(ready[0], &c, 1) != 1)
                return false;
        index = netlink_link_index(host_nl, name);
        private_route.index = index;
        return netlink_link_up(host_nl, index) == 0 && netlink_address_add(host_nl, index, WORLD_HERE, 29) == 0 &&
               netlink_route_add(host_nl, &private_route) == 0;
}

void world_end(void)
{
        char name[16];

        (void)snprintf(name, sizeof(name), "w%d", (int)getpid());
        (void)netlink_link_delete(host_nl, name);
        (void)kill(world, SIGKILL);
        (void)waitpid(world, NULL, 0);
}
