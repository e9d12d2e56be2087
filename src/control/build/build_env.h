/* build_env.h - the values of ENV: $NAME, ${NAME}, ${NAME:-word} and ${NAME:+word} are expanded, everything else is literal.
 * Pure. */
#pragma once
#include <jansson.h>

struct build_step;
struct err;

#define BUILD_ENV_VALUE_MAX (128u << 10) /* bytes of one value: what execve(2) takes */

/* With the names of `env` (an object of texts), PATH and HOME where it has none; a name that is not set is empty.  *ret is the
 * caller's.  ERR_INVALID: too long.  ERR_LIMIT: out of memory. */
int build_env_expand(const char *text, const json_t *env, const char *user, char **ret, struct err *err);
/* env with the pairs of an ENV step, name, value, name, value; each value is expanded with env as it was before the step, unless
 * the step is literal.
 * New reference in *ret.  ERR_INVALID: an odd number of texts, or a name that is none. */
int build_env_apply(const json_t *env, const struct build_step *step, const char *user, json_t **ret, struct err *err);
