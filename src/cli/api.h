/* api.h - the REST calls the command line makes, as any client would. */
#pragma once
#include <jansson.h>

#include "cli/client.h"
#include "model/envfile.h"
#include "model/ids.h"

struct err;

struct api {
        struct envfile env;
        struct client control, sandbox; /* REST API; traffic into sandboxes */
};

/* data_dir as for cli_conf(). */
int api_open(struct api *a, const char *data_dir, struct err *err);
void api_close(struct api *a);

struct api_sandbox { /* what is needed to speak to one */
        char id[SANDBOX_ID_MAX];
        char token[256]; /* "" when it is open */
};

struct api_create {
        const char *template;
        json_t *env; /* borrowed: {name: text} */
        uint32_t timeout_s;
};
int api_create(struct api *a, const struct api_create *rq, struct api_sandbox *ret, struct err *err);
int api_get(struct api *a, const char *id, struct api_sandbox *ret, struct err *err);
int api_delete(struct api *a, const char *id, struct err *err); /* ERR_NOT_FOUND: no such sandbox */
int api_list(struct api *a, json_t **ret_array, struct err *err);
