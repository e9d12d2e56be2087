/* conf.h - which server the command line talks to, and with which key. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "model/envfile.h"

struct err;

#define CLI_DEFAULT_DATA "/var/lib/sandglass"

/* data_dir given: <data_dir>/env; for users who cannot read that file, what the server tells members of its group (member.h).
 * Otherwise E2B_API_URL (with E2B_SANDBOX_URL, E2B_API_KEY) or E2B_DOMAIN (with E2B_API_KEY) of the environment, otherwise the
 * default data directory.  The only place of the command line that reads the environment. */
int cli_conf(const char *data_dir, struct envfile *ret, struct err *err);

struct cli_user { /* who uses the command */
        uid_t uid;
        bool is_sudo;     /* ... by way of sudo */
        const char *home; /* of the process; borrowed from the environment; NULL: not set */
};
struct cli_user cli_user(void);

char *cli_config_dir(void);                 /* ~/.config or what stands for it, malloc'd; NULL: not known */
const char *cli_variable(const char *name); /* of the environment; NULL: not set, or empty */
const char *cli_remote_domain(void);        /* E2B_DOMAIN; NULL: not set */
const char *cli_remote_key(void);           /* E2B_API_KEY; NULL: not set */
