/* envd_process.h - a command in a sandbox: process.Process/Start of envd, as a Connect stream. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct envd_process; /* opaque */
struct http_client;

enum envd_output { ENVD_STDOUT, ENVD_STDERR };

#define ENVD_STATUS_MAX 64

struct envd_process_end {
        /* ERR_NONE: the command has run, see the rest.  ERR_INVALID: envd refused to start it, and msg is
         * "<code>: <message>" as envd says it.  ERR_TIMEOUT.  Others: of the connection (http/client.h). */
        struct err err;
        int exit_code;                /* -1: by a signal */
        char status[ENVD_STATUS_MAX]; /* "exit status 1", "signal: killed" */
};

struct envd_process_options {
        const char *token; /* NULL: none */
        const char *user;
        const char *cwd;             /* absolute; NULL: the user's home */
        const char *cmd;             /* with a slash */
        json_t *args;                /* array of text; borrowed */
        json_t *env;                 /* {name: text}; borrowed; NULL: none */
        uint32_t timeout_s;          /* then envd kills the command; 0: never */
        void (*on_start)(void *arg); /* it runs; NULL: not told */
        void (*on_output)(enum envd_output kind, struct str bytes, void *arg);
        /* The last; envd_process_free() may be called in it. */
        void (*on_end)(const struct envd_process_end *end, void *arg);
        void *arg;
};

/* Callbacks come from the loop.  The client's connection is free for the next command after on_end. */
int envd_process_start(struct http_client *envd, const struct envd_process_options *opt, struct envd_process **ret,
                       struct err *err);
/* At any time: the command goes on, nobody listens.  NULL is fine. */
struct envd_process *envd_process_free(struct envd_process *p);

/* "Basic dXNlcjo=" for that user; malloc'd, NULL out of memory. */
char *envd_basic_auth(const char *user);
