#include "model/network/resolvers.h"

#include <arpa/inet.h>

#include "base/auto.h"
#include "model/network/closed_networks.h"

#include "tap.h"

#define FORWARDER 0xc6120001u

static const char *written(const char *text, const char *instead)
{
        static char out[4096];
        AUTO_BUF struct buf b = BUF_INIT(4096);
        json_t *addresses = instead ? json_loads(instead, 0, NULL) : NULL;
        struct resolvers r;

        resolvers_parse(str_of(text), &r);
        resolvers_replace(&r, addresses);
        json_decref(addresses);
        if (resolvers_write(&r, resolvers_are_open(&r) ? 0 : FORWARDER, &b) < 0)
                return NULL;
        (void)snprintf(out, sizeof(out), "%s", buf_cstr(&b));
        return out;
}

static void servers_that_sandboxes_reach_are_passed_on(void)
{
        CHECK_STR(written("nameserver 8.8.8.8\nnameserver\t1.1.1.1\n", NULL),
                  "nameserver 8.8.8.8\nnameserver 1.1.1.1\n");
        CHECK_STR(written("nameserver 8.8.8.8 # ours\n#nameserver 10.0.0.1\n;x\n", NULL), "nameserver 8.8.8.8\n");
}

static void one_closed_server_makes_it_the_forwarder(void)
{
        static const char *const closed[] = {"10.255.255.53", "127.0.0.53", "192.168.1.1",  "169.254.169.254",
                                             "100.64.0.1",    "172.31.0.2", "fe80::1%eth0", "2001:db8::53"};
        char text[128];

        for (size_t i = 0; i < ARRAY_LEN(closed); i++) {
                (void)snprintf(text, sizeof(text), "nameserver 8.8.8.8\nnameserver %s\n", closed[i]);
                CHECK_STR(written(text, NULL), "nameserver 198.18.0.1\n");
        }
        CHECK_STR(written("", NULL), "nameserver 198.18.0.1\n"); /* the C library would ask 127.0.0.1 */
}

static void search_and_options_stay(void)
{
        CHECK_STR(written("domain old.example\nsearch corp.example  b.example\noptions ndots:2 edns0\noptions rotate\n"
                          "nameserver 10.0.0.1",
                          NULL),
                  "nameserver 198.18.0.1\nsearch corp.example b.example\noptions ndots:2 edns0 rotate\n");
        CHECK_STR(written("search a\"b $(x) fine.example\nnameserver 9.9.9.9\n", NULL),
                  "nameserver 9.9.9.9\nsearch fine.example\n");
}

static void the_setting_wins(void)
{
        CHECK_STR(written("nameserver 10.0.0.1\nsearch a\n", "[\"9.9.9.9\"]"), "nameserver 9.9.9.9\nsearch a\n");
        CHECK_STR(written("nameserver 9.9.9.9\n", "[\"10.0.0.7\", \"9.9.9.9\"]"), "nameserver 198.18.0.1\n");
}

static void what_is_no_address_is_left_out(void)
{
        CHECK_STR(written("nameserver nonsense\nnameserver 1.2.3\nnameserver 9.9.9.9\nnameserver\n", NULL),
                  "nameserver 9.9.9.9\n");
        CHECK_STR(written("nameserver 1.0.0.1\nnameserver 1.0.0.2\nnameserver 1.0.0.3\nnameserver 10.0.0.4\n", NULL),
                  "nameserver 1.0.0.1\nnameserver 1.0.0.2\nnameserver 1.0.0.3\n"); /* as the C library: three */
}

static void closed_networks_end_where_they_should(void)
{
        CHECK(closed_networks_have(0x0a000000) && closed_networks_have(0x0affffff));
        CHECK(!closed_networks_have(0x09ffffff) && !closed_networks_have(0x0b000000));
        CHECK(closed_networks_have(0xac100000) && closed_networks_have(0xac1fffff) &&
              !closed_networks_have(0xac200000));
        CHECK(closed_networks_have(0xffffffff) && closed_networks_have(0));
        CHECK(!closed_networks_have(0xcb007150)); /* 203.0.113.80 */
}

int main(void)
{
        RUN(servers_that_sandboxes_reach_are_passed_on);
        RUN(one_closed_server_makes_it_the_forwarder);
        RUN(search_and_options_stay);
        RUN(the_setting_wins);
        RUN(what_is_no_address_is_left_out);
        RUN(closed_networks_end_where_they_should);
        return tap_done();
}
