/* api.h - the REST calls the command line makes, as any client would. */
#pragma once
#include <jansson.h>

#include "model/envfile.h"
#include "model/ids.h"
#include "sandglass.h"

struct err;
struct patience;

struct cli_api {
        struct envfile env;
        struct sg_client *client; /* owned */
        const char *team;         /* borrowed: the operator acts for this one; NULL: for the key's own */
        uint32_t patience_ms;     /* how long a call may take */
        struct sg_cancel *cancel; /* owned; NULL: calls are not cancelled */
        int cancel_fd;            /* borrowed: by which they are; -1: none */
        struct patience *again;   /* borrowed: a request that the server wants later is repeated; NULL: is not */
        /* While a call waits, about every tick_ms; NULL: not. */
        void (*on_tick)(void *arg);
        void *tick_arg;
        uint32_t tick_ms;
};

/* data_dir as for cli_conf(). */
int api_open(struct cli_api *a, const char *data_dir, struct err *err);
void api_close(struct cli_api *a);
/* How long a call may take from now on; 0: the usual. */
void api_set_patience(struct cli_api *a, unsigned ms);
/* Once `fd` (borrowed) is readable, calls end with ERR_INTERRUPTED (err->sys EINTR); -1: no such fd. */
int api_cancel_on(struct cli_api *a, int fd, struct err *err);
/* How a call of the library waits. */
struct sg_call api_wait(const struct cli_api *a, uint32_t timeout_ms);
/* What the library says, in our words: where nothing listens, *err says how to start a server. */
int api_error(const struct cli_api *a, const struct sg_error *why, struct err *err);
/* The same for the REST API, which may not know the key. */
int api_refused(const struct cli_api *a, const struct sg_error *why, struct err *err);
/* sg_request() as `a` waits, for its team. */
int api_send(struct cli_api *a, const char *method, const char *target, const char *body,
             const struct sg_request_options *more, struct sg_answer **ret, struct err *err);

/* One request with JSON both ways, the body borrowed (NULL: none); *ret (may be NULL) is the caller's.  What the server refuses
 * is an error in its words; err->sys is EINTR when api_cancel_on() ended it. */
int api_request(struct cli_api *a, const char *method, const char *target, json_t *body, json_t **ret, struct err *err);
/* All pages of a list; `query` has a ? already. */
int api_list_all(struct cli_api *a, const char *query, json_t **ret_array, struct err *err);
/* <before><name, percent-encoded><after>: the target of a request, malloc'd; NULL: no memory. */
char *api_target(const char *before, const char *name, const char *after);

struct api_sandbox { /* what is needed to speak to one */
        char id[SANDBOX_ID_MAX];
        char token[256];         /* "" when it is open */
        char traffic_token[256]; /* as far as known: `create` tells it, `get` does not */
        bool is_paused;
        bool is_private; /* its ports need the traffic token */
        int64_t end_ns;  /* when its time is up, as far as known */
};

struct api_create {
        const char *template;
        json_t *env, *metadata; /* borrowed: {name: text}; NULL: none */
        uint32_t timeout_s;     /* 0: the server's usual */
};
/* While the template is built for its first use, the request is repeated, and the person is told. */
int api_create(struct cli_api *a, const struct api_create *rq, struct api_sandbox *ret, struct err *err);
int api_get(struct cli_api *a, const char *id, struct api_sandbox *ret, struct err *err);
/* What speaks for it: sg_sandbox_free(). */
int api_box(struct cli_api *a, const struct api_sandbox *sandbox, struct sg_sandbox **ret, struct err *err);
/* Something in a sandbox could not be brought to its end (`what`: "the command").  Where the sandbox does not run any more, that
 * says more than how the connection broke: err is told so.  True: the sandbox is paused. */
bool api_explain_loss(struct cli_api *a, const struct api_sandbox *was, const char *what, struct err *err);
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
