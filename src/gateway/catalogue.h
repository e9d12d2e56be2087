/* catalogue.h - MCP servers by name: how each one is installed and started.
 *
 * Names are those that clients' libraries know.  Servers come from npm, into INSTALL_DIR.  The fields of a server's
 * configuration become environment variables: `apiKey` of `exa` is EXA_API_KEY and API_KEY, `airtableApiKey` is
 * AIRTABLE_API_KEY.  Where a package reads another variable or an argument, the catalogue says so.  Lists of texts become
 * arguments.  A name "github/<owner>/<repository>" is a repository: fetched, installed and run by the commands of its
 * configuration. */
#pragma once
#include <jansson.h>

#include "base/buf.h"

struct err;

struct launch {
        char *script; /* for bash; owned, as the next */
        char **env;   /* "NAME=value", NULL-terminated */
};

/* How to start the server `name` with this configuration.  ERR_NOT_FOUND: unknown name; ERR_INVALID: the configuration is wrong. */
int catalogue_launch(const char *name, const json_t *config, const char *install_dir, const char *github_url,
                     struct launch *ret, struct err *err);
void launch_done(struct launch *l); /* fine when zeroed */
/* The npm package of a server; NULL: there is none. */
const char *catalogue_package(const char *name);
void catalogue_names(struct buf *out); /* ", " between them */
