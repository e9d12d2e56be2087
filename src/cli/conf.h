/* conf.h - which server the command line talks to, and with which key. */
#pragma once
#include "model/envfile.h"

struct err;

#define CLI_DEFAULT_DATA "/var/lib/sandglass"

/* data_dir given: <data_dir>/env.  Otherwise E2B_API_URL (with E2B_SANDBOX_URL, E2B_API_KEY) of the environment,
 * otherwise the env file of the default data directory.  The only place of the command line that reads the environment. */
int cli_conf(const char *data_dir, struct envfile *ret, struct err *err);
