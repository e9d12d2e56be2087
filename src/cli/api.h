/* api.h - the REST calls the command line makes, as any client would. */
#pragma once
#include <jansson.h>

#include "http/client.h"
#include "model/envfile.h"
#include "model/ids.h"

struct err;

struct cli_api {
        struct envfile env;
        struct http_client *control; /* owned: the REST API */
        struct tls_context *tls;     /* owned: whom to trust; NULL: no https:// so far */
        const char *team;            /* borrowed: the operator acts for this one; NULL: for the key's own */
};

/* data_dir as for cli_conf(). */
int api_open(struct cli_api *a, const char *data_dir, struct err *err);
void api_close(struct cli_api *a);
/* A client of one of the server's URLs.  loop NULL: for http_client_run(). */
int api_client(struct cli_api *a, const char *url, struct loop *loop, struct http_client **ret, struct err *err);
/* A call of `client` failed: where nothing listens, *err says how to start a server. */
void api_explain_refused(const struct http_client *client, struct err *err);
/* How long a call may take from now on; 0: the usual. */
void api_set_patience(struct cli_api *a, unsigned ms);

/* One request with JSON both ways, the body borrowed (NULL: none); *ret (may be NULL) is the caller's.  What the server refuses
 * is an error in its words; err->sys is EINTR when http_client_cancel_on() of `control` ended it. */
int api_request(struct cli_api *a, const char *method, const char *target, json_t *body, json_t **ret, struct err *err);
/* All pages of a list; `query` has a ? already. */
int api_list_all(struct cli_api *a, const char *query, json_t **ret_array, struct err *err);
/* <before><name, percent-encoded><after>: the target of a request, malloc'd; NULL: no memory. */
char *api_target(const char *before, const char *name, const char *after);

struct api_sandbox { /* what is needed to speak to one */
        char id[SANDBOX_ID_MAX];
        char token[256]; /* "" when it is open */
        bool is_paused;
        int64_t end_ns; /* when its time is up, as far as known */
};

struct api_create {
        const char *template;
        json_t *env, *metadata; /* borrowed: {name: text}; NULL: none */
        uint32_t timeout_s;     /* 0: the server's usual */
};
int api_create(struct cli_api *a, const struct api_create *rq, struct api_sandbox *ret, struct err *err);
int api_get(struct cli_api *a, const char *id, struct api_sandbox *ret, struct err *err);
int api_delete(struct cli_api *a, const char *id, struct err *err);   /* ERR_NOT_FOUND: no such sandbox */
int api_list(struct cli_api *a, json_t **ret_array, struct err *err); /* running and paused ones */
/* POST <prefix>/sandboxes/ID/<action>; body (stolen; NULL: out of memory).  *ret (may be NULL) is the caller's. */
struct api_act {
        const char *prefix, *id, *action;
        json_t *body;
};
int api_act(struct cli_api *a, const struct api_act *act, json_t **ret, struct err *err);
int api_snapshots(struct cli_api *a, const char *sandbox_id, json_t **ret_array, struct err *err); /* NULL: of all */
/* What was moved aside (engine/lost.h). */
int api_lost(struct cli_api *a, json_t **ret_array, struct err *err);
int api_lost_restore(struct cli_api *a, const char *id, json_t **ret, struct err *err); /* *ret: the sandbox */
int api_lost_remove(struct cli_api *a, const char *id, struct err *err);
int api_df(struct cli_api *a, json_t **ret, struct err *err); /* who holds what on the disk; for the operator */
/* Images that templates can be built from, for the operator. */
int api_images(struct cli_api *a, json_t **ret_array, struct err *err);
int api_image_remove(struct cli_api *a, const char *image, struct err *err);
/* API keys of a team, for the operator. */
int api_keys(struct cli_api *a, json_t **ret_array, struct err *err);
int api_key_create(struct cli_api *a, const char *name, json_t **ret, struct err *err); /* *ret has the key, too */
int api_key_revoke(struct cli_api *a, const char *id, struct err *err);
int api_snapshot_delete(struct cli_api *a, const char *snapshot, struct err *err);
