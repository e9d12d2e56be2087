#include "control/role.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "control/control.h"
#include "http/server.h"
#include "model/conf.h"
#include "model/credential/json_blank.h"

#define STOP_MS_MAX 20000 /* for requests that are being answered; then they are cut */

struct control_role {
        struct control control;
        struct loop *loop; /* owned */
        struct timer stop_timer;
        bool is_stopping;
};

static void control_stop_now(struct timer *t)
{
        struct control_role *role = CONTAINER_OF(t, struct control_role, stop_timer);

        log_warn("control.stop", "requests still running, ending without them");
        loop_stop(role->loop);
}

static void control_idle(void *arg)
{
        loop_stop(((struct control_role *)arg)->loop);
}

static void control_signal(int signo, void *arg)
{
        struct control_role *role = arg;

        if (signo == SIGHUP) {
                templates_refresh(&role->control.templates);
                return;
        }
        if (role->is_stopping)
                return;
        role->is_stopping = true;
        log_info("control.stop", "connections=%zu", http_server_conn_count(role->control.api.http));
        role->stop_timer.on = control_stop_now;
        timer_set(role->loop, &role->stop_timer, STOP_MS_MAX);
        http_server_stop(role->control.api.http, control_idle, role);
}

static int control_start(struct control_role *role, const struct conf *conf, struct err *err)
{
        static const int signals[] = {SIGTERM, SIGINT, SIGHUP, 0};
        int r;

        r = loop_create(&role->loop);
        if (r == 0)
                r = loop_signals(role->loop, signals, control_signal, role);
        if (r < 0)
                return err_sys(err, r, "event loop");
        r = control_init(&role->control, conf, role->loop, clock_real_ns, clock_boot_ns, err);
        return r < 0 ? r : control_listen(&role->control, err);
}

int control_main(const struct conf *conf)
{
        static struct control_role role;
        struct err err = {0};
        int r;

        (void)signal(SIGPIPE, SIG_IGN);
        (void)mallopt(M_ARENA_MAX, 1);
        json_blank_freed(); /* credentials pass through here */
        r = control_start(&role, conf, &err);
        if (r == 0) {
                log_info("control.ready", "domain=%s", conf->domain);
                r = loop_run(role.loop);
                if (r < 0)
                        err_sys(&err, r, "event loop");
        }
        if (r < 0)
                log_error("control.failed", "reason=\"%s\"", err.msg);
        control_done(&role.control);
        role.loop = loop_free(role.loop);
        return r < 0 ? 1 : 0;
}
