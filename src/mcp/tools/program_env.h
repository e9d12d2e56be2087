/* program_env.h - the variables of a program that a tool starts.
 *
 * Ours, then those of the sandbox, then those of the tool; of a name that comes again, the last one counts.  The variables of the
 * sandbox are read each time from the file that envd writes (/run/sandglass/environ): this program may have been saved with a template,
 * and then has the variables of the build. */
#pragma once
#include "base/buf.h"

#define PROGRAM_ENV_FILE "/run/sandglass/environ"
#define PROGRAM_ENV_FILE_MAX (2u << 20)

struct program_env {
        struct buf text; /* of the file */
        char **vars;     /* owned, NULL-terminated; the strings are borrowed: from environ, text and the tool */
};

/* A file that cannot be read counts as empty.  -ENOMEM.  To be given to program_env_done() in any case. */
int program_env_init(struct program_env *env, const char *file, const char *const *more);
void program_env_done(struct program_env *env);
#define AUTO_PROGRAM_ENV AUTO(program_env_done)
