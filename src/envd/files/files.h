/* files.h - /files: download (files_download.c), upload (files_upload.c), joining (files_compose.c), and what they
 * share. */
#pragma once
#include <stdbool.h>

#include "envd/rpc/users.h"

struct handler_context;
struct http_request;

void files_download(struct handler_context *context, struct http_request *rq);
void files_upload(struct handler_context *context, struct http_request *rq);
void files_compose(struct handler_context *context, struct http_request *rq);

struct files_query { /* decoded parameters, owned; NULL: absent */
        char *path, *username, *signature, *expiration;
};
void files_query_done(struct files_query *q);
#define AUTO_FILES_QUERY AUTO(files_query_done)

/* Decode the parameters, check that the caller may do this (operation "read" or "write"), and find the user.
 * false: the request has been answered. */
bool files_admit(struct handler_context *context, struct http_request *rq, const char *operation, struct files_query *q,
                 struct user *u);
/* The user of that name, or the default user for NULL and "".  false: the request has been answered with 401. */
bool files_find_user(struct handler_context *context, struct http_request *rq, const char *username, struct user *u);
/* The path as this user means it, malloc'd.  false: the request has been answered with 400. */
bool files_resolve(struct handler_context *context, struct http_request *rq, const char *path, const struct user *u,
                   char **ret);
