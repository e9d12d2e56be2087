/* upload.h - the files of a build's COPY steps, sent to the server unless it has them. */
#pragma once

struct cli_api;
struct err;
struct source;
struct view;

/* ERR with sys EINTR: a signal came (api_cancel_on()). */
int upload_files(struct cli_api *api, const struct source *s, const char *template_id, struct view *v, struct err *err);
