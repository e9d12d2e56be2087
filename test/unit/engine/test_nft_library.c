/* libnftables, opened when it is used: the library that there is, none, and another one. */
#include "engine/net/nft_library.h"

#include <string.h>
#include <tap.h>

#include "base/err.h"

static void the_library_has_what_the_firewall_calls(void)
{
        struct nft_library l = {0};
        struct err err = {0};

        CHECK_INT(nft_library_open(NFT_LIBRARY_NAME, &l, &err), ==, 0);
        CHECK(l.ctx_new && l.ctx_free && l.ctx_buffer_output && l.ctx_buffer_error && l.ctx_get_error_buffer &&
              l.ctx_set_dry_run && l.run_cmd_from_buffer);
}

static void a_missing_library_is_named(void)
{
        struct nft_library l = {0};
        struct err err = {0};

        CHECK_INT(nft_library_open("libnone.so.1", &l, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_UNAVAILABLE);
        CHECK(strstr(err.msg, "packet filter: libnone.so.1"));
}

static void a_library_of_something_else_is_refused(void)
{
        struct nft_library l = {0};
        struct err err = {0};

        CHECK_INT(nft_library_open("libc.so.6", &l, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_UNAVAILABLE);
        CHECK_STR(err.msg, "packet filter: libc.so.6 has no nft_ctx_new");
}

int main(void)
{
        RUN(the_library_has_what_the_firewall_calls);
        RUN(a_missing_library_is_named);
        RUN(a_library_of_something_else_is_refused);
        return tap_done();
}
