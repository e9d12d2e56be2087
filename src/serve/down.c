#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/destroy.h"
#include "model/conf.h"
#include "serve/setup/datadir.h"
#include "serve/setup/layout.h"
#include "serve/supervisor/leftover.h"
#include "serve/options.h"
#include "serve/serve.h"
#include "sys/proc.h"

#define STOP_MS 60000 /* five kinds of roles, ten seconds each at most, and a margin */

const char down_usage[] = "usage: sandglass down [--data DIR]\n"
                          "End the server of a data directory and all running sandboxes.  Paused sandboxes, snapshots "
                          "and templates stay.\n";

static int end_server(const struct conf *c, struct err *err)
{
        AUTO_CLOSE int pidfd = -1;
        pid_t pid = datadir_holder(c);
        int r;

        if (pid == 0)
                return 0;
        if (pid < 0)
                return err_sys(err, pid, "read '%s/lock'", c->data_dir);
        pidfd = sys_pidfd_open(pid);
        if (pidfd < 0)
                return pidfd == -ESRCH ? 0 : err_sys(err, pidfd, "find the server with pid %d", (int)pid);
        if (datadir_holder(c) != pid) /* it ended meanwhile, and the number may be somebody else's */
                return 0;
        r = process_end(pidfd, STOP_MS);
        return r < 0 ? err_sys(err, r, "end the server with pid %d", (int)pid) : 0;
}

static int down_data_dir(const char *data, struct err *err)
{
        AUTO_FREE char *dir = path_absolute(data);
        AUTO(conf_done) struct conf c = {0};
        AUTO_CLOSE int lock = -1;
        int r;

        if (!dir)
                return err_set(err, ERR_LIMIT, "out of memory");
        if (geteuid() != 0)
                return err_set(err, ERR_DENIED, "needs root: try sudo");
        if (access(dir, F_OK) < 0)
                return err_sys(err, -errno, "data directory '%s'", dir);
        r = conf_defaults(&c, dir, err);
        if (r == 0)
                r = layout_check(c.data_dir, err);
        if (r == 0)
                r = end_server(&c, err);
        if (r == 0)
                r = datadir_lock(&c, &lock, err);
        if (r == 0)
                r = leftover_end(&c, err);
        return r < 0 ? r : engine_destroy_all(c.data_dir, err);
}

int down_main(int argc, char **argv)
{
        static const struct option options[] = {
                {"data", required_argument, NULL, 'd'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
        const char *data = SERVE_DEFAULT_DATA;
        struct err err = {0};
        int which;

        optind = 0;
        while ((which = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
                switch (which) {
                case 'd': data = optarg; break;
                case 'h': (void)fputs(down_usage, stdout); return 0;
                default: return usage_fault("down", down_usage, which, argv);
                }
        }
        if (optind < argc)
                return usage_fault("down", down_usage, which, argv);
        log_setup("down", LOG_INFO);
        if (down_data_dir(data, &err) == 0)
                return 0;
        (void)fprintf(stderr, "sandglass down: %s\n", err.msg);
        return 1;
}
