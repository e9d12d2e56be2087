/* command_request.h - the bodies of POST …/commands and POST …/commands/{id}/stdin, decoded and checked.  Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

#define COMMAND_TEXT_MAX (128u << 10) /* the kernel takes no longer word (MAX_ARG_STRLEN) */
#define COMMAND_TIMEOUT_MAX_S (30u * 24 * 3600)
#define COMMAND_ENV_MAX (512u << 10)

struct command_request { /* all borrowed from the body */
        const char *command;
        const char *cwd, *user; /* NULL: the default ones of the sandbox */
        json_t *env;            /* {name: text}; NULL: none */
        bool is_background, has_stdin;
        uint32_t timeout_s; /* 0: none */
};

/* ERR_INVALID names the field. */
int command_request_decode(const json_t *body, struct command_request *ret, struct err *err);

struct stdin_request { /* borrowed from the body */
        const char *data;
        size_t data_len;
        bool is_base64;
        bool closes; /* after the data: nothing more comes */
};
int stdin_request_decode(const json_t *body, struct stdin_request *ret, struct err *err);

/* "encoding": "utf-8" (the default) or "base64". */
int encoding_decode(const json_t *body, bool *ret_is_base64, struct err *err);
