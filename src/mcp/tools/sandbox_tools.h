/* sandbox_tools.h - the tools of a sandbox, in the order of the list, and the backend that they are. */
#pragma once
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/tool.h"

extern const struct mcp_backend sandbox_backend;

int sandbox_tools_start(struct mcp *m); /* once, before the first session; -ENOMEM */
void sandbox_tools_stop(struct mcp *m); /* after the last one; fine when it was not started */

extern const struct tool tool_run_command, tool_start_command, tool_read_command, tool_write_command, tool_kill_command,
        tool_list_commands, tool_read_file, tool_write_file, tool_edit_file, tool_apply_patch, tool_list_directory,
        tool_glob, tool_grep, tool_move, tool_delete, tool_watch, tool_preview_url, tool_list_ports, tool_run_code,
        tool_screenshot, tool_click, tool_type;
