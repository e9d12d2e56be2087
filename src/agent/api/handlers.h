/* handlers.h - the handlers of all endpoints (router.c). */
#pragma once

struct exchange;

/* handle_create.c, handle_sandbox.c */
void agent_create_sandbox(struct exchange *x);
void agent_list_sandboxes(struct exchange *x);
void agent_get_sandbox(struct exchange *x);
void agent_delete_sandbox(struct exchange *x);
/* handle_command_run.c, handle_command_read.c, handle_commands.c */
void agent_run_command(struct exchange *x);
void agent_read_command(struct exchange *x);
void agent_list_commands(struct exchange *x);
void agent_kill_command(struct exchange *x);
void agent_write_stdin(struct exchange *x);
/* handle_life.c */
void agent_set_timeout(struct exchange *x);
void agent_pause_sandbox(struct exchange *x);
void agent_resume_sandbox(struct exchange *x);
void agent_fork_sandbox(struct exchange *x);
void agent_make_snapshot(struct exchange *x);
void agent_list_snapshots(struct exchange *x);
void agent_delete_snapshot(struct exchange *x);
void agent_watch_events(struct exchange *x);
/* handle_files.c */
void agent_read_file(struct exchange *x);
void agent_write_file(struct exchange *x);
void agent_upload_file(struct exchange *x);
void agent_delete_file(struct exchange *x);
void agent_list_files(struct exchange *x);
void agent_stat_file(struct exchange *x);
void agent_rename_file(struct exchange *x);
void agent_make_directory(struct exchange *x);
void agent_read_archive(struct exchange *x);
void agent_write_archive(struct exchange *x);
/* handle_code.c, handle_ports.c, handle_credentials.c */
void agent_run_code(struct exchange *x);
void agent_list_ports(struct exchange *x);
void agent_get_credentials(struct exchange *x);
void agent_put_credential(struct exchange *x);
void agent_delete_credential(struct exchange *x);
/* handle_docs.c */
void agent_show_openapi(struct exchange *x);
void agent_show_docs(struct exchange *x);
