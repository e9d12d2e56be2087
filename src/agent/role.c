#include "agent/role.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>

#include "agent/exchange/agent.h"
#include "agent/exchange/ask.h"
#include "agent/exchange/budget.h"
#include "agent/router.h"
#include "agent/exchange/sandbox_kill.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "http/client.h"
#include "http/server.h"
#include "model/request/agent_error.h"
#include "model/conf.h"
#include "model/credential/json_blank.h"

#define IDLE_MS 60000u
#define HEAD_TIMEOUT_MS 60000u
#define CONN_IDLE_MS 300000u /* edges keep their connections, for less long than this */
#define STALL_MS 300000u     /* for a client that takes no byte of its answer */
#define STOP_MS 5000u        /* for requests that are being answered; then they are cut */
#define SOON_MS 120000u      /* without a byte from the edge: it waits for a resume for 90 s at most */
#define PATIENT_MS                                                                                                     \
        3700000u /* a pause, a snapshot or a create may wait for others of its kind for an hour (ANSWER_MS_MAX) */

/* A connection that waits in the backlog starts the role again, so the moment of the end loses nothing. */
static void agent_is_idle(struct timer *t)
{
        struct agent *a = CONTAINER_OF(t, struct agent, idle);

        if (http_server_conn_count(a->http) > 0 || !list_is_empty(&a->kills) || !list_is_empty(&a->orphans)) {
                timer_set(a->loop, t, IDLE_MS);
                return;
        }
        log_info("agent.idle", "ms=%u", IDLE_MS);
        loop_stop(a->loop);
}

static void agent_stop_now(struct timer *t)
{
        struct agent *a = CONTAINER_OF(t, struct agent, stop);

        log_info("agent.cut", "connections=%zu", http_server_conn_count(a->http));
        loop_stop(a->loop);
}

static void agent_stopped(void *arg)
{
        loop_stop(((struct agent *)arg)->loop);
}

static void agent_signal(int signo, void *arg)
{
        struct agent *a = arg;

        (void)signo;
        if (a->is_stopping)
                return;
        a->is_stopping = true;
        timer_set(a->loop, &a->stop, STOP_MS);
        http_server_stop(a->http, agent_stopped, a);
}

static int agent_connect(struct agent *a, struct err *err)
{
        AUTO_FREE char *path = conf_path(a->conf, "run/clients.sock");
        struct http_client_options o = {.loop = a->loop, .url = "http://localhost", .unix_path = path};
        int r;

        if (!path)
                return err_set(err, ERR_LIMIT, "out of memory");
        o.timeouts.idle_ms = SOON_MS;
        r = http_client_create(&o, &a->edge, err);
        o.timeouts.idle_ms = PATIENT_MS;
        if (r == 0)
                r = http_client_create(&o, &a->edge_patient, err);
        a->credentials_path = conf_path(a->conf, "run/credentials.sock");
        if (r < 0 || !a->credentials_path)
                return r < 0 ? r : err_set(err, ERR_LIMIT, "out of memory");
        o.timeouts.idle_ms = SOON_MS;
        o.unix_path = a->credentials_path;
        return http_client_create(&o, &a->credentials, err);
}

static int agent_listen(struct agent *a, struct err *err)
{
        const struct http_server_options o = {
                .loop = a->loop,
                .on_request = agent_on_request,
                .arg = a,
                .head_timeout_ms = HEAD_TIMEOUT_MS,
                .idle_timeout_ms = CONN_IDLE_MS,
                .conns_max = BUDGET_EXCHANGES,
                .stall_timeout_ms = STALL_MS,
                .show_error = agent_error_of_status,
        };
        int r = http_server_create(&o, &a->http);

        if (r == 0)
                r = http_server_listen(a->http, a->conf->fds.agent);
        return r < 0 ? err_sys(err, r, "listen for edges") : 0;
}

static int agent_start(struct agent *a, struct err *err)
{
        static const int signals[] = {SIGTERM, SIGINT, 0};
        int r;

        r = loop_create(&a->loop);
        if (r == 0)
                r = loop_signals(a->loop, signals, agent_signal, a);
        if (r < 0)
                return err_sys(err, r, "event loop");
        r = agent_connect(a, err);
        if (r == 0)
                r = agent_listen(a, err);
        if (r < 0)
                return r;
        a->idle.on = agent_is_idle;
        a->stop.on = agent_stop_now;
        timer_set(a->loop, &a->idle, IDLE_MS);
        return 0;
}

int agent_main(const struct conf *conf)
{
        struct agent a = {.conf = conf};
        struct err err = {0};
        int r;

        list_init(&a.exchanges);
        list_init(&a.kills);
        list_init(&a.orphans);
        (void)signal(SIGPIPE, SIG_IGN);
        (void)mallopt(M_ARENA_MAX, 1);
        json_blank_freed(); /* credentials pass through here */
        r = agent_start(&a, &err);
        if (r == 0) {
                log_info("agent.ready", "idle_ms=%u", IDLE_MS);
                r = loop_run(a.loop);
                if (r < 0)
                        (void)err_sys(&err, r, "event loop");
        }
        if (r < 0)
                log_error("agent.failed", "reason=\"%s\"", err.msg);
        timer_clear(&a.idle);
        timer_clear(&a.stop);
        a.http = http_server_free(a.http); /* first: its requests have calls */
        ask_orphans_done(&a);
        sandbox_kills_done(&a);
        a.edge = http_client_free(a.edge);
        a.edge_patient = http_client_free(a.edge_patient);
        a.credentials = http_client_free(a.credentials);
        free(a.credentials_path);
        a.loop = loop_free(a.loop);
        return r < 0 ? 1 : 0;
}
