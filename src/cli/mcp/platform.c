#include "cli/mcp/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/conf.h"
#include "cli/mcp/platform_tools.h"
#include "cli/mcp/started.h"
#include "mcp/protocol/mcp.h"
#include "version.h"

#define EXIT_KILL_MS 10000u

static const struct tool *const tools[] = {
        &platform_create_sandbox.tool,   &platform_list_sandboxes.tool, &platform_get_sandbox.tool,
        &platform_list_templates.tool,   &platform_run_command.tool,    &platform_run_code.tool,
        &platform_start_command.tool,    &platform_read_command.tool,   &platform_write_command.tool,
        &platform_kill_command.tool,     &platform_list_commands.tool,  &platform_read_file.tool,
        &platform_write_file.tool,       &platform_edit_file.tool,      &platform_list_files.tool,
        &platform_move_file.tool,        &platform_delete_file.tool,    &platform_upload_file.tool,
        &platform_download_file.tool,    &platform_preview_url.tool,    &platform_set_timeout.tool,
        &platform_pause_sandbox.tool,    &platform_resume_sandbox.tool, &platform_fork_sandbox.tool,
        &platform_snapshot_sandbox.tool, &platform_list_snapshots.tool, &platform_delete_snapshot.tool,
        &platform_rollback_sandbox.tool, &platform_kill_sandbox.tool,
};
static const struct tool_set set = {tools, ARRAY_LEN(tools)};

static json_t *instructions(const struct mcp *m)
{
        const struct platform *p = m->user;

        return json_pack(
                "s++",
                "Sandboxes: Linux computers that are made in milliseconds and thrown away. create_sandbox gives "
                "an id, which the other tools need. A sandbox ends by itself when its time is up: set_timeout "
                "gives it more time, pause_sandbox keeps its memory and files for later. Try risky steps in a "
                "copy (fork_sandbox), or take a snapshot first. ",
                p->kills_on_exit ? "Sandboxes that were made here end with this server. "
                                 : "Sandboxes go on when this server ends: kill_sandbox ends those that are not "
                                   "needed any more. ",
                p->files_fd >= 0 ? "upload_file and download_file copy files of the user's machine." : "");
}

static json_t *list_tools(const struct mcp *m)
{
        return tool_set_list(&set, m);
}

static void call_tool(struct call *c, const char *name, json_t *args)
{
        tool_set_call(&set, c, name, args);
}

const struct mcp_backend platform_backend = {.name = "sandglass-platform",
                                             .title = "Sandglass sandboxes",
                                             .instructions = instructions,
                                             .list_tools = list_tools,
                                             .call_tool = call_tool};

/* ---- life ---- */

static int open_client(struct platform *p, const char *data_dir, struct err *err)
{
        AUTO(envfile_done) struct envfile env = {0};
        struct sg_client_options opt = {.user_agent = "sandglass-mcp/" SANDGLASS_VERSION};
        struct sg_error failed;
        int r = cli_conf(data_dir, &env, err);

        if (r < 0)
                return r;
        opt.api_key = env.api_key;
        opt.domain = env.domain;
        opt.api_url = env.api_url;
        opt.sandbox_url = env.sandbox_url;
        opt.ca_file = env.ca_certs;
        if (sg_client_open(&opt, &p->client, &failed) < 0)
                return err_set(err, ERR_INVALID, "%s", failed.message);
        return 0;
}

int platform_open(struct platform *p, const struct platform_options *opt, struct err *err)
{
        *p = (struct platform){.files_fd = -1,
                               .kills_on_exit = opt->kills_on_exit,
                               .made = json_object(),
                               .started = started_create()};
        if (!p->started)
                return err_set(err, ERR_LIMIT, "out of memory");
        if (opt->files_dir) {
                p->files_fd = open(opt->files_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (p->files_fd < 0)
                        return err_sys(err, -errno, "open '%s'", opt->files_dir);
        }
        return open_client(p, opt->data_dir, err);
}

int platform_start(struct platform *p, struct mcp *m, struct err *err)
{
        m->backend = &platform_backend;
        m->user = p;
        return workers_create(m->loop, p, &p->workers, err);
}

static void kill_made(struct platform *p)
{
        const struct sg_call wait = {.timeout_ms = EXIT_KILL_MS};
        struct sg_error err;
        const char *id;
        json_t *yes;

        json_object_foreach (p->made, id, yes) {
                if (sg_sandbox_kill(p->client, id, &wait, &err) < 0 && err.kind != SG_NOT_FOUND)
                        log_warn("mcp.kill", "sandbox=%s why=\"%s\"", id, err.message);
        }
}

void platform_close(struct platform *p)
{
        p->workers = workers_free(p->workers);
        if (p->kills_on_exit)
                kill_made(p);
        json_decref(p->made);
        p->made = NULL;
        p->started = started_free(p->started);
        sg_client_free(p->client);
        p->client = NULL;
        if (p->files_fd >= 0)
                close_fd(&p->files_fd);
}
