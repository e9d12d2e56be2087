/* platform_tools.h - the tools of the platform, in the order of the list. */
#pragma once
#include "cli/mcp/work.h"

extern const struct platform_tool platform_create_sandbox, platform_list_sandboxes, platform_get_sandbox,
        platform_list_templates, platform_run_command, platform_start_command, platform_read_command,
        platform_write_command, platform_kill_command, platform_list_commands, platform_run_code, platform_read_file,
        platform_write_file, platform_edit_file, platform_list_files, platform_move_file, platform_delete_file,
        platform_upload_file, platform_download_file, platform_preview_url, platform_set_timeout,
        platform_pause_sandbox, platform_resume_sandbox, platform_fork_sandbox, platform_snapshot_sandbox,
        platform_list_snapshots, platform_delete_snapshot, platform_rollback_sandbox, platform_kill_sandbox;

/* Parts of schemas. */
#define SCHEMA_ID                                                                                                      \
        "\"sandbox_id\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":100,\"description\":\"As create_sandbox "   \
        "or list_sandboxes says.\"}"
#define SCHEMA_TIMEOUT                                                                                                 \
        "\"timeout_s\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":2592000,\"description\":\"Seconds from now "    \
        "until the sandbox ends by itself. Default: 300.\"}"
#define SCHEMA_ONLY_ID                                                                                                 \
        "{\"type\":\"object\",\"properties\":{" SCHEMA_ID                                                              \
        "},\"required\":[\"sandbox_id\"],\"additionalProperties\":false}"
#define SCHEMA_USER                                                                                                    \
        "\"user\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":100,\"description\":\"The user inside the "       \
        "sandbox. Default: that of the sandbox.\"}"
