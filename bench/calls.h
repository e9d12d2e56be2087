/* calls.h - the requests that benchmarks send to a server.  Any other answer than success ends the program. */
#pragma once
#include <stdbool.h>

#include "http.h"

struct sandbox {
        char id[64], headers[512]; /* lines that lead a request to its daemon */
};

void call_create(struct http *h, const char *key, struct sandbox *ret);
void sandbox_name(struct sandbox *s, const char *id, const char *token); /* one that is there already */
void call_kill(struct http *h, const char *key, const char *id);
void call_pause(struct http *h, const char *key, const char *id);
void call_connect(struct http *h, const char *key, const char *id, bool is_paused);
/* Run a command to its end; h->marked_us is when its first output came. */
void call_run(struct http *h, const struct sandbox *s, const char *command, const char *argument);
