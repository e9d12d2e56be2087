/* envd_ask.h - one of envd's calls for builds (envd/build/build_calls.h): a request, and an answer in JSON. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

struct envd_ask; /* opaque */
struct http_client;

struct envd_ask_options {
        const char *token;  /* NULL: none */
        const char *method; /* "POST" */
        const char *target; /* path and query */
        json_t *body;       /* borrowed; NULL: none, or `file` */
        int file;           /* borrowed: its bytes are the body; -1: none */
        uint64_t file_bytes;
        int into; /* borrowed: the answer's bytes are written there; -1: the answer is JSON */
        /* Called once.  err ERR_NONE: envd has done it, and answer (borrowed, NULL with `into`) has its words. */
        void (*on_end)(const json_t *answer, uint64_t bytes, const struct err *err, void *arg);
        void *arg;
};

int envd_ask(struct http_client *envd, const struct envd_ask_options *opt, struct envd_ask **ret, struct err *err);
struct envd_ask *envd_ask_free(struct envd_ask *a); /* at any time; NULL is fine */
