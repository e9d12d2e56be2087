/* Sandboxes get out through the other firewalls of a host, and nothing else does: in a network namespace of the test's own, so
 * that the rules of this machine are not touched.
 *
 * usage: test_root_other_firewalls [firewalld|ufw]     one of these runs in the caller's network namespace */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tap.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/host/instance.h"
#include "engine/net/passage.h"
#include "rig.h"
#include "sys/netlink.h"
#include "sys/proc.h"
#include "world.h"

#define A "iaaaaaaaaaaaaaaaaaaaa"

static struct rig g;
static unsigned number; /* of the instance */
static const char *iptables;

/* ------------------------------------------------------------- the other firewall */

static bool shell(const char *fmt, ...) PRINTF(1, 2);
static bool shell(const char *fmt, ...)
{
        char command[1024];
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(command, sizeof(command), fmt, ap);
        va_end(ap);
        return system(command) == 0;
}

static const char *output(const char *command)
{
        static char text[4096];
        FILE *f = popen(command, "re");
        size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

        text[n] = '\0';
        if (f)
                (void)pclose(f);
        return text;
}

static const char *forward_rules(void)
{
        char command[96];

        (void)snprintf(command, sizeof(command), "%s -S FORWARD 2>&1", iptables);
        return output(command);
}

/* The lines of ours, as the program shows them. */
static bool shows_passage(const char *rules)
{
        char in[96], out[96];

        (void)snprintf(in, sizeof(in), "-A FORWARD -i sg%u-+ -m comment --comment sandglass-%u -j ACCEPT\n", number,
                       number);
        (void)snprintf(out, sizeof(out), "-A FORWARD -o sg%u-+ -m comment --comment sandglass-%u -j ACCEPT\n", number,
                       number);
        return strstr(rules, in) && strstr(rules, out);
}

static bool has_passage(void)
{
        return shows_passage(forward_rules());
}

static bool has_no_passage(void)
{
        return !strstr(forward_rules(), "sandglass");
}

static bool until(bool (*holds)(void))
{
        const struct timespec pause = {.tv_nsec = 20000000};

        for (int i = 0; i < 750 && !holds(); i++)
                (void)nanosleep(&pause, NULL);
        return holds();
}

/* As Docker leaves it, with a rule of the operator's where Docker asks for such rules. */
static bool be_docker(void)
{
        return shell("%1$s -N DOCKER-USER && %1$s -A DOCKER-USER -d %2$s -j DROP && %1$s -A DOCKER-USER -j RETURN && "
                     "%1$s -A FORWARD -j DOCKER-USER && %1$s -A FORWARD -i docker0 -j ACCEPT && %1$s -P FORWARD DROP",
                     iptables, world_text(WORLD_ANOTHER));
}

static bool leave_nothing(void)
{
        return shell("%1$s -P FORWARD ACCEPT && %1$s -F && %1$s -X", iptables);
}

/* ------------------------------------------------------------- sandboxes */

static const char *connect_from(const char *id, uint32_t to)
{
        char command[128];

        (void)snprintf(command, sizeof(command), "connect %s 80", world_text(to));
        return rig_run(&g, id, command);
}

static bool begin(void)
{
        json_t *info;

        if (!rig_open(&g, 1) || !rig_start(&g))
                return false;
        info = rig_info(&g);
        number = (unsigned)json_integer_value(json_object_get(info, "instance"));
        json_decref(info);
        return true;
}

/* ------------------------------------------------------------- cases, for iptables of both kinds */

static void sandboxes_get_out_where_docker_drops(void)
{
        struct passage_report report;

        CHECK(be_docker());
        CHECK(begin());
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STR(connect_from(A, WORLD_THERE), "connected");
        CHECK_STR(connect_from(A, WORLD_ANOTHER), "silence"); /* the operator's rule comes first */
        CHECK_STR(connect_from(A, WORLD_PRIVATE), "silence"); /* and our own table has the last word */
        CHECK(has_passage());
        passage_look(&report);
        CHECK_INT(report.outcome, ==, PASSAGE_OPEN);
        CHECK_STARTS(report.text, "Docker, ");
        CHECK_NONE(rig_kill(&g, A));
        rig_close(&g);
        CHECK(has_no_passage());
        CHECK(leave_nothing());
}

static void a_reload_of_the_other_is_survived(void)
{
        CHECK(be_docker());
        CHECK(begin());
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK(shell("%s -F FORWARD", iptables));
        CHECK(until(has_passage));
        CHECK_STR(connect_from(A, WORLD_THERE), "connected");
        CHECK(shell("%1$s -F FORWARD && %1$s -A FORWARD -j REJECT && %1$s -P FORWARD ACCEPT", iptables));
        CHECK(until(has_passage));
        CHECK_STR(connect_from(A, WORLD_THERE), "connected"); /* a last rule that refuses is like a policy */
        CHECK_INT(kill(rig_helper(&g, "sg-passage"), SIGKILL), ==, 0);
        CHECK(shell("%1$s -F FORWARD && %1$s -P FORWARD DROP", iptables));
        CHECK(until(has_passage)); /* by the next keeper */
        CHECK_NONE(rig_kill(&g, A));
        rig_close(&g);
        CHECK(has_no_passage());
        CHECK(leave_nothing());
}

static void a_firewall_that_comes_later_is_seen(void)
{
        CHECK(begin());
        CHECK(has_no_passage());
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK(shell("%s -P FORWARD DROP", iptables));
        CHECK(until(has_passage));
        CHECK_STR(connect_from(A, WORLD_THERE), "connected");
        CHECK(shell("%s -P FORWARD ACCEPT", iptables));
        CHECK(until(has_no_passage)); /* no more than needed */
        CHECK_STR(connect_from(A, WORLD_THERE), "connected");
        CHECK_NONE(rig_kill(&g, A));
        rig_close(&g);
        CHECK(leave_nothing());
}

static void a_killed_engine_leaves_the_way_open(void)
{
        CHECK(be_docker());
        CHECK(begin());
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        rig_crash(&g);
        CHECK(has_passage()); /* for the sandbox that runs on */
        CHECK(shell("%s -F FORWARD", iptables));
        CHECK(rig_start(&g));
        CHECK(until(has_passage));
        CHECK_STR(connect_from(A, WORLD_THERE), "connected");
        CHECK_NONE(rig_kill(&g, A));
        rig_crash(&g);
        rig_close(&g); /* as `sandglass down` */
        CHECK(has_no_passage());
        CHECK(leave_nothing());
}

static void two_servers_do_not_meet(void)
{
        struct rig first;
        unsigned first_number;

        CHECK(be_docker());
        CHECK(begin());
        first = g;
        first_number = number;
        CHECK(begin());
        CHECK(number != first_number);
        CHECK(has_passage());
        number = first_number;
        CHECK(has_passage());
        rig_close(&g);
        CHECK(has_passage());
        rig_close(&first);
        CHECK(has_no_passage());
        CHECK(leave_nothing());
}

/* ------------------------------------------------------------- others who want to get out */

#define NEIGHBOUR 0xc0000202u /* 192.0.2.2, of a network that this host forwards for */

static int neighbour_netns = -1;

static bool make_neighbour(void)
{
        static const uint8_t mac[6] = {2, 0x78, 0, 0, 0, 1}, there_mac[6] = {2, 0x78, 0, 0, 0, 2};
        AUTO_CLOSE int proc = open("/proc", O_PATH | O_CLOEXEC), own = -1, inside = -1, outside = netlink_open();
        struct netlink_route out = {.gateway = NEIGHBOUR - 1};
        int index;

        own = sys_ns_open(proc, 0, "net");
        if (own < 0 || unshare(CLONE_NEWNET) < 0)
                return false;
        neighbour_netns = sys_ns_open(proc, 0, "net");
        inside = netlink_open();
        if (setns(own, CLONE_NEWNET) < 0 || neighbour_netns < 0 ||
            netlink_veth_create(outside, &(struct netlink_veth){.name = "neighbour",
                                                                .peer = "eth0",
                                                                .peer_netns = neighbour_netns,
                                                                .mac = mac,
                                                                .peer_mac = there_mac}) < 0)
                return false;
        index = netlink_link_index(outside, "neighbour");
        out.index = netlink_link_index(inside, "eth0");
        return netlink_link_up(outside, index) == 0 && netlink_address_add(outside, index, NEIGHBOUR - 1, 24) == 0 &&
               netlink_link_up(inside, out.index) == 0 && netlink_address_add(inside, out.index, NEIGHBOUR, 24) == 0 &&
               netlink_route_add(inside, &out) == 0;
}

static bool neighbour_connects(void)
{
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(80), .sin_addr.s_addr = htonl(WORLD_THERE)};
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
                struct pollfd p = {.events = POLLOUT};

                if (setns(neighbour_netns, CLONE_NEWNET) < 0)
                        _exit(2);
                p.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
                (void)connect(p.fd, (struct sockaddr *)(void *)&to, sizeof(to));
                _exit(poll(&p, 1, 1500) == 1 && !(p.revents & POLLERR) ? 0 : 1);
        }
        (void)waitpid(pid, &status, 0);
        return status == 0;
}

static void nothing_else_gets_out(void)
{
        CHECK(shell("%s -t nat -A POSTROUTING -s %s -j MASQUERADE", iptables, world_net_text(NEIGHBOUR, 32)));
        CHECK(begin());
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK(neighbour_connects());
        CHECK(shell("%s -P FORWARD DROP", iptables));
        CHECK(until(has_passage));
        CHECK_STR(connect_from(A, WORLD_THERE), "connected");
        CHECK(!neighbour_connects());
        CHECK_NONE(rig_kill(&g, A));
        rig_close(&g);
        CHECK(shell("%s -t nat -F", iptables));
        CHECK(leave_nothing());
}

/* ------------------------------------------------------------- nftables without iptables */

static bool nft_has_passage(void)
{
        char in[96];

        (void)snprintf(in, sizeof(in), "iifname \"sg%u-*\" counter packets", number);
        return strstr(output("nft list chain inet other forward"), in);
}

static void sandboxes_get_out_where_an_nft_table_refuses(void)
{
        static const char table[] = "table inet other {\n"
                                    "  chain zones { ct state invalid drop; goto public; }\n"
                                    "  chain public { meta l4proto sctp accept; reject; }\n"
                                    "  chain forward {\n"
                                    "    type filter hook forward priority 10; policy accept;\n"
                                    "    ct state established accept\n"
                                    "    ip daddr %s drop\n"
                                    "    jump zones\n"
                                    "  }\n"
                                    "}\n";
        char text[1024];

        (void)snprintf(text, sizeof(text), table, world_text(WORLD_ANOTHER));
        CHECK(shell("nft '%s'", text));
        CHECK(begin());
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK(nft_has_passage());
        CHECK_STR(connect_from(A, WORLD_THERE), "connected");
        CHECK_STR(connect_from(A, WORLD_ANOTHER), "silence");
        CHECK(shell("nft 'delete table inet other; %s'", text)); /* in one step, as firewalld reloads */
        CHECK(until(nft_has_passage));
        CHECK_STR(connect_from(A, WORLD_THERE), "connected");
        CHECK_NONE(rig_kill(&g, A));
        rig_close(&g);
        CHECK(!strstr(output("nft list ruleset"), "sandglass"));
        CHECK(shell("nft delete table inet other"));
}

/* ------------------------------------------------------------- real ones, where they run (with_other_firewalls) */

static bool connects(void)
{
        return strcmp(connect_from(A, WORLD_THERE), "connected") == 0;
}

static bool connects_to_another(void)
{
        return strcmp(connect_from(A, WORLD_ANOTHER), "connected") == 0;
}

static void sandboxes_get_out_beside(const char *owner, const char *reload)
{
        struct passage_report report;

        CHECK(begin());
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STR(connect_from(A, WORLD_THERE), "connected");
        CHECK_STR(connect_from(A, WORLD_PRIVATE), "silence");
        for (int i = 0; i < 2; i++) {
                CHECK(shell("%s >/dev/null", reload));
                CHECK(until(connects));
        }
        passage_look(&report);
        CHECK_INT(report.outcome, ==, PASSAGE_OPEN);
        CHECK_STARTS(report.text, owner);
        CHECK_NONE(rig_kill(&g, A));
        rig_close(&g);
        passage_look(&report);
        CHECK(strstr(report.text, "a server that runs puts")); /* it drops as before */
        CHECK(!strstr(output("nft list ruleset"), "sandglass") && !strstr(output("nft list ruleset"), "\"sg"));
}

static void sandboxes_get_out_beside_firewalld(void)
{
        sandboxes_get_out_beside("firewalld, ", "firewall-cmd --reload");
}

static void sandboxes_get_out_beside_ufw(void)
{
        sandboxes_get_out_beside("ufw, ", "ufw reload");
}

static void what_ufw_forbids_stays_forbidden(void)
{
        CHECK(begin());
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK(shell("ufw route deny to %s >/dev/null", world_text(WORLD_ANOTHER)));
        CHECK_STR(connect_from(A, WORLD_ANOTHER), "silence");
        CHECK_STR(connect_from(A, WORLD_THERE), "connected");
        CHECK(shell("ufw route delete deny to %s >/dev/null", world_text(WORLD_ANOTHER)));
        CHECK(until(connects_to_another));
        CHECK_NONE(rig_kill(&g, A));
        rig_close(&g);
}

/* ------------------------------------------------------------- running */

static void this_iptables_works(void)
{
        CHECK(shell("%s -S FORWARD >/dev/null", iptables));
}

static void run_with(const char *program)
{
        iptables = program;
        printf("# %s\n", program);
        RUN(this_iptables_works);
        if (tap_case_failed)
                return;
        RUN(sandboxes_get_out_where_docker_drops);
        RUN(a_reload_of_the_other_is_survived);
        RUN(a_firewall_that_comes_later_is_seen);
        RUN(a_killed_engine_leaves_the_way_open);
        RUN(two_servers_do_not_meet);
        RUN(nothing_else_gets_out);
}

static int run_beside(const char *other)
{
        if (!world_make())
                return 1;
        if (strcmp(other, "firewalld") == 0) {
                RUN(sandboxes_get_out_beside_firewalld);
        } else {
                RUN(sandboxes_get_out_beside_ufw);
                RUN(what_ufw_forbids_stays_forbidden);
        }
        world_end();
        return tap_done();
}

int main(int argc, char **argv)
{
        if (rig_reason_to_skip()) {
                printf("1..0 # SKIP %s\n", rig_reason_to_skip());
                return 0;
        }
        if (argc > 1)
                return run_beside(argv[1]);
        if (unshare(CLONE_NEWNET) < 0 || !world_make() || !make_neighbour())
                return 1;
        RUN(sandboxes_get_out_where_an_nft_table_refuses);
        run_with("iptables-nft");
        run_with("iptables-legacy");
        world_end();
        return tap_done();
}
