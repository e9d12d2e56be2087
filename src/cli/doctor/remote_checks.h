/* remote_checks.h - `doctor --remote`: can clients on other machines use the server?  Looked at from here: names, ports, the
 * certificate as it is served, the API; and on the server's own machine also what it listens on, and the files. */
#pragma once
#include <stdint.h>

#include "cli/doctor/checks.h"

struct cli_options;
struct err;

struct remote_env {
        char *domain; /* owned: with the port, if it has one */
        char *host;   /* owned: without */
        uint16_t port;
        char *listen, *tls_listen; /* owned; NULL: the server is not on this machine, or not known */
        char *tls_cert, *tls_key;  /* owned; NULL: a local authority's */
        char *authority;           /* owned: its certificate; NULL: clients trust the server's certificate without it */
        char *key;                 /* owned; NULL: not known */
};

/* Which server: --domain, else that of the data directory, else E2B_DOMAIN.  ERR_INVALID: none of them says.  The caller's:
 * remote_env_done(), in any case. */
int remote_env_find(const struct cli_options *o, struct remote_env *ret, struct err *err);
void remote_env_done(struct remote_env *env);

struct remote_check {
        const char *name;
        void (*run)(const struct remote_env *env, struct check_result *ret);
};
extern const struct remote_check remote_checks[]; /* ends with a NULL name */
