#include "control/api/api.h"

#include "base/err.h"
#include "control/api/handlers.h"
#include "control/api/router.h"
#include "http/server.h"

#define HEAD_TIMEOUT_MS 30000
#define IDLE_TIMEOUT_MS 300000 /* edges keep their connections */
#define CONNS_MAX 4096

int api_init(struct api *api, struct err *err)
{
        const struct http_server_options o = {
                .loop = api->loop,
                .on_request = router_on_request,
                .arg = api,
                .head_timeout_ms = HEAD_TIMEOUT_MS,
                .idle_timeout_ms = IDLE_TIMEOUT_MS,
                .conns_max = CONNS_MAX,
        };
        int r;

        list_init(&api->lost_restores);
        r = http_server_create(&o, &api->http);
        return r < 0 ? err_sys(err, r, "HTTP server") : 0;
}

int api_listen(struct api *api, int fd, struct err *err)
{
        int r = http_server_listen(api->http, fd);

        return r < 0 ? err_sys(err, r, "listen for requests") : 0;
}

void api_done(struct api *api)
{
        api->http = http_server_free(api->http);
        handle_lost_done(&api->lost_restores);
}
