/* nft_library.h - libnftables, opened by the process that filters packets.
 *
 * The library brings five others along.  Linked into the program, all of them would be loaded by every role and command:
 * half a MiB each, for one role that uses them. */
#pragma once
#include <nftables/libnftables.h>

struct err;

#define NFT_LIBRARY_NAME "libnftables.so.1"

struct nft_library {
        __typeof__(&nft_ctx_new) ctx_new;
        __typeof__(&nft_ctx_free) ctx_free;
        __typeof__(&nft_ctx_buffer_output) ctx_buffer_output;
        __typeof__(&nft_ctx_buffer_error) ctx_buffer_error;
        __typeof__(&nft_ctx_get_error_buffer) ctx_get_error_buffer;
        __typeof__(&nft_ctx_set_dry_run) ctx_set_dry_run;
        __typeof__(&nft_run_cmd_from_buffer) run_cmd_from_buffer;
};

/* The library stays loaded until the process ends.  ERR_UNAVAILABLE: there is none, or not the right one. */
int nft_library_open(const char *name, struct nft_library *ret, struct err *err);
