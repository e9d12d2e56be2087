/* plans.h - what the engine needs to begin a sandbox, from all that its row says. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct conf;
struct err;
struct sandbox;
struct tokens;

/* With the memory of the sandbox's checkpoint or without; envd is given s->env.  ERR_INVALID: s->env is too large. */
int plan_for(const struct conf *conf, const struct tokens *tokens, const struct sandbox *s, bool with_memory,
             json_t **ret, struct err *err);
