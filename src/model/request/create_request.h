/* create_request.h - the body of POST /sandboxes and POST /v2/sandboxes, decoded and checked.  Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/request/network.h"
#include "model/sandbox.h"
#include "model/template_ref.h"

struct err;

#define CREATE_METADATA_MAX (64u << 10) /* bytes of text in all keys and values */
#define CREATE_ENV_MAX (512u << 10)
#define CREATE_MCP_MAX (64u << 10)

enum create_version {
        CREATE_V1, /* 15 seconds, open unless `secure` */
        CREATE_V2, /* 300 seconds, always secured */
};

struct create_request {
        struct template_ref template;
        int64_t timeout_s;
        uint32_t cpu_count, memory_mb; /* 0: as the template has it */
        bool is_secured;
        bool auto_pause, auto_pause_memory, auto_resume;
        enum choice internet;
        struct network network; /* owned */
        json_t *metadata;       /* owned; NULL: none, as the next two */
        json_t *env;            /* owned */
        json_t *mcp;            /* owned */
};

/* ERR_INVALID: the message is what the client gets.  On success *ret is the caller's: create_request_done(). */
int create_request_decode(const json_t *body, enum create_version version, uint32_t timeout_max_s,
                          struct create_request *ret, struct err *err);
void create_request_done(struct create_request *c);
