/* criu_rpc.h - the messages of `criu swrk`, as far as we speak them.  No I/O.
 *
 * What comes back was written by a program that has just read a hostile sandbox: everything is checked and bounded. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

#define CRIU_RPC_BYTES_MAX (64u << 10)

/* Numbers of CRIU's own protocol (rpc.proto). */
enum criu_rpc_type { CRIU_RPC_DUMP = 1, CRIU_RPC_RESTORE = 2, CRIU_RPC_NOTIFY = 6 };
enum criu_rpc_option {
        CRIU_OPT_IMAGES_DIR_FD = 1,
        CRIU_OPT_PID = 2,
        CRIU_OPT_LEAVE_RUNNING = 3,
        CRIU_OPT_TCP_ESTABLISHED = 5,
        CRIU_OPT_FILE_LOCKS = 8,
        CRIU_OPT_LOG_LEVEL = 9,
        CRIU_OPT_LOG_FILE = 10,
        CRIU_OPT_NOTIFY_SCRIPTS = 12,
        CRIU_OPT_ROOT = 13,
        CRIU_OPT_WORK_DIR_FD = 17,
        CRIU_OPT_LINK_REMAP = 18,
        CRIU_OPT_FORCE_IRMAP = 21,
        CRIU_OPT_RST_SIBLING = 26,
        CRIU_OPT_MANAGE_CGROUPS_MODE = 34,
        CRIU_OPT_GHOST_LIMIT = 35,
        CRIU_OPT_IRMAP_SCAN_PATHS = 36,
        CRIU_OPT_EXTERNAL = 37,
        CRIU_OPT_EMPTY_NS = 38,
        CRIU_OPT_FREEZE_CGROUP = 44,
        CRIU_OPT_TCP_SKIP_IN_FLIGHT = 46,
        CRIU_OPT_NETWORK_LOCK = 64,
        CRIU_OPT_IMAGES_DIR = 68,
};
#define CRIU_CGROUPS_IGNORE 0u
#define CRIU_NETWORK_LOCK_SKIP 3u
#define CRIU_FD_NONE ((uint64_t)(int64_t)-1)

/* 0, or what buf_add() says. */
int criu_rpc_request(struct buf *out, enum criu_rpc_type type, const struct buf *options);
int criu_rpc_notified(struct buf *out, bool is_success);

struct criu_rpc_answer {
        uint64_t type;
        bool is_success;
        pid_t pid;            /* of a restored init, or a notification's; 0: none */
        struct str script;    /* of a notification: a slice of the message */
        struct str error;     /* likewise; may be empty */
        uint64_t error_errno; /* 0: none given */
        uint32_t version[3];  /* major, minor, sublevel */
};
int criu_rpc_decode(struct str message, struct criu_rpc_answer *ret); /* -EBADMSG */

struct criu_stats;
/* stats-dump: magic, length, message.  -EBADMSG. */
int criu_rpc_stats(struct str file, struct criu_stats *ret);

/* An entry of files.img: the name of a regular file, a slice of the entry: 1; 0: it is something else.  -EBADMSG. */
int criu_rpc_file_name(struct str entry, struct str *ret);

/* userns-*.img of a namespace with one range of 65536 uids and gids: its base; and such a file with another base. */
#define CRIU_USERNS_BYTES_MAX 256
int criu_rpc_userns_base(struct str file, uint32_t *ret_base); /* -EBADMSG: anything else than that one range */
int criu_rpc_userns_rebase(struct str file, uint32_t base, struct buf *out);
