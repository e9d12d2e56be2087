/* What a sandbox can reach: world.h stands for the internet. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <tap.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/net/firewall.h"
#include "engine/host/instance.h"
#include "rig.h"
#include "sys/netlink.h"
#include "world.h"

#define A "iaaaaaaaaaaaaaaaaaaaa"
#define B "ibbbbbbbbbbbbbbbbbbbb"

static struct rig g;

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

        (void)snprintf(command, sizeof(command), "connect %s %u", world_text(to), port);
        return rig_run(&g, id, command);
}

static void reaches_the_world(void)
{
        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "connected");
        CHECK_STR(connect_from(A, WORLD_THERE, 81), "ECONNREFUSED");
        CHECK(!rig_kill(&g, A));
}

static void never_reaches_world_private_networks(void)
{
        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK_STR(connect_from(A, WORLD_PRIVATE, 80), "silence");
        CHECK_STR(connect_from(A, 0xa9fea9feu, 80), "silence");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_create(&g, plan_with_net(A, true, world_net_text(world_private_net, 24),
                                            NULL))); /* a rule does not open them */
        CHECK_STR(connect_from(A, WORLD_PRIVATE, 80), "silence");
        CHECK(!rig_kill(&g, A));
}

static void never_reaches_the_host(void)
{
        AUTO_CLOSE int ln = world_listen(0);
        struct sockaddr_in at;
        socklen_t len = sizeof(at);

        CHECK_INT(getsockname(ln, (struct sockaddr *)(void *)&at, &len), ==, 0);
        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK_STR(connect_from(A, WORLD_HERE, ntohs(at.sin_port)), "silence");
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

#define GATEWAY 0xc6120001u

/* It may still be starting when the first sandbox runs. */
static const char *ask_forwarder(const char *id)
{
        const char *said = "";

        for (int i = 0; i < 50 && strcmp(said = connect_from(id, GATEWAY, 53), "connected") != 0; i++)
                (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        return said;
}

static void queries_and_nothing_else_reach_the_forwarder(void)
{
        uint32_t forwarder;

        CHECK(!rig_create(&g, rig_plan(A)));
        forwarder = (address_of(A) & ~(SLOTS_MAX - 1)) + 2;
        CHECK_STR(ask_forwarder(A), "connected");
        CHECK_STR(connect_from(A, forwarder, 53), "connected");
        CHECK_STR(connect_from(A, GATEWAY, 54), "silence");
        CHECK_STR(connect_from(A, forwarder, 80), "silence");
        CHECK(!rig_kill(&g, A));
}

static void rules_hold_for_queries(void)
{
        CHECK(!rig_create(&g, plan_with_net(A, false, NULL, NULL)));
        CHECK_STR(connect_from(A, GATEWAY, 53), "silence");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_create(&g, plan_with_net(A, true, NULL, "0.0.0.0/0")));
        CHECK_STR(connect_from(A, GATEWAY, 53), "silence");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_create(&g, plan_with_net(A, false, "198.18.0.0/15", NULL)));
        CHECK_STR(ask_forwarder(A), "connected");
        CHECK(!rig_kill(&g, A));
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
        (void)snprintf(want, sizeof(want), "src=%s ", world_text(from));
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
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "connected");
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
        (void)snprintf(command, sizeof(command), "datagrams %s 20000", world_text(WORLD_THERE));
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
        CHECK(!rig_create(&g, plan_with_net(A, true, NULL, world_text(WORLD_ANOTHER))));
        CHECK_INT(netlink_table_exists(in.name), ==, 1);
        CHECK_INT(firewall_remove_table(&in, &err), ==, 0);
        for (int i = 0; i < 300 && netlink_table_exists(in.name) == 0; i++)
                (void)nanosleep(&pause, NULL);
        CHECK_INT(netlink_table_exists(in.name), ==, 1);
        CHECK_STR(connect_from(A, WORLD_HERE, 80), "silence");
        CHECK_STR(connect_from(A, WORLD_ANOTHER, 80), "silence");
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "connected");
        CHECK(!rig_kill(&g, A));
}

static void rules_are_kept(void)
{
        CHECK(!rig_create(&g, plan_with_net(A, false, NULL, NULL)));
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "silence");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_create(&g, plan_with_net(A, true, NULL, world_net_text(world_net, 29))));
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "silence");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_create(&g, plan_with_net(A, true, world_text(WORLD_ANOTHER), "0.0.0.0/0")));
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "silence");
        CHECK_STR(connect_from(A, WORLD_ANOTHER, 80), "connected");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_create(&g, plan_with_net(A, false, world_text(WORLD_ANOTHER), NULL)));
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "silence");
        CHECK_STR(connect_from(A, WORLD_ANOTHER, 80), "connected");
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_create(&g, rig_plan(A))); /* and end with the sandbox */
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "connected");
        CHECK(!rig_kill(&g, A));
}

static void overlapping_rules_are_fine(void)
{
        json_t *plan = plan_with_net(A, true, world_text(WORLD_ANOTHER), world_net_text(world_net, 29)), *deny;

        deny = json_object_get(json_object_get(plan, "net"), "deny");
        (void)json_array_append_new(deny, json_string(world_net_text(world_net, 30)));
        (void)json_array_append_new(deny, json_string(world_text(WORLD_THERE)));
        (void)json_array_append_new(deny, json_string(world_net_text(world_net, 29)));
        (void)json_array_append_new(deny, json_string("0.0.0.0/0"));
        CHECK(!rig_create(&g, plan));
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "silence");
        CHECK_STR(connect_from(A, WORLD_ANOTHER, 80), "connected");
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
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "connected");
        CHECK(set_net(A, plan_with_net(A, true, NULL, world_text(WORLD_THERE))));
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "silence");
        CHECK_STR(connect_from(A, WORLD_ANOTHER, 80), "connected");
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "silence");
        CHECK_STR(connect_from(A, WORLD_ANOTHER, 80), "connected");
        CHECK(set_net(A, plan_with_net(A, true, NULL, NULL)));
        CHECK_STR(connect_from(A, WORLD_THERE, 80), "connected");
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
        if (!rig_open(&g, 2) || !rig_start(&g))
                return 1;
        info = rig_info(&g);
        has_network = json_is_true(json_object_get(info, "network"));
        json_decref(info);
        if (!has_network || !world_make()) {
                printf("1..0 # SKIP no packet filter on this host\n");
                rig_close(&g);
                return 0;
        }
        RUN(reaches_the_world);
        RUN(never_reaches_world_private_networks);
        RUN(never_reaches_the_host);
        RUN(never_reaches_another_sandbox);
        RUN(queries_and_nothing_else_reach_the_forwarder);
        RUN(rules_hold_for_queries);
        RUN(nobody_connects_to_it_from_the_host);
        RUN(the_next_of_its_slot_inherits_no_connection);
        RUN(cannot_fill_the_table_of_connections);
        RUN(the_table_comes_back_when_it_is_flushed);
        RUN(rules_are_kept);
        RUN(overlapping_rules_are_fine);
        RUN(rules_can_change_and_survive_a_crash);
        world_end();
        rig_close(&g);
        return tap_done();
}
