/* envd.h - single requests to the daemon in a sandbox, as clients make them: calls with JSON both ways, and files. */
#pragma once
#include <jansson.h>
#include <sys/types.h>

#include "cli/api.h"

struct err;

struct envd {                              /* one sandbox */
        struct cli_api *api;               /* borrowed */
        const struct api_sandbox *sandbox; /* borrowed */
        const char *user;                  /* borrowed; NULL: the sandbox's default */
        struct http_client *client;        /* owned */
};

/* On success *ret is the caller's: envd_close(). */
int envd_open(struct cli_api *api, const struct api_sandbox *sandbox, const char *user, struct envd *ret,
              struct err *err);
void envd_close(struct envd *e);

/* "/filesystem.Filesystem/Stat"; body (stolen; NULL: no memory).  ERR_NOT_FOUND, ERR_INVALID, ERR_DENIED in the daemon's words.
 * *ret is the caller's. */
int envd_call(struct envd *e, const char *method, json_t *body, json_t **ret, struct err *err);
/* The bytes of `fd`, from where it is to its end, become the file `path`. */
int envd_upload(struct envd *e, const char *path, int fd, struct err *err);
/* The bytes of the file `path`, to fd. */
int envd_download(struct envd *e, const char *path, int fd, struct err *err);
