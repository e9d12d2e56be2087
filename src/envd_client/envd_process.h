/* envd_process.h - a command in a sandbox: process.Process/Start or /Connect of envd, as a Connect stream. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "http/header.h"

struct envd_process; /* opaque */
struct http_client;

enum envd_output { ENVD_STDOUT, ENVD_STDERR };

#define ENVD_STATUS_MAX 64
#define ENVD_CODE_MAX 32

struct envd_piece {
        enum envd_output kind;
        struct str bytes; /* borrowed for the call */
        /* With `replays`: of the first byte, over stdout and stderr together; and how many bytes before it are lost. */
        uint64_t offset, dropped;
};

struct envd_process_start {
        uint32_t pid;
        /* With `replays`: where the output begins that follows, how many bytes of those asked for are lost, where the output
         * ends so far, and whether the command has ended. */
        uint64_t offset, dropped, next;
        bool is_ended;
};

struct envd_process_end {
        /* ERR_NONE: the command has run, see the rest.  ERR_INVALID: envd refused to start it, and msg is
         * "<code>: <message>" as envd says it.  ERR_TIMEOUT.  Others: of the connection (http/client.h). */
        struct err err;
        char code[ENVD_CODE_MAX];     /* of a refusal: "not_found"; "": it was no refusal of envd's */
        unsigned http_status;         /* of the answer; 0: there was none */
        int exit_code;                /* -1: by a signal */
        char status[ENVD_STATUS_MAX]; /* "exit status 1", "signal: killed" */
};

struct envd_process_options {
        const struct http_header
                *headers;  /* more of them, by which the request finds its sandbox; NULL: none; at most 6 */
        const char *token; /* NULL: none */
        const char *user;  /* NULL: the default one of the sandbox */
        /* Start a command, whose name for all other calls is `tag` (NULL: none): */
        const char *cmd; /* with a slash; NULL: connect */
        const char *cwd; /* absolute; NULL: the default directory of the sandbox, or the user's home */
        json_t *args;    /* array of text; borrowed */
        json_t *env;     /* {name: text}; borrowed; NULL: none */
        const char *tag;
        bool has_stdin;
        uint32_t timeout_s; /* then envd kills the command; 0: never */
        /* Or connect to the command of that tag, or else of that pid, and hear what is kept of its output from there on: */
        uint32_t pid;
        bool replays;
        uint64_t replay_from;

        void (*on_start)(const struct envd_process_start *start, void *arg); /* it runs; NULL: not told */
        void (*on_output)(const struct envd_piece *piece, void *arg);
        /* The last; envd_process_free() may be called in it. */
        void (*on_end)(const struct envd_process_end *end, void *arg);
        void *arg;
};

/* Callbacks come from the loop.  The client's connection is free for the next command after on_end. */
int envd_process_start(struct http_client *envd, const struct envd_process_options *opt, struct envd_process **ret,
                       struct err *err);
/* At any time, also in its callbacks: the command goes on, nobody listens.  NULL is fine. */
struct envd_process *envd_process_free(struct envd_process *p);
/* Output is not wanted for now: a few events may still come, then nothing is read, and the command waits. */
void envd_process_pause(struct envd_process *p);
void envd_process_resume(struct envd_process *p);

/* "Basic dXNlcjo=" for that user; malloc'd, NULL out of memory. */
char *envd_basic_auth(const char *user);
