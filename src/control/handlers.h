/* handlers.h - what serves the routes of router.c, by file. */
#pragma once

struct exchange;

void handle_health(struct exchange *x); /* handle_sandbox.c */
void handle_get(struct exchange *x);
void handle_kill(struct exchange *x);
void handle_timeout(struct exchange *x);
void handle_refresh(struct exchange *x);

void handle_pause(struct exchange *x); /* handle_rest.c */
void handle_resume(struct exchange *x);
void handle_connect_v1(struct exchange *x);
void handle_connect_v2(struct exchange *x);

void handle_create_v1(struct exchange *x); /* handle_create.c */
void handle_create_v2(struct exchange *x);

void handle_list_v1(struct exchange *x); /* handle_list.c */
void handle_list_v2(struct exchange *x);

void handle_metrics(struct exchange *x); /* handle_metrics.c */

void handle_fork(struct exchange *x); /* handle_fork.c */

void handle_snapshot(struct exchange *x); /* handle_snapshot.c */

void handle_rollback(struct exchange *x); /* handle_rollback.c */

void handle_list_snapshots(struct exchange *x); /* handle_templates.c */
void handle_delete_template(struct exchange *x);

struct list;
void handle_list_lost(struct exchange *x); /* handle_lost.c */
void handle_restore_lost(struct exchange *x);
void handle_remove_lost(struct exchange *x);
void handle_lost_done(struct list *restores); /* those under way end without a word; also zeroed */
