#include "envd/router.h"

#include "envd/build/build_calls.h"
#include "envd/endpoints.h"
#include "envd/envd.h"
#include "envd/files/files.h"
#include "envd/files/filesystem_rpc.h"
#include "envd/process/process_rpc.h"
#include "envd/rpc/answer.h"
#include "envd/rpc/auth.h"
#include "envd/rpc/rpc.h"
#include "envd/watch/watch_rpc.h"

static const struct rpc_method process_methods[] = {
        {"/process.Process/Start", RPC_SERVER_STREAM, process_rpc_start},
        {"/process.Process/Connect", RPC_SERVER_STREAM, process_rpc_connect},
        {"/process.Process/List", RPC_UNARY, process_rpc_list},
        {"/process.Process/SendInput", RPC_UNARY, process_rpc_send_input},
        {"/process.Process/StreamInput", RPC_CLIENT_STREAM, process_rpc_stream_input},
        {"/process.Process/SendSignal", RPC_UNARY, process_rpc_send_signal},
        {"/process.Process/CloseStdin", RPC_UNARY, process_rpc_close_stdin},
        {"/process.Process/Update", RPC_UNARY, process_rpc_update},
};

static const struct rpc_method filesystem_methods[] = {
        {"/filesystem.Filesystem/Stat", RPC_UNARY, filesystem_rpc_stat},
        {"/filesystem.Filesystem/ListDir", RPC_UNARY, filesystem_rpc_list_dir},
        {"/filesystem.Filesystem/MakeDir", RPC_UNARY, filesystem_rpc_make_dir},
        {"/filesystem.Filesystem/Move", RPC_UNARY, filesystem_rpc_move},
        {"/filesystem.Filesystem/Remove", RPC_UNARY, filesystem_rpc_remove},
};

static const struct rpc_method watch_methods[] = {
        {"/filesystem.Filesystem/WatchDir", RPC_SERVER_STREAM, watch_rpc_watch_dir},
        {"/filesystem.Filesystem/CreateWatcher", RPC_UNARY, watch_rpc_create},
        {"/filesystem.Filesystem/GetWatcherEvents", RPC_UNARY, watch_rpc_events},
        {"/filesystem.Filesystem/RemoveWatcher", RPC_UNARY, watch_rpc_remove},
};

struct endpoint_route {
        const char *path, *method;
        bool is_open; /* needs no token: the handler checks the access itself */
        void (*run)(struct envd *e, struct http_request *rq);
};

static void endpoint_download(struct envd *e, struct http_request *rq)
{
        files_download(&e->context, rq);
}

static void endpoint_upload(struct envd *e, struct http_request *rq)
{
        files_upload(&e->context, rq);
}

static void endpoint_compose(struct envd *e, struct http_request *rq)
{
        files_compose(&e->context, rq);
}

static void endpoint_prepare(struct envd *e, struct http_request *rq)
{
        build_call_prepare(&e->context, rq);
}

static void endpoint_copy(struct envd *e, struct http_request *rq)
{
        build_call_copy(&e->context, rq);
}

static void endpoint_unpack(struct envd *e, struct http_request *rq)
{
        build_call_unpack(&e->context, rq);
}

static void endpoint_archive(struct envd *e, struct http_request *rq)
{
        build_call_archive(&e->context, rq);
}

static const struct endpoint_route routes[] = {
        {"/health", "GET", true, endpoint_health},
        {"/init", "POST", true, endpoint_init},
        {"/envs", "GET", false, endpoint_envs},
        {"/metrics", "GET", false, endpoint_metrics},
        {"/files", "GET", true, endpoint_download},
        {"/files", "POST", true, endpoint_upload},
        {"/files/compose", "POST", false, endpoint_compose},
        {"/sandglass/prepare", "POST", false, endpoint_prepare},
        {"/sandglass/copy", "POST", false, endpoint_copy},
        {"/sandglass/unpack", "POST", false, endpoint_unpack},
        {"/sandglass/archive", "GET", false, endpoint_archive},
};

static const struct rpc_method *find_in(const struct rpc_method *methods, size_t count, struct str path)
{
        for (size_t i = 0; i < count; i++)
                if (str_is(path, methods[i].path))
                        return &methods[i];
        return NULL;
}

/* The method of that path, and what the methods of its service work on. */
static const struct rpc_method *find_method(struct envd *e, struct str path, void **ret_service)
{
        const struct rpc_method *method;

        *ret_service = &e->processes;
        method = find_in(process_methods, ARRAY_LEN(process_methods), path);
        if (method)
                return method;
        *ret_service = &e->watchers;
        method = find_in(watch_methods, ARRAY_LEN(watch_methods), path);
        if (method)
                return method;
        *ret_service = NULL;
        return find_in(filesystem_methods, ARRAY_LEN(filesystem_methods), path);
}

/* The route of path and method; *ret_known: the path is one of ours, maybe with another method. */
static const struct endpoint_route *find_route(const struct http_request *rq, bool *ret_known)
{
        *ret_known = false;
        for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
                if (!str_is(rq->url.path, routes[i].path))
                        continue;
                *ret_known = true;
                if (str_is(rq->head->method, routes[i].method))
                        return &routes[i];
        }
        return NULL;
}

/* The user that the request names, checked to exist.  false: the request has been refused. */
static bool check_named_user(struct http_request *rq, char **ret_name)
{
        AUTO_USER struct user u = {0};

        if (auth_basic_user(rq->head, ret_name) < 0) {
                answer_error(rq, 503, "out of memory");
                return false;
        }
        if (*ret_name && user_lookup(*ret_name, &u) < 0) {
                rpc_refuse(rq, CONNECT_UNAUTHENTICATED, "invalid username: '%s'", *ret_name);
                return false;
        }
        return true;
}

void router_on_request(struct http_request *rq, void *arg)
{
        struct envd *e = arg;
        AUTO_FREE char *user_name = NULL;
        const struct rpc_method *method;
        const struct endpoint_route *route;
        bool is_known;
        void *service;

        if (answer_preflight(rq))
                return;
        route = find_route(rq, &is_known);
        if (!(route && route->is_open) && !auth_token_is_valid(&e->context.settings, rq->head)) {
                answer_error(rq, 401,
                             "unauthorized access, please provide a valid access token or method signing if supported");
                return;
        }
        if (!check_named_user(rq, &user_name))
                return;
        if (route) {
                route->run(e, rq);
                return;
        }
        method = find_method(e, rq->url.path, &service);
        if (method)
                rpc_serve(&e->context, service, rq, method, TAKE_PTR(user_name));
        else if (is_known)
                answer_bad_method(rq, NULL);
        else
                answer_text(rq, 404, "404 page not found\n");
}
