/* handlers.h - the handlers of the endpoints in router.c, by file. */
#pragma once

struct api_exchange;

void handle_health(struct api_exchange *x); /* handle_sandbox.c */
void handle_get(struct api_exchange *x);
void handle_kill(struct api_exchange *x);
void handle_timeout(struct api_exchange *x);
void handle_refresh(struct api_exchange *x);

void handle_pause(struct api_exchange *x); /* handle_pause.c */
void handle_resume(struct api_exchange *x);
void handle_connect_v1(struct api_exchange *x);
void handle_connect_v2(struct api_exchange *x);

void handle_create_v1(struct api_exchange *x); /* handle_create.c */
void handle_create_v2(struct api_exchange *x);

void handle_list_v1(struct api_exchange *x); /* handle_list.c */
void handle_list_v2(struct api_exchange *x);

void handle_events(struct api_exchange *x);
void handle_end(struct api_exchange *x);
void handle_list_ended(struct api_exchange *x);
void handle_metrics(struct api_exchange *x); /* handle_metrics.c */

void handle_fork(struct api_exchange *x); /* handle_fork.c */

void handle_snapshot(struct api_exchange *x); /* handle_snapshot.c */

void handle_rollback(struct api_exchange *x); /* handle_rollback.c */

void handle_list_snapshots(struct api_exchange *x); /* handle_snapshots.c */

void handle_request_build(struct api_exchange *x); /* template/handle_request.c */
void handle_build_v1(struct api_exchange *x);

void handle_start_build(struct api_exchange *x); /* template/handle_build.c */
void handle_cancel_build(struct api_exchange *x);
void handle_build_status(struct api_exchange *x);
void handle_build_logs(struct api_exchange *x);
struct template_row;
void template_stop_builds(struct api_exchange *x, struct template_row *t); /* those that are not over */

void handle_list_templates_v1(struct api_exchange *x); /* template/handle_template.c */
void handle_list_templates_v2(struct api_exchange *x);
void handle_get_template(struct api_exchange *x);
void handle_template_alias(struct api_exchange *x);
void handle_delete_template(struct api_exchange *x);
void handle_delete_snapshot(struct api_exchange *x);
void handle_patch_template_v1(struct api_exchange *x);
void handle_patch_template_v2(struct api_exchange *x);

void handle_assign_tags(struct api_exchange *x); /* template/handle_tags.c */
void handle_remove_tags(struct api_exchange *x);
void handle_list_tags(struct api_exchange *x);
void handle_roll_back_template(struct api_exchange *x);

void handle_file_link(struct api_exchange *x); /* template/handle_files.c */
void handle_upload(struct api_exchange *x);

void handle_list_keys(struct api_exchange *x); /* handle_keys.c */
void handle_make_key(struct api_exchange *x);
void handle_revoke_key(struct api_exchange *x);

void handle_list_credentials(struct api_exchange *x); /* handle_credentials.c */
void handle_get_credential(struct api_exchange *x);
void handle_set_credential(struct api_exchange *x);
void handle_remove_credential(struct api_exchange *x);

void handle_list_images(struct api_exchange *x); /* handle_images.c */
void handle_pull_image(struct api_exchange *x);
void handle_load_image(struct api_exchange *x);
void handle_remove_image(struct api_exchange *x);

struct list;
void handle_ahead(struct api_exchange *x);
void handle_df(struct api_exchange *x);
void handle_list_lost(struct api_exchange *x); /* handle_lost.c */
void handle_restore_lost(struct api_exchange *x);
void handle_remove_lost(struct api_exchange *x);
void handle_lost_done(struct list *restores); /* restores under way end, and their clients are not told; also zeroed */
