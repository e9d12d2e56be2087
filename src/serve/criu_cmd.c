#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "serve/setup/criu_tool.h"
#include "serve/setup/layout.h"
#include "serve/options.h"
#include "serve/serve.h"
#include "sys/proc.h"

const char criu_usage[] = "usage: sandglass criu [--data DIR | --criu DIR] [--mirror URL]\n"
                          "Fetch CRIU, unless a CRIU that works is there already.  A pause with memory needs CRIU.  "
                          "`serve` does the same.\n";

struct criu_options {
        const char *data, *criu, *mirror;
        bool help;
};

/* 0, or the exit code after wrong use. */
static int criu_options_parse(int argc, char **argv, struct criu_options *o)
{
        static const struct option options[] = {
                {"data", required_argument, NULL, 'd'},
                {"criu", required_argument, NULL, 'c'},
                {"mirror", required_argument, NULL, 'm'},
                {"help", no_argument, NULL, 'h'},
                {NULL, 0, NULL, 0},
        };
        int which;

        optind = 0;
        while ((which = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
                switch (which) {
                case 'd': o->data = optarg; break;
                case 'c': o->criu = optarg; break;
                case 'm': o->mirror = optarg; break;
                case 'h': o->help = true; break;
                default: return usage_fault("criu", criu_usage, which, argv);
                }
        }
        return o->help || optind == argc ? 0 : usage_fault("criu", criu_usage, which, argv);
}

static int criu_get(const struct criu_options *o, struct err *err)
{
        AUTO_FREE char *base = path_absolute(o->criu ? o->criu : o->data), *dir = NULL;

        if (geteuid() != 0)
                return err_set(err, ERR_DENIED, "needs root: try sudo");
        if (!base || asprintf(&dir, "%s%s", base, o->criu ? "" : "/criu") < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        if (!o->criu && layout_check(base, err) < 0)
                return -EEXIST;
        return criu_tool_get(dir, o->mirror, err);
}

int criu_main(int argc, char **argv)
{
        struct criu_options o = {.data = SERVE_DEFAULT_DATA};
        struct err err = {0};
        sigset_t set = sys_signals_to_end();
        int code = criu_options_parse(argc, argv, &o);

        if (code != 0)
                return code;
        if (o.help) {
                (void)fputs(criu_usage, stdout);
                return 0;
        }
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        if (criu_get(&o, &err) == 0) {
                (void)puts("CRIU works here");
                return 0;
        }
        (void)fprintf(stderr, "sandglass criu: %s\n", err.msg);
        return 1;
}
