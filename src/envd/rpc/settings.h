/* settings.h - what a sandbox was told about itself: token, default environment, user and working directory. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "envd/rpc/fault.h"

struct settings {
        char *token;                    /* NULL: no token is needed */
        char *default_user;             /* never NULL */
        char *default_workdir;          /* NULL: the user's home */
        char *sandbox_id, *template_id; /* NULL: unknown (standalone) */
        json_t *vars;                   /* the user's variables: {name: text}, owned */
        json_t *host_vars;              /* the host's, below them; owned; NULL: none */
        uint32_t memory_mb;             /* 0: not told */
        int64_t newest_ns;              /* newest timestamp seen by settings_apply(); older calls change nothing */
};

int settings_init(struct settings *s); /* defaults; -ENOMEM */
void settings_done(struct settings *s);

/* Apply an init object: of a cell's start (model/envd_init.h) or of POST /init.  An absent accessToken clears the
 * token, an absent envVars keeps the variables, an absent hostEnvVars clears those.  0, or -1 with *f set and nothing changed. */
int settings_apply(struct settings *s, const json_t *init, struct fault *f);

/* Default variables of every process, the internal ones winning: a new {name: text}.  NULL out of memory. */
json_t *settings_env(const struct settings *s);
