#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "serve/setup/base_template.h"
#include "serve/setup/datadir.h"
#include "serve/setup/layout.h"
#include "serve/options.h"
#include "serve/serve.h"
#include "sys/proc.h"

const char template_base_usage[] =
        "usage: sandglass template base [--data DIR | --images DIR] [--mirror URL] [--rebuild]\n"
        "Make the template `base` from Debian packages, unless it is there already.\n";

struct template_options {
        const char *data, *images, *mirror;
        bool rebuild, help;
};

/* 0, or the exit code after wrong use. */
static int template_options_parse(int argc, char **argv, struct template_options *o)
{
        static const struct option options[] = {
                {"data", required_argument, NULL, 'd'},   {"images", required_argument, NULL, 'i'},
                {"mirror", required_argument, NULL, 'm'}, {"rebuild", no_argument, NULL, 'r'},
                {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
        };
        int which;

        optind = 0;
        while ((which = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
                switch (which) {
                case 'd': o->data = optarg; break;
                case 'i': o->images = optarg; break;
                case 'm': o->mirror = optarg; break;
                case 'r': o->rebuild = true; break;
                case 'h': o->help = true; break;
                default: return usage_fault("template", template_base_usage, which, argv);
                }
        }
        if (o->help)
                return 0;
        if (optind < argc && strcmp(argv[optind], "base") == 0 && ++optind == argc)
                return 0;
        return usage_fault("template", template_base_usage, which, argv);
}

static int template_make(const struct template_options *o, struct err *err)
{
        AUTO_FREE char *images = NULL;
        int r = 0;

        if (geteuid() != 0)
                return err_set(err, ERR_DENIED, "needs root: try sudo");
        if (o->images)
                images = path_absolute(o->images);
        else if (asprintf(&images, "%s/images", o->data) < 0)
                images = NULL;
        if (!images)
                return err_set(err, ERR_LIMIT, "out of memory");
        if (!o->images)
                r = layout_check(o->data, err);
        if (r == 0)
                r = images_prepare(images, err);
        if (r < 0)
                return r;
        return (o->rebuild ? base_template_build : base_template_ensure)(images, o->mirror, err);
}

int template_base_main(int argc, char **argv)
{
        struct template_options o = {.data = SERVE_DEFAULT_DATA};
        struct err err = {0};
        sigset_t set = sys_signals_to_end();
        int code = template_options_parse(argc, argv, &o);

        if (code != 0)
                return code;
        if (o.help) {
                (void)fputs(template_base_usage, stdout);
                return 0;
        }
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        if (template_make(&o, &err) == 0)
                return 0;
        (void)fprintf(stderr, "sandglass template: %s\n", err.msg);
        return 1;
}
