#include "mcp/tools/sandbox_tools.h"

#include "mcp/tools/program.h"
#include "mcp/tools/resources.h"
#include "mcp/tools/workbench.h"

static const struct tool *const tools[] = {
        &tool_run_command,    &tool_start_command, &tool_read_command, &tool_write_command, &tool_kill_command,
        &tool_list_commands,  &tool_read_file,     &tool_write_file,   &tool_edit_file,     &tool_apply_patch,
        &tool_list_directory, &tool_glob,          &tool_grep,         &tool_move,          &tool_delete,
        &tool_watch,          &tool_preview_url,   &tool_list_ports,   &tool_run_code,      &tool_screenshot,
        &tool_click,          &tool_type,
};
static const struct tool_set set = {tools, ARRAY_LEN(tools)};

static json_t *instructions(const struct mcp *m)
{
        (void)m;
        return json_string("Tools for a Linux sandbox of your own. run_command has a shell that keeps its directory "
                           "and variables. Use "
                           "start_command for servers, and preview_url for the address of a port. Relative paths begin "
                           "in the workspace.");
}

static json_t *list_tools(const struct mcp *m)
{
        return tool_set_list(&set, m);
}

static void call_tool(struct call *c, const char *name, json_t *args)
{
        tool_set_call(&set, c, name, args);
}

static void add_capabilities(json_t *can)
{
        (void)json_object_set_new(can, "resources", json_pack("{s:b,s:b}", "subscribe", 1, "listChanged", 0));
}

const struct mcp_backend sandbox_backend = {.name = "sandglass",
                                            .title = "Sandglass sandbox",
                                            .instructions = instructions,
                                            .list_tools = list_tools,
                                            .call_tool = call_tool,
                                            .methods = resources_methods,
                                            .add_capabilities = add_capabilities,
                                            .session_is_busy = workbench_is_busy,
                                            .session_listens = session_watches_listen,
                                            .session_rests = workbench_rest,
                                            .session_ended = workbench_end,
                                            .on_child = program_reap};
