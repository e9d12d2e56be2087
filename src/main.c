/* main.c - one program: commands for people, and the roles that `serve` starts. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "agent/role.h"
#include "builder/role.h"
#include "cli/cli.h"
#include "cli/conf.h"
#include "control/role.h"
#include "edge/role.h"
#include "engine/role.h"
#include "serve/supervisor/role.h"
#include "serve/serve.h"
#include "version.h"

static const struct {
        const char *name, *log_name, *process_name;
        int (*main)(const struct conf *c);
} roles[] = {
        {"engine", "engine", "sg-engine", engine_main}, {"control", "control", "sg-control", control_main},
        {"edge", "edge", "sg-edge", edge_main},         {"builder", "builder", "sg-builder", builder_main},
        {"agent", "agent", "sg-agent", agent_main},     {NULL, NULL, NULL, NULL},
};

static enum log_level level_of(const char *name)
{
        static const char *const names[] = {"error", "warn", "info", "debug"};

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (strcmp(names[i], name) == 0)
                        return (enum log_level)i;
        return LOG_INFO;
}

/* Not for people: `serve` starts these with a configuration on fd 3. */
static int role_main(int argc, char **argv)
{
        struct err err = {0};
        struct conf c;
        int r;

        for (size_t i = 0; argc == 2 && roles[i].name; i++) {
                if (strcmp(roles[i].name, argv[1]) != 0)
                        continue;
                log_setup(roles[i].log_name, LOG_INFO);
                (void)prctl(PR_SET_NAME, roles[i].process_name, 0, 0, 0);
                if (geteuid() != 0) /* clients' secrets pass through them: no core dumps */
                        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
                if (role_conf(&c, &err) < 0) {
                        log_error("role.conf", "error=\"%s\"", err.msg);
                        return 1;
                }
                log_setup(roles[i].log_name, level_of(c.log_level));
                r = roles[i].main(&c);
                conf_done(&c);
                return r;
        }
        (void)fputs("sandglass role: for `sandglass serve` only\n", stderr);
        return 2;
}

static const char version_usage[] = "usage: sandglass version [--json]\n";
static const char help_usage[] = "usage: sandglass help [COMMAND]\n";

static bool is_help(const char *word)
{
        return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int version_main(int argc, char **argv)
{
        bool is_json = argc == 2 && strcmp(argv[1], "--json") == 0;

        if (argc == 2 && is_help(argv[1])) {
                (void)fputs(version_usage, stdout);
                return 0;
        }
        if (argc > 1 && !is_json) {
                (void)fputs(version_usage, stderr);
                return 2;
        }
        (void)printf(is_json ? "{\"version\":\"%s\"}\n" : "sandglass %s\n", SANDGLASS_VERSION);
        return 0;
}

/* `template base` works on a data directory, the others talk to a server. */
static int template_main(int argc, char **argv)
{
        bool is_base = argc > 1 && (strcmp(argv[1], "base") == 0 || (argv[1][0] == '-' && !is_help(argv[1])));

        return (is_base ? template_base_main : template_cli_main)(argc, argv);
}

static int help_main(int argc, char **argv);

static const struct command_entry {
        const char *name;
        int (*main)(int argc, char **argv);
        const char *usage, *summary; /* summary NULL: not in the list */
} commands[] = {
        {"serve", serve_main, serve_usage, "serve in the foreground"},
        {"create", create_main, create_usage, "start a sandbox"},
        {"run", run_main, run_usage, "run a command in a new sandbox"},
        {"ps", ps_main, ps_usage, "list the sandboxes"},
        {"exec", exec_main, exec_usage, "run a command in a running sandbox"},
        {"shell", shell_main, shell_usage, "open a shell in a running sandbox"},
        {"cp", cp_main, cp_usage, "copy files between this machine and a sandbox"},
        {"code", code_main, code_usage, "run code in a sandbox: a file, or an interactive session"},
        {"notebook", notebook_main, notebook_usage, "run a notebook in a sandbox, and write its outputs into it"},
        {"mcp", mcp_main, mcp_usage, "serve sandboxes to an AI assistant, by the Model Context Protocol"},
        {"agent", agent_cli_main, agent_usage, "give a prompt to an agent, on this machine or in a sandbox"},
        {"logs", logs_main, logs_usage, "print the output of commands in a sandbox"},
        {"info", info_main, info_usage, "describe a sandbox"},
        {"kill", kill_main, kill_usage, "end sandboxes"},
        {"pause", pause_main, pause_usage, "stop sandboxes, and keep their memory and files"},
        {"resume", resume_main, resume_usage, "resume paused sandboxes"},
        {"snapshot", snapshot_main, snapshot_usage, "save the state of a sandbox, to start others from it"},
        {"snapshots", snapshots_main, snapshots_usage, "list or delete snapshots"},
        {"fork", fork_main, fork_usage, "make running copies of a sandbox"},
        {"rollback", rollback_main, rollback_usage, "take a sandbox back to one of its snapshots"},
        {"image", image_main, image_usage, "pull, load, list or remove images that templates are built from"},
        {"lost", lost_main, lost_usage, "list, restore or remove what the server's database did not know"},
        {"df", df_main, df_usage, "show who holds what on the server's disk"},
        {"key", key_main, key_usage, "make, list or revoke API keys"},
        {"credentials", credentials_main, credentials_usage, "set, list or remove the credentials that agents get"},
        {"env", env_main, env_usage, "print the settings for clients, with your own key"},
        {"doctor", doctor_main, doctor_usage, "check what this host can do"},
        {"trust", trust_main, trust_usage, "let this system trust the server's certificates"},
        {"template", template_main, template_usage, "build templates, list them, and look after them"},
        {"criu", criu_main, criu_usage, "fetch CRIU, which saves memory for a pause"},
        {"down", down_main, down_usage, "end a server and its running sandboxes"},
        {"version", version_main, version_usage, "print the version"},
        {"help", help_main, help_usage, "explain a command"},
        {"role", role_main, "", NULL},
};

static const struct command_entry *find_command(const char *name)
{
        for (size_t i = 0; i < ARRAY_LEN(commands); i++)
                if (strcmp(commands[i].name, name) == 0)
                        return &commands[i];
        return NULL;
}

static void print_commands(FILE *to)
{
        (void)fputs("usage: sandglass COMMAND [options]\nSandboxes for AI agents, on your own machine.\n\n", to);
        for (size_t i = 0; i < ARRAY_LEN(commands); i++)
                if (commands[i].summary)
                        (void)fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
        (void)fputs("\n`sandglass help COMMAND` explains a command.  Commands that talk to a server find the server by "
                    "--data DIR, its data\n"
                    "directory, else by E2B_API_URL and E2B_API_KEY, else in " CLI_DEFAULT_DATA ".\n",
                    to);
}

static int help_main(int argc, char **argv)
{
        const struct command_entry *c = argc > 1 ? find_command(argv[1]) : NULL;

        if (argc == 2 && is_help(argv[1]))
                argc = 1;
        if (argc > 2) {
                (void)fputs(help_usage, stderr);
                return 2;
        }
        if (argc > 1 && !c) {
                (void)fprintf(stderr, "sandglass help: no command '%s'\n", argv[1]);
                return 2;
        }
        if (c)
                (void)fputs(c->usage, stdout);
        else
                print_commands(stdout);
        return 0;
}

int main(int argc, char **argv)
{
        const struct command_entry *c;

        if (argc < 2) {
                print_commands(stderr);
                return 2;
        }
        if (is_help(argv[1]))
                argv[1] = "help";
        if (strcmp(argv[1], "--version") == 0)
                argv[1] = "version";
        c = find_command(argv[1]);
        if (!c) {
                (void)fprintf(stderr, "sandglass: no command '%s'\n", argv[1]);
                print_commands(stderr);
                return 2;
        }
        return c->main(argc - 1, argv + 1);
}
