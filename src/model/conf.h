/* conf.h - the server's configuration: one struct, parsed once, checked whole, handed down as const.
 *
 * `sandglass serve` builds it from defaults, the config file and options (src/serve/options.c), and gives it to each
 * role as JSON in a sealed memfd together with the role's sockets; roles never read files or the environment for it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct err;

#define CONF_DEFAULT_DOMAIN "localhost:3443"
#define CONF_CONTROL_UID 1879048193u /* far from any range that distributions or containers hand out */
#define CONF_EDGE_UID 1879048194u
#define CONF_BUILDER_UID 1879048195u
#define CONF_PULLER_UID 1879048196u
#define CONF_AGENT_UID 1879048197u
#define CONF_DNS_UID 1879048200u /* of the DNS forwarder */
#define CONF_EDGES_MAX 256

struct conf {
        char *data_dir;       /* absolute */
        char *images_dir;     /* absolute; default <data>/images: layers/<id>/, templates/<alias>.json */
        char *criu_dir;       /* absolute; default <data>/criu: engine/criu_find.h */
        char *listen;         /* "127.0.0.1:3000" */
        char *tls_listen;     /* "127.0.0.1:3443" */
        bool insecure_listen; /* `listen` may be an address that other machines reach, although it is not encrypted */
        char *domain; /* "localhost:3443": what clients get as `domain`; the part before ':' is in the certificate */
        char *envd;   /* engine: path of the in-sandbox daemon; absolute */
        bool make_key; /* control: no key is known to the operator: make one, write it to <data>/store/first-key (0600) */
        char *tls_cert, *tls_key; /* operator's own; NULL: local CA in <data>/ca */
        char *group;     /* of users who get a key of their own: name or number; NULL: "sandglass", if there is one */
        char *exports;   /* control: what clients need to know, as <data>/env has it (envfile.h), without a key */
        char *log_level; /* error, warn, info, debug */
        bool stop_sandboxes;            /* end them when serve ends */
        uint32_t edge_count;            /* processes; 0: one per core */
        uint32_t control_uid, edge_uid; /* unprivileged; uid and gid alike, as the next three */
        uint32_t builder_uid, puller_uid, agent_uid;
        uint32_t pool_size;         /* cells kept ready */
        uint32_t warm_mb;           /* of memory that paused sandboxes may keep; 0: none */
        uint32_t warm_stall_ms;     /* of two seconds waited for memory by anybody: one of those goes */
        uint32_t standbys;          /* sandboxes restored ahead, per template that was used lately; 0: none */
        uint32_t standby_memory_mb; /* of memory that all of them may have; 0: none */
        uint32_t sandboxes_max;     /* concurrent, per team */
        uint32_t builds_max;        /* concurrent builds of templates, per team */
        uint32_t build_cache_days;  /* steps of builds that were not used for so long are forgotten; 0: never */
        uint32_t builds_kept;       /* builds of a template that no tag points to, for going back */
        uint32_t template_cpus_max, template_memory_max_mb; /* what a template may ask for */
        uint32_t upload_max_mb;                             /* of one archive for a COPY step */
        uint32_t lost_days;               /* what no row knows is kept in lost/ for so long; 0: for ever */
        uint32_t timeout_max_s;           /* longest life of a sandbox */
        uint32_t sandbox_connections_max; /* into one sandbox, per edge; 0: no limit */
        bool access_log;                  /* edge: a line for each exchange */
        uint32_t default_memory_mb, default_cpus, default_pids; /* when the template does not say */
        uint32_t build_timeout_s;                               /* longest time that one build of a template may take */
        uint32_t build_ready_timeout_s;                         /* longest time that its ready command may fail */
        uint32_t
                build_cache_free_mb; /* with less room than this on the disk the cache of steps is emptied; 0: it stays */
        char *first_use; /* of a ready-made template that is not built yet: "wait" for its build, or "hint" how to build it */
        char *image_source; /* of a build's base: "registry", "recipe", or "auto": as docs/templates.md says */
        json_t *registries; /* puller: {host: "https://mirror[:port]"}, asked instead of the host; NULL: none */
        char *sandbox_ca; /* file or directory of certificates that sandboxes trust, too; NULL: serve/setup/host_files.h */
        json_t *sandbox_env;         /* {name: text} below all other variables of a sandbox; NULL: none */
        json_t *sandbox_dns;         /* [address] of name servers for sandboxes; NULL: the host's */
        json_t *insecure_registries; /* puller: [host[:port]] that are spoken to over plain HTTP; NULL: none */
        char *registry_proxy;        /* puller: "http://proxy:3128"; NULL: none */
        char *registry_aws_url; /* puller: whom to ask for ECR tokens; NULL: AWS, in the region of the credentials */
        char *registry_gcp_url; /* puller: whom to ask for GCP tokens; NULL: Google */
        /* Sockets and files a role inherits; -1 where it gets none. */
        struct conf_fds {
                int http, https;       /* edge: its own listening sockets (SO_REUSEPORT) */
                int api;               /* control: listening Unix socket for HTTP from the edges */
                int routes;            /* control: listening Unix socket for channels from the edges */
                int engine;            /* engine: listening Unix socket for control's channel */
                int dial;              /* engine: listening Unix socket for the edges' channels */
                int tls_cert, tls_key; /* edge: opened by root, so that the key needs no loose mode */
                int tls_renewals;      /* edge: a socket on which the supervisor sends the next pair of these */
                int users;             /* control: listening Unix socket for users of the machine (user_door.h) */
                int credentials;       /* control: listening Unix socket for the role agent (credential_socket.h) */
                int secret_key;        /* control: what credentials are encrypted with (secret_box.h); opened by root */
                int builder;           /* builder: listening Unix socket for control's channels */
                int puller;            /* puller: the same */
                int agent;             /* agent: listening Unix socket for HTTP from the edges */
                int clients; /* edge: listening Unix socket for HTTP from clients on this machine: the agent */
        } fds;
};

/* Defaults filled in, everything the caller's; release with conf_done(). */
int conf_defaults(struct conf *ret, const char *data_dir, struct err *err);
/* Read one JSON object over c: unknown keys, wrong types and values out of range are ERR_INVALID naming the key. */
int conf_apply_json(struct conf *c, const json_t *obj, struct err *err);
int conf_check(const struct conf *c, struct err *err); /* the whole of it */
json_t *conf_encode(const struct conf *c);             /* for a role */
int conf_decode(const json_t *msg, struct conf *ret, struct err *err);
void conf_done(struct conf *c);

/* Paths below the data directory, malloc'd: conf_path(c, "run/control.sock"). */
char *conf_path(const struct conf *c, const char *below);

/* Part of conf_check(): the settings that begin with "registr", and insecure_registries. */
int conf_check_registries(const struct conf *c, struct err *err);
/* May plain HTTP be spoken with "host[:port]"?  On this machine, and where insecure_registries names it, with or without
 * its port. */
bool conf_is_insecure_registry(const struct conf *c, struct str host_port);

/* "127.0.0.1:3000" into host (brackets of an IPv6 address kept, may be empty) and port; negative when it is neither. */
int conf_split_address(struct str addr, struct str *ret_host, uint16_t *ret_port);
/* "127.0.0.1:3000", "[::1]:3000", "localhost:3000": only programs on this machine reach it. */
bool conf_is_loopback(const char *addr);
