#include "cli/mcp/print_config.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/mcp/options.h"
#include "cli/mcp/token.h"

/* Where to paste the settings: those of a program that is started, and those of a server by HTTP. */
static const struct assistant {
        const char *name, *for_stdio, *for_http;
} assistants[] = {
        {"json",
         "Paste this into claude_desktop_config.json (Claude Desktop: Settings, Developer), ~/.cursor/mcp.json "
         "(Cursor), .mcp.json "
         "(Claude Code) or mcp_config.json (Windsurf).",
         "Paste this into ~/.cursor/mcp.json (Cursor) or .mcp.json (Claude Code). For Windsurf, use "
         "--print-config=windsurf. "
         "claude_desktop_config.json (Claude Desktop) takes no server by HTTP: leave out --http."},
        {"vscode", "Paste this into .vscode/mcp.json.", "Paste this into .vscode/mcp.json."},
        {"claude-code", "Run this command.", "Run this command."},
        {"codex", "Paste this into ~/.codex/config.toml.", "Paste this into ~/.codex/config.toml."},
        {"windsurf", "Paste this into mcp_config.json (Windsurf).", "Paste this into mcp_config.json (Windsurf)."},
};

/* What the program would find in its environment, and an assistant does not pass on. */
static const char *const variables[] = {"E2B_API_URL",      "E2B_SANDBOX_URL",     "E2B_DOMAIN",    "E2B_API_KEY",
                                        "E2B_ACCESS_TOKEN", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SANDGLASS_DATA"};

static const struct assistant *find(const char *name)
{
        for (size_t i = 0; i < ARRAY_LEN(assistants); i++)
                if (strcmp(assistants[i].name, name) == 0)
                        return &assistants[i];
        return NULL;
}

bool print_config_knows(const char *assistant)
{
        return find(assistant) != NULL;
}

static int own_path(char out[PATH_MAX])
{
        ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

        if (n < 0)
                return -errno;
        out[n] = '\0';
        return 0;
}

/* An assistant starts the program in a directory of its own. */
static int add_path(json_t *args, const char *option, const char *path, struct err *err)
{
        char whole[PATH_MAX];

        if (!path)
                return 0;
        if (!realpath(path, whole))
                return err_sys(err, -errno, "'%s'", path);
        (void)json_array_append_new(args, json_string(option));
        (void)json_array_append_new(args, json_string(whole));
        return 0;
}

static json_t *environment(const struct mcp_command *cmd)
{
        json_t *env = json_object();

        for (size_t i = 0; i < ARRAY_LEN(variables) && !cmd->platform.data_dir; i++) {
                const char *value = getenv(variables[i]);

                if (value && value[0])
                        (void)json_object_set_new(env, variables[i], json_string(value));
        }
        return env;
}

static int by_stdio(const struct mcp_command *cmd, json_t **ret, struct err *err)
{
        char program[PATH_MAX];
        json_t *args = json_pack("[s]", "mcp"), *env;
        int r = own_path(program);

        r = r < 0 ? err_sys(err, r, "find the program") : add_path(args, "--data", cmd->platform.data_dir, err);
        if (r == 0)
                r = add_path(args, "--files", cmd->platform.files_dir, err);
        if (r == 0 && cmd->platform.kills_on_exit)
                (void)json_array_append_new(args, json_string("--kill-on-exit"));
        if (r < 0) {
                json_decref(args);
                return r;
        }
        env = environment(cmd);
        *ret = json_pack("{s:s,s:o}", "command", program, "args", args);
        if (json_object_size(env) > 0)
                (void)json_object_set(*ret, "env", env);
        json_decref(env);
        return 0;
}

static int by_http(const struct mcp_command *cmd, json_t **ret, struct err *err)
{
        bool has_address = strchr(cmd->http, ':') != NULL;
        AUTO_FREE char *url = NULL, *token = NULL;
        int r = cmd->has_no_token ? 0 : token_read(cmd->token_file, &token, err);

        if (r < 0)
                return r;
        if (asprintf(&url, "http://%s%s/mcp", has_address ? "" : "127.0.0.1:", cmd->http) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        *ret = json_pack("{s:s,s:s}", "type", "http", "url", url);
        if (token) {
                AUTO_FREE char *value = NULL;

                if (asprintf(&value, "Bearer %s", token) >= 0)
                        (void)json_object_set_new(*ret, "headers", json_pack("{s:s}", "Authorization", value));
        }
        return 0;
}

/* ---- in each assistant's way ---- */

static void print_json(const char *key, json_t *entry)
{
        json_t *all = json_pack("{s:{s:O}}", key, "sandglass", entry);

        (void)json_dumpf(all, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
        (void)printf("\n");
        json_decref(all);
}

/* For a shell: in single quotes. */
static void print_word(const char *text)
{
        (void)printf(" '");
        for (; *text; text++)
                (void)(*text == '\'' ? printf("'\\''") : printf("%c", *text));
        (void)printf("'");
}

static void print_claude_code(json_t *entry)
{
        AUTO_FREE char *text = NULL;

        if (!json_object_get(entry, "type"))
                (void)json_object_set_new(entry, "type", json_string("stdio"));
        text = json_dumps(entry, JSON_COMPACT);
        (void)printf("claude mcp add-json sandglass");
        print_word(text ? text : "");
        (void)printf("\n");
}

/* Windsurf has a name of its own for the address. */
static void print_windsurf(json_t *entry)
{
        json_t *url = json_object_get(entry, "url");

        if (url) {
                (void)json_object_set(entry, "serverUrl", url);
                (void)json_object_del(entry, "url");
                (void)json_object_del(entry, "type");
        }
        print_json("mcpServers", entry);
}

/* TOML writes texts and lists of texts as JSON does. */
static void print_toml_value(const char *key, json_t *value)
{
        AUTO_FREE char *text = json_dumps(value, JSON_ENCODE_ANY);

        (void)printf("%s = %s\n", key, text ? text : "\"\"");
}

static void print_codex(json_t *entry)
{
        static const char *const keys[] = {"command", "args", "url"};
        const char *name;
        json_t *value, *table = json_object_get(entry, "env");

        (void)printf("[mcp_servers.sandglass]\n");
        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
                if (json_object_get(entry, keys[i]))
                        print_toml_value(keys[i], json_object_get(entry, keys[i]));
        if (table)
                (void)printf("\n[mcp_servers.sandglass.env]\n");
        if (json_object_get(entry, "headers")) {
                (void)printf("\n[mcp_servers.sandglass.http_headers]\n");
                table = json_object_get(entry, "headers");
        }
        json_object_foreach (table, name, value) {
                print_toml_value(name, value);
        }
}

int print_config(const struct mcp_command *cmd, struct err *err)
{
        const struct assistant *assistant = find(cmd->print_config);
        json_t *entry = NULL;
        int r = cmd->http ? by_http(cmd, &entry, err) : by_stdio(cmd, &entry, err);

        if (r < 0)
                return r;
        if (strcmp(cmd->print_config, "vscode") == 0) {
                if (!json_object_get(entry, "type"))
                        (void)json_object_set_new(entry, "type", json_string("stdio"));
                print_json("servers", entry);
        } else if (strcmp(cmd->print_config, "claude-code") == 0) {
                print_claude_code(entry);
        } else if (strcmp(cmd->print_config, "codex") == 0) {
                print_codex(entry);
        } else if (strcmp(cmd->print_config, "windsurf") == 0) {
                print_windsurf(entry);
        } else {
                print_json("mcpServers", entry);
        }
        (void)fflush(stdout);
        if (assistant)
                (void)fprintf(stderr, "%s\n", cmd->http ? assistant->for_http : assistant->for_stdio);
        json_decref(entry);
        return 0;
}
