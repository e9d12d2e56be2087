/* plan.h - what control tells the engine: complete, resolved, checkable without asking back.  Pure.
 *
 * Control builds a plan and encodes it; the engine decodes it, and plan_decode() is the check: types, ranges, names that
 * become paths.  A plan that passes can be carried out without consulting anything but the kernel. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/ids.h"

struct err;

#define PLAN_LAYERS_MAX 64
#define PLAN_CIDRS_MAX 256
#define PLAN_INIT_MAX (1u << 20)   /* encoded bytes of the init object */
#define PLAN_ORIGIN_MAX (3u << 19) /* encoded bytes; it has in it what init has, and more */
#define PLAN_TOKEN_MAX 256

struct plan_cidr {     /* IPv4 network */
        uint32_t addr; /* host byte order */
        uint8_t prefix;
};

struct plan_net {
        bool internet;           /* false: nothing leaves but what `allow` opens */
        struct plan_cidr *allow; /* owned; beats deny */
        size_t allow_count;
        struct plan_cidr *deny; /* owned */
        size_t deny_count;
};

struct plan_limits {
        uint64_t memory_bytes; /* hard limit, memory and page cache */
        uint32_t cpu_count;    /* CPU time of at most this many cores */
        uint32_t pids;
};

struct plan_create {
        char id[SANDBOX_ID_MAX];
        char *layers[PLAN_LAYERS_MAX]; /* owned; layer ids ([a-z0-9-]), lowest first */
        size_t layer_count;
        struct plan_limits limits;
        struct plan_net net;
        json_t *init;                       /* owned: handed to envd as it is (envd_init.h says what is in it) */
        char checkpoint[CHECKPOINT_ID_MAX]; /* the memory it begins with; "": none, it is started */
        bool is_upper_kept; /* on the upper directory it left when it was paused; else on an empty one */
        char *token_before; /* owned; the token envd has in the checkpoint; NULL: it is open */
        json_t *origin;     /* owned: kept with its files, for control to make a row of (engine/origin.h); NULL: none */
};

json_t *plan_encode(const struct plan_create *p); /* new reference; NULL out of memory */
/* ERR_INVALID names the field.  On success *ret is the caller's, to be released with plan_done(). */
int plan_decode(const json_t *msg, struct plan_create *ret, struct err *err);
/* The same for a standby: its id is that of a standby, and it begins with a checkpoint, on an empty upper directory. */
int plan_decode_standby(const json_t *msg, struct plan_create *ret, struct err *err);
void plan_done(struct plan_create *p);
/* Do both begin with the same memory, on the same layers, with the same limits, on an empty upper directory?  Then a sandbox
 * that was restored for one serves the other.  What is different: names, environment, network, token. */
bool plan_begins_alike(const struct plan_create *a, const struct plan_create *b);
/* Also a member of other messages: absent is fine, and *ret (borrowed) is NULL then. */
int plan_origin_decode(const json_t *origin, const json_t **ret, struct err *err);

json_t *plan_net_encode(const struct plan_net *n);
int plan_net_decode(const json_t *msg, struct plan_net *ret, struct err *err);
void plan_net_done(struct plan_net *n);

/* "10.0.0.0/8" or a bare address (= /32).  Host bits must be zero unless it is a bare address.  -EINVAL. */
int plan_cidr_parse(const char *text, struct plan_cidr *ret);
