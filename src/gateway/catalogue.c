#include "gateway/catalogue.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

#define VARIABLES_MAX 64u
#define FIELDS_MAX 2u /* of a server, with names of their own */

#define ARGUMENT "" /* of the program, in place of a variable */
#define LEFT_OUT NULL

/* arguments: words before all others.  fields: those whose variable has another name than add_field() makes of the field, as the package
 * says it. */
static const struct server {
        const char *name, *package, *program, *arguments;
        struct {
                const char *field, *variable;
        } fields[FIELDS_MAX];
} servers[] = {
        {"airtable", "airtable-mcp-server", "airtable-mcp-server", .fields = {{"nodeenv", "NODE_ENV"}}},
        {"apify", "@apify/actors-mcp-server", "actors-mcp-server"},
        {"astraDb", "@datastax/astra-db-mcp", "astra-db-mcp", .fields = {{"endpoint", "ASTRA_DB_API_ENDPOINT"}}},
        {"awsKbRetrievalServer", "@modelcontextprotocol/server-aws-kb-retrieval", "mcp-server-aws-kb-retrieval",
         .fields = {{"accessKeyId", "AWS_ACCESS_KEY_ID"}}},
        {"azure", "@azure/mcp", "azmcp", .arguments = "server start"},
        {"brave", "@brave/brave-search-mcp-server", "brave-search-mcp-server"},
        {"browserbase", "@browserbasehq/mcp-server-browserbase", "mcp-server-browserbase"},
        {"circleci", "@circleci/mcp-server-circleci", "mcp-server-circleci", .fields = {{"url", "CIRCLECI_BASE_URL"}}},
        {"cloudRun", "@google-cloud/cloud-run-mcp", "cloud-run-mcp",
         .fields = {{"credentialsPath", "GOOGLE_APPLICATION_CREDENTIALS"}}},
        {"context7", "@upstash/context7-mcp", "context7-mcp"},
        {"dart", "dart-mcp-server", "dart-mcp-server"},
        {"databaseServer", "@bytebase/dbhub", "dbhub", .fields = {{"databaseUrl", "DSN"}}},
        {"desktopCommander", "@wonderwhy-er/desktop-commander", "desktop-commander", .fields = {{"paths", LEFT_OUT}}},
        {"dynatrace", "@dynatrace-oss/dynatrace-mcp-server", "mcp-server-dynatrace",
         .fields = {{"url", "DT_ENVIRONMENT"}}},
        {"elasticsearch", "@elastic/mcp-server-elasticsearch", "mcp-server-elasticsearch",
         .fields = {{"url", "ES_URL"}}},
        {"everart", "@modelcontextprotocol/server-everart", "mcp-server-everart"},
        {"everything", "@modelcontextprotocol/server-everything", "mcp-server-everything"},
        {"exa", "exa-mcp-server", "exa-mcp-server"},
        {"filesystem", "@modelcontextprotocol/server-filesystem", "mcp-server-filesystem"},
        {"firecrawl", "firecrawl-mcp", "firecrawl-mcp", .fields = {{"url", "FIRECRAWL_API_URL"}}},
        {"github", "@modelcontextprotocol/server-github", "mcp-server-github"},
        {"gitlab", "@modelcontextprotocol/server-gitlab", "mcp-server-gitlab", .fields = {{"url", "GITLAB_API_URL"}}},
        {"glif", "@glifxyz/glif-mcp-server", "glif-mcp-server", .fields = {{"ignoredSaved", "IGNORE_SAVED_GLIFS"}}},
        {"googleMaps", "@modelcontextprotocol/server-google-maps", "mcp-server-google-maps"},
        {"heroku", "@heroku/mcp-server", "heroku-mcp-server"},
        {"hostinger", "hostinger-api-mcp", "hostinger-api-mcp", .fields = {{"apitoken", "HOSTINGER_API_TOKEN"}}},
        {"hubspot", "@hubspot/mcp-server", "mcp-hubspot", .fields = {{"apiKey", "PRIVATE_APP_ACCESS_TOKEN"}}},
        {"hyperbrowser", "hyperbrowser-mcp", "hyperbrowser-mcp"},
        {"kubernetes", "mcp-server-kubernetes", "mcp-server-kubernetes", .fields = {{"configPath", "KUBECONFIG"}}},
        {"lara", "@translated/lara-mcp", "lara-mcp", .fields = {{"keyId", "LARA_ACCESS_KEY_ID"}}},
        {"line", "@line/line-bot-mcp-server", "line-bot-mcp-server", .fields = {{"userId", "DESTINATION_USER_ID"}}},
        {"mapbox", "@mapbox/mcp-server", "mcp-server"},
        {"mapboxDevkit", "@mapbox/mcp-devkit-server", "mapbox-mcp-devkit"},
        {"memory", "@modelcontextprotocol/server-memory", "mcp-server-memory"},
        {"mongodb", "mongodb-mcp-server", "mongodb-mcp-server"},
        {"neon", "@neondatabase/mcp-server-neon", "mcp-server-neon", .arguments = "start",
         .fields = {{"apiKey", ARGUMENT}}},
        {"nextDevtools", "next-devtools-mcp", "next-devtools-mcp"},
        {"notion", "@notionhq/notion-mcp-server", "notion-mcp-server",
         .fields = {{"internalIntegrationToken", "NOTION_TOKEN"}}},
        {"openbnbAirbnb", "@openbnb/mcp-server-airbnb", "mcp-server-airbnb"},
        {"opik", "opik-mcp", "opik-mcp"},
        {"perplexityAsk", "@perplexity-ai/mcp-server", "perplexity-mcp"},
        {"playwright", "@playwright/mcp", "playwright-mcp", .fields = {{"data", LEFT_OUT}}},
        {"postman", "@postman/postman-mcp-server", "postman-mcp-server"},
        {"puppeteer", "@modelcontextprotocol/server-puppeteer", "mcp-server-puppeteer"},
        {"ref", "ref-tools-mcp", "ref-tools-mcp"},
        {"resend", "resend-mcp", "resend-mcp",
         .fields = {{"sender", "SENDER_EMAIL_ADDRESS"}, {"replyTo", "REPLY_TO_EMAIL_ADDRESSES"}}},
        {"sentry", "@sentry/mcp-server", "sentry-mcp", .fields = {{"authToken", "SENTRY_ACCESS_TOKEN"}}},
        {"sequentialthinking", "@modelcontextprotocol/server-sequential-thinking", "mcp-server-sequential-thinking"},
        {"slack", "@modelcontextprotocol/server-slack", "mcp-server-slack"},
        {"smartbear", "@smartbear/mcp", "mcp",
         .fields = {{"apiHubApiKey", "SWAGGER_API_KEY"}, {"bugsnagApiKey", "BUGSNAG_PROJECT_API_KEY"}}},
        {"stripe", "@stripe/mcp", "mcp"},
        {"supabase", "@supabase/mcp-server-supabase", "mcp-server-supabase"},
        {"supadata", "@supadata/mcp", "supadata-mcp"},
        {"tavily", "tavily-mcp", "tavily-mcp"},
        {"telnyx", "telnyx-mcp", "mcp-server"},
        {"tigris", "@tigrisdata/tigris-mcp-server", "tigris-mcp-server", .arguments = "run"},
        {"webflow", "webflow-mcp-server", "webflow-mcp-server"},
};

/* What these scripts print goes to the log: stdout belongs to the protocol.  Values come as variables, never as text of the script. */
static const char npm_script[] =
        "program=$SANDGLASS_DIR/npm/$SANDGLASS_PACKAGE\n"
        "[ -x \"$program/node_modules/.bin/$SANDGLASS_PROGRAM\" ] || {\n"
        "        mkdir -p \"$program\" && npm install --yes --no-audit --no-fund --loglevel=error "
        "--prefix \"$program\" \"$SANDGLASS_PACKAGE\" >&2 || exit 1\n"
        "}\n"
        "cd \"${HOME:-/}\"\n"
        "eval \"arguments=($SANDGLASS_ARGUMENTS)\"\n"
        "exec \"$program/node_modules/.bin/$SANDGLASS_PROGRAM\" \"${arguments[@]}\"\n";
static const char github_script[] =
        "set -e\n"
        "tree=$SANDGLASS_DIR/github/$SANDGLASS_REPOSITORY\n"
        "[ -e \"$tree/.installed\" ] || {\n"
        "        rm -rf \"$tree\"\n"
        "        mkdir -p \"$(dirname \"$tree\")\"\n"
        "        git clone --quiet --depth 1 \"$SANDGLASS_GITHUB/$SANDGLASS_REPOSITORY\" \"$tree\" </dev/null >&2\n"
        "        cd \"$tree\"\n"
        "        [ -z \"$SANDGLASS_INSTALL\" ] || bash -c \"$SANDGLASS_INSTALL\" </dev/null >&2\n"
        "        touch .installed\n"
        "}\n"
        "cd \"$tree\"\n"
        "exec bash -c \"$SANDGLASS_RUN\"\n";

const char *catalogue_package(const char *name)
{
        for (size_t i = 0; i < ARRAY_LEN(servers); i++)
                if (strcmp(servers[i].name, name) == 0)
                        return servers[i].package;
        return NULL;
}

void catalogue_names(struct buf *out)
{
        for (size_t i = 0; i < ARRAY_LEN(servers); i++)
                (void)buf_addf(out, "%s%s", i ? ", " : "", servers[i].name);
}

void launch_done(struct launch *l)
{
        for (char **e = l->env; e && *e; e++)
                free(*e);
        free(l->env);
        free(l->script);
        *l = (struct launch){0};
}

/* ---- variables ---- */

static int add_variable(struct launch *l, const char *name, const char *value)
{
        size_t n = 0;

        while (l->env[n])
                n++;
        if (n == VARIABLES_MAX)
                return -E2BIG;
        return asprintf(&l->env[n], "%s=%s", name, value) < 0 ? (l->env[n] = NULL, -ENOMEM) : 0;
}

/* "geminiApiKey" -> "GEMINI_API_KEY" */
static int add_upper(struct buf *out, const char *name)
{
        int r = 0;

        for (const char *p = name; *p && r == 0; p++) {
                bool begins_word = p > name && isupper((unsigned char)*p) && !isupper((unsigned char)p[-1]);
                char c = isalnum((unsigned char)*p) ? (char)toupper((unsigned char)*p) : '_';

                if (begins_word)
                        r = buf_addc(out, "_");
                if (r == 0)
                        r = buf_add(out, &c, 1);
        }
        return r;
}

static int add_field(struct launch *l, const char *server, const char *field, const char *value)
{
        AUTO_BUF struct buf plain = BUF_INIT(256), prefixed = BUF_INIT(512);
        int r = add_upper(&plain, field);

        if (r == 0)
                r = add_upper(&prefixed, server);
        if (r == 0 && strncasecmp(field, server, strlen(server)) != 0)
                r = buf_addf(&prefixed, "_%s", buf_cstr(&plain)) < 0 ? -ENOMEM
                                                                     : add_variable(l, buf_cstr(&prefixed), value);
        return r < 0 ? r : add_variable(l, buf_cstr(&plain), value);
}

static int add_argument(struct buf *out, const char *text)
{
        int r = buf_addc(out, out->len ? " '" : "'");

        for (const char *p = text; *p && r == 0; p++)
                r = *p == '\'' ? buf_addc(out, "'\\''") : buf_add(out, p, 1);
        return r < 0 ? r : buf_addc(out, "'");
}

/* Where the field goes: a name of a variable, ARGUMENT, LEFT_OUT. */
static bool has_own_name(const struct server *server, const char *field, const char **ret_variable)
{
        for (size_t i = 0; i < FIELDS_MAX; i++) {
                if (!server->fields[i].field || strcmp(server->fields[i].field, field) != 0)
                        continue;
                *ret_variable = server->fields[i].variable;
                return true;
        }
        return false;
}

static int add_value(struct launch *l, const struct server *server, const char *field, const char *value,
                     struct buf *arguments)
{
        const char *variable;

        if (!has_own_name(server, field, &variable))
                return add_field(l, server->name, field, value);
        if (!variable)
                return 0;
        return variable[0] ? add_variable(l, variable, value) : add_argument(arguments, value);
}

static int add_list(const struct server *server, const char *field, const json_t *list, struct buf *arguments,
                    struct err *err)
{
        const char *variable = ARGUMENT;
        const json_t *one;
        size_t i;
        int r = 0;

        (void)has_own_name(server, field, &variable);
        json_array_foreach (list, i, one) {
                if (!json_is_string(one))
                        return err_set(err, ERR_INVALID, "%s must be a list of texts", field);
                if (r == 0 && variable)
                        r = add_argument(arguments, json_string_value(one));
        }
        return r;
}

/* One field of the configuration: a variable, or arguments. */
static int take_field(struct launch *l, const struct server *server, const char *field, const json_t *value,
                      struct buf *arguments, struct err *err)
{
        char number[64];
        int r = 0;

        if (json_is_array(value)) {
                r = add_list(server, field, value, arguments, err);
        } else if (json_is_string(value)) {
                r = add_value(l, server, field, json_string_value(value), arguments);
        } else if (json_is_boolean(value)) {
                r = add_value(l, server, field, json_is_true(value) ? "true" : "false", arguments);
        } else if (json_is_number(value)) {
                (void)snprintf(number, sizeof(number), "%.15g", json_number_value(value));
                r = add_value(l, server, field, number, arguments);
        } else if (!json_is_null(value)) {
                return err_set(err, ERR_INVALID, "%s must be a text, a number, true, false, or a list of texts", field);
        }
        return r < 0 && !err->msg[0] ? err_sys(err, r, "%s", field) : r;
}

static int launch_npm(const struct server *server, const json_t *config, struct launch *l, struct err *err)
{
        AUTO_BUF struct buf arguments = BUF_INIT(1u << 20);
        const char *field;
        json_t *value;
        int r = server->arguments ? buf_addc(&arguments, server->arguments) : 0;

        json_object_foreach ((json_t *)(uintptr_t)config, field, value) {
                if (r == 0)
                        r = take_field(l, server, field, value, &arguments, err);
        }
        if (r < 0)
                return r;
        l->script = strdup(npm_script);
        if (!l->script || add_variable(l, "SANDGLASS_PACKAGE", server->package) < 0 ||
            add_variable(l, "SANDGLASS_PROGRAM", server->program) < 0 ||
            add_variable(l, "SANDGLASS_ARGUMENTS", arguments.len ? buf_cstr(&arguments) : "") < 0)
                return err_sys(err, -ENOMEM, "start %s", server->name);
        return 0;
}

static const char *either(const json_t *config, const char *one, const char *other)
{
        const char *value = json_string_value(json_object_get(config, one));

        return value ? value : json_string_value(json_object_get(config, other));
}

/* "owner/repository": two names, and no way out of the directory. */
static bool is_repository(const char *name)
{
        static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
        size_t owner = strspn(name, allowed);
        const char *repository = name + owner + 1;

        if (owner == 0 || name[owner] != '/' || name[0] == '.' || name[0] == '-')
                return false;
        return repository[0] && repository[0] != '.' && repository[0] != '-' &&
               repository[strspn(repository, allowed)] == '\0';
}

static int launch_github(const char *repository, const json_t *config, const char *github_url, struct launch *l,
                         struct err *err)
{
        const char *run = either(config, "runCmd", "run_cmd"), *install = either(config, "installCmd", "install_cmd"),
                   *name;
        json_t *envs = json_object_get(config, "envs"), *value;

        if (!is_repository(repository))
                return err_set(err, ERR_INVALID, "github/%.100s is no repository: github/<owner>/<repository>",
                               repository);
        if (!run)
                return err_set(err, ERR_INVALID, "runCmd is missing");
        json_object_foreach (envs, name, value) {
                if (!json_is_string(value) || !name[0] || strchr(name, '='))
                        return err_set(err, ERR_INVALID, "envs.%.60s must be a text", name);
                if (add_variable(l, name, json_string_value(value)) < 0)
                        return err_set(err, ERR_LIMIT, "envs has too many variables");
        }
        l->script = strdup(github_script);
        if (!l->script || add_variable(l, "SANDGLASS_REPOSITORY", repository) < 0 ||
            add_variable(l, "SANDGLASS_GITHUB", github_url) < 0 || add_variable(l, "SANDGLASS_RUN", run) < 0 ||
            add_variable(l, "SANDGLASS_INSTALL", install ? install : "") < 0)
                return err_sys(err, -ENOMEM, "start github/%s", repository);
        return 0;
}

int catalogue_launch(const char *name, const json_t *config, const char *install_dir, const char *github_url,
                     struct launch *ret, struct err *err)
{
        struct launch l = {.env = calloc(VARIABLES_MAX + 1, sizeof(char *))};
        int r = -1;

        if (!l.env || add_variable(&l, "SANDGLASS_DIR", install_dir) < 0) {
                launch_done(&l);
                return err_sys(err, -ENOMEM, "start %s", name);
        }
        if (!json_is_object(config)) {
                r = err_set(err, ERR_INVALID, "the configuration must be an object");
        } else if (strncmp(name, "github/", 7) == 0) {
                r = launch_github(name + 7, config, github_url, &l, err);
        } else {
                size_t at = 0;

                while (at < ARRAY_LEN(servers) && strcmp(servers[at].name, name) != 0)
                        at++;
                r = at < ARRAY_LEN(servers) ? launch_npm(&servers[at], config, &l, err)
                                            : err_set(err, ERR_NOT_FOUND, "no package of npm is known for this name");
        }
        if (r < 0) {
                launch_done(&l);
                return r;
        }
        *ret = l;
        return 0;
}
