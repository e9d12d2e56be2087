/* What a sandbox can reach: a "world" in a network namespace of the test's own stands for the internet. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tap.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/net/firewall.h"
#include "engine/host/instance.h"
#include "rig.h"
#include "sys/netlink.h"
#include "sys/proc.h"

#define A "iaaaaaaaaaaaaaaaaaaaa"
#define B "ibbbbbbbbbbbbbbbbbbbb"

/* The world: eight addresses set aside for documentation, by our pid, since another run may be under way beside us. */
static uint32_t net;              /* .. /29 */
#define HERE (net + 1)            /* our end */
#define THERE (net + 2)           /* the world's: a public server */
#define ANOTHER (net + 3)         /* another one */
static uint32_t private_net;      /* 10.x.y.0/24 */
#define PRIVATE (private_net + 2) /* a server of the operator's */

static struct rig g;
static pid_t world;
static int host_nl;

static void choose_addresses(void)
{
        unsigned n = (unsigned)getpid();

        net = 0xc6336400u + n % 32 * 8; /* 198.51.100.0/24; real hosts have been seen in the other such networks */
        private_net = 0x0ac80000u + (n % 0x3000u << 8); /* 10.200.0.0 and up */
}

static const char *text_of(uint32_t addr)
{
        static char text[4][32];
        static unsigned at;
        char *out = text[++at % 4];

        (void)snprintf(out, 32, "%u.%u.%u.%u", addr >> 24, addr >> 16 & 255, addr >> 8 & 255, addr & 255);
        return out;
}

static const char *net_of(uint32_t addr, unsigned prefix)
{
        static char text[4][40];
        static unsigned at;
        char *out = text[++at % 4];

        (void)snprintf(out, 40, "%s/%u", text_of(addr), prefix);
        return out;
}

static int listen_tcp_port(uint16_t port)
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
        (void)netlink_address_add(nl, index, THERE, 29);
        (void)netlink_address_add(nl, index, ANOTHER, 29);
        (void)netlink_address_add(nl, index, PRIVATE, 24);
        ln = listen_tcp_port(80);
        (void)!write(ready, "l", 1);
        for (;;) {
                int fd = accept(ln, NULL, NULL);

                (void)close(fd);
        }
}

static bool make_world(void)
{
        static const uint8_t mac[6] = {2, 0x77, 0, 0, 0, 1}, there_mac[6] = {2, 0x77, 0, 0, 0, 2};
        AUTO_CLOSE int proc = open("/proc", O_PATH | O_CLOEXEC), netns = -1;
        struct netlink_route private_route = {.dst = private_net, .prefix = 24};
        int ready[2], go[2], index;
        char name[16], c;

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
        return netlink_link_up(host_nl, index) == 0 && netlink_address_add(host_nl, index, HERE, 29) == 0 &&
               netlink_route_add(host_nl, &private_route) == 0;
}

static void end_world(void)
{
        char name[16];

        (void)snprintf(name, sizeof(name), "w%d", (int)getpid());
        (void)netlink_link_delete(host_nl, name);
        (void)kill(world, SIGKILL);
        (void)waitpid(world, NULL, 0);
}

static json_t *plan_with_net(const char *id, bool internet, const char *allow, const char *deny)
{
        json_t *plan = rig_plan(id), *rules = json_object_get(plan, "net");

        (void)json_object_set_new(rules, "internet", json_boolean(internet));
        if (allow)
                (void)json_array_append_new(json_object_get(rules, "allow"), json_string(allow));
        if (deny)
                (void)json_array_append_new(json_object_get(rules, "deny"), json_string(deny));
        return plan;
}

static const char *connect_from(const char *id, uint32_t to, unsigned port)
{
        char command[128];

        (void)snprintf(command, sizeof(command), "connect %s %u", text_of(to), port);
        return rig_run(&g, id, command);
}

static void reaches_the_world(void)
{
        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK_STR(connect_from(A, THERE, 80), "connected");
        CHECK_STR(connect_from(A, THERE, 81), "ECONNREFUSED");
        CHECK(!rig_kill(&g, A));
}

static void never_reaches_private_networks(void)
{
        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK_STR(connect_from(A, PRIVATE, 80), "silence");
        CHECK_STR(connect_from(A, 0xa9fea9feu, 80), "silence");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_create(&g, plan_with_net(A, true, net_of(private_net, 24), NULL))); /* a rule does not open them */
        CHECK_STR(connect_from(A, PRIVATE, 80), "silence");
        CHECK(!rig_kill(&g, A));
}

static void never_reaches_the_host(void)
{
        AUTO_CLOSE int ln = listen_tcp_port(0);
        struct sockaddr_in at;
        socklen_t len = sizeof(at);

        CHECK_INT(getsockname(ln, (struct sockaddr *)(void *)&at, &len), ==, 0);
        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK_STR(connect_from(A, HERE, ntohs(at.sin_port)), "silence");
        CHECK_STR(connect_from(A, 0xc6120001u, ntohs(at.sin_port)), "silence");      /* the gateway */
        CHECK_STR(connect_from(A, 0x7f000001u, ntohs(at.sin_port)), "ECONNREFUSED"); /* its own loopback */
        CHECK(!rig_kill(&g, A));
}

static uint32_t address_of(const char *id)
{
        char text[4096], *at;
        unsigned a = 0, b = 0, c = 0, d = 0;

        (void)snprintf(text, sizeof(text), "%.4000s", rig_run(&g, id, "read /proc/net/fib_trie"));
        for (at = strstr(text, "198.18."); at && strncmp(at, "198.18.0.1\n", 11) == 0; at = strstr(at + 1, "198.18."))
                ;
        if (at)
                (void)sscanf(at, "%u.%u.%u.%u", &a, &b, &c, &d);
        return a << 24 | b << 16 | c << 8 | d;
}

static void never_reaches_another_sandbox(void)
{
        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK(!rig_create(&g, rig_plan(B)));
        CHECK(address_of(B) != 0);
        CHECK_STR(connect_from(A, address_of(B), 49983), "silence");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_kill(&g, B));
}

/* Any local user could: what listens inside is the edge's, which asks for tokens. */
static void nobody_connects_to_it_from_the_host(void)
{
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(80)};
        AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        struct pollfd p = {.fd = fd, .events = POLLOUT};

        CHECK(!rig_create(&g, rig_plan(A)));
        to.sin_addr.s_addr = htonl(address_of(A));
        CHECK(to.sin_addr.s_addr != 0);
        CHECK(connect(fd, (struct sockaddr *)(void *)&to, sizeof(to)) < 0 && errno == EINPROGRESS);
        CHECK_INT(poll(&p, 1, 500), ==, 0); /* not even a refusal */
        CHECK(!rig_kill(&g, A));
}

/* How many connections from that address the host knows; -1: it does not say. */
static long count_flows(uint32_t from)
{
        FILE *f = fopen("/proc/net/nf_conntrack", "re");
        char line[1024], want[48], *src;
        long n = 0;

        if (!f)
                return -1;
        (void)snprintf(want, sizeof(want), "src=%s ", text_of(from));
        while (fgets(line, sizeof(line), f)) {
                src = strstr(line, "src=");
                n += src && strncmp(src, want, strlen(want)) == 0;
        }
        (void)fclose(f);
        return n;
}

static void the_next_of_its_slot_inherits_no_connection(void)
{
        const struct timespec pause = {.tv_nsec = 10000000};
        uint32_t addr;

        CHECK(!rig_create(&g, rig_plan(A)));
        addr = address_of(A);
        CHECK(addr != 0);
        CHECK_STR(connect_from(A, THERE, 80), "connected");
        CHECK(count_flows(addr) != 0);
        CHECK(!rig_kill(&g, A));
        for (int i = 0; i < 500 && count_flows(addr) > 0; i++) /* a closed one would stay for two minutes */
                (void)nanosleep(&pause, NULL);
        CHECK_INT(count_flows(addr), <=, 0);
}

static void cannot_fill_the_table_of_connections(void)
{
        char command[64];
        long flows;

        CHECK(!rig_create(&g, rig_plan(A)));
        (void)snprintf(command, sizeof(command), "datagrams %s 20000", text_of(THERE));
        CHECK_STR(rig_run(&g, A, command), "sent");
        flows = count_flows(address_of(A));
        CHECK(flows != 0);
        CHECK_INT(flows, <=, 4096);
        CHECK(!rig_kill(&g, A));
}

/* As a reload of the host's own rules does. */
static void the_table_comes_back_when_it_is_flushed(void)
{
        const struct timespec pause = {.tv_nsec = 10000000};
        json_t *info = rig_info(&g);
        struct instance in = {.number = (unsigned)json_integer_value(json_object_get(info, "instance"))};
        struct err err = {0};

        json_decref(info);
        (void)snprintf(in.name, sizeof(in.name), "sandglass-%u", in.number);
        CHECK(!rig_create(&g, plan_with_net(A, true, NULL, text_of(ANOTHER))));
        CHECK_INT(netlink_table_exists(in.name), ==, 1);
        CHECK_INT(firewall_remove_table(&in, &err), ==, 0);
        for (int i = 0; i < 300 && netlink_table_exists(in.name) == 0; i++)
                (void)nanosleep(&pause, NULL);
        CHECK_INT(netlink_table_exists(in.name), ==, 1);
        CHECK_STR(connect_from(A, HERE, 80), "silence");
        CHECK_STR(connect_from(A, ANOTHER, 80), "silence");
        CHECK_STR(connect_from(A, THERE, 80), "connected");
        CHECK(!rig_kill(&g, A));
}

static void rules_are_kept(void)
{
        CHECK(!rig_create(&g, plan_with_net(A, false, NULL, NULL)));
        CHECK_STR(connect_from(A, THERE, 80), "silence");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_create(&g, plan_with_net(A, true, NULL, net_of(net, 29))));
        CHECK_STR(connect_from(A, THERE, 80), "silence");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_create(&g, plan_with_net(A, true, text_of(ANOTHER), "0.0.0.0/0")));
        CHECK_STR(connect_from(A, THERE, 80), "silence");
        CHECK_STR(connect_from(A, ANOTHER, 80), "connected");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_create(&g, plan_with_net(A, false, text_of(ANOTHER), NULL)));
        CHECK_STR(connect_from(A, THERE, 80), "silence");
        CHECK_STR(connect_from(A, ANOTHER, 80), "connected");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_create(&g, rig_plan(A))); /* and end with the sandbox */
        CHECK_STR(connect_from(A, THERE, 80), "connected");
        CHECK(!rig_kill(&g, A));
}

static void overlapping_rules_are_fine(void)
{
        json_t *plan = plan_with_net(A, true, text_of(ANOTHER), net_of(net, 29)), *deny;

        deny = json_object_get(json_object_get(plan, "net"), "deny");
        (void)json_array_append_new(deny, json_string(net_of(net, 30)));
        (void)json_array_append_new(deny, json_string(text_of(THERE)));
        (void)json_array_append_new(deny, json_string(net_of(net, 29)));
        (void)json_array_append_new(deny, json_string("0.0.0.0/0"));
        CHECK(!rig_create(&g, plan));
        CHECK_STR(connect_from(A, THERE, 80), "silence");
        CHECK_STR(connect_from(A, ANOTHER, 80), "connected");
        CHECK(!rig_kill(&g, A));
}

static bool set_net(const char *id, json_t *plan)
{
        json_t *answer =
                rig_call(&g, json_pack("{s:s,s:s,s:O}", "op", "net", "id", id, "net", json_object_get(plan, "net")));
        bool ok = json_is_true(json_object_get(answer, "ok"));

        json_decref(plan);
        json_decref(answer);
        return ok;
}

static void rules_can_change_and_survive_a_crash(void)
{
        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK_STR(connect_from(A, THERE, 80), "connected");
        CHECK(set_net(A, plan_with_net(A, true, NULL, text_of(THERE))));
        CHECK_STR(connect_from(A, THERE, 80), "silence");
        CHECK_STR(connect_from(A, ANOTHER, 80), "connected");
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK_STR(connect_from(A, THERE, 80), "silence");
        CHECK_STR(connect_from(A, ANOTHER, 80), "connected");
        CHECK(set_net(A, plan_with_net(A, true, NULL, NULL)));
        CHECK_STR(connect_from(A, THERE, 80), "connected");
        CHECK(!rig_kill(&g, A));
}

int main(void)
{
        json_t *info;
        bool has_network;

        if (rig_reason_to_skip()) {
                printf("1..0 # SKIP %s\n", rig_reason_to_skip());
                return 0;
        }
        choose_addresses();
        if (!rig_open(&g, 2) || !rig_start(&g))
                return 1;
        info = rig_info(&g);
        has_network = json_is_true(json_object_get(info, "network"));
        json_decref(info);
        if (!has_network || !make_world()) {
                printf("1..0 # SKIP no packet filter on this host\n");
                rig_close(&g);
                return 0;
        }
        RUN(reaches_the_world);
        RUN(never_reaches_private_networks);
        RUN(never_reaches_the_host);
        RUN(never_reaches_another_sandbox);
        RUN(nobody_connects_to_it_from_the_host);
        RUN(the_next_of_its_slot_inherits_no_connection);
        RUN(cannot_fill_the_table_of_connections);
        RUN(the_table_comes_back_when_it_is_flushed);
        RUN(rules_are_kept);
        RUN(overlapping_rules_are_fine);
        RUN(rules_can_change_and_survive_a_crash);
        end_world();
        rig_close(&g);
        return tap_done();
}
