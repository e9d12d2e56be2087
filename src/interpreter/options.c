#include "interpreter/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "interpreter/service/envs_fetch.h"

#define OUTPUT_USUAL (256u << 20)
#define OUTPUT_LEAST (64u << 10)
#define OUTPUT_MOST (1u << 30)

const char options_usage[] =
        "usage: sandglass-interpreter [OPTION...]\n"
        "Runs code in Jupyter kernels for clients of port 49999, inside a sandbox.\n"
        "--listen ADDR:PORT     where to serve (0.0.0.0:49999); port 0: the kernel chooses, and the port is printed\n"
        "--envd URL             where the variables of the sandbox come from (http://localhost:49983)\n"
        "--kernel-path DIR      look for kernels in DIR first; may be given several times\n"
        "--home DIR             where contexts begin (/home/user)\n"
        "--identity FILE        a file whose text differs in every sandbox (/run/e2b/.E2B_SANDBOX_ID)\n"
        "--detach               go on in the background once the port is open\n"
        "--start-timeout S      how many seconds a kernel may take to start (60)\n"
        "--output-max BYTES     of one message of a kernel; a larger one is dropped (268435456)\n"
        "--version, --help\n"
        "Kernels are also found in $JUPYTER_PATH/kernels, /root/.local/share/jupyter/kernels,\n"
        "/usr/local/share/jupyter/kernels, /usr/share/jupyter/kernels, and .local/share/jupyter/kernels below the "
        "home.\n";

static int add_dir(struct options *o, struct str dir, const char *suffix, struct err *err)
{
        size_t n = 0;

        while (o->kernel_dirs[n])
                n++;
        if (n == KERNEL_DIRS_MAX)
                return err_set(err, ERR_INVALID, "more than %d directories of kernels", KERNEL_DIRS_MAX);
        if (asprintf(&o->kernel_dirs[n], "%.*s%s", STR_ARG(dir), suffix) >= 0)
                return 0;
        o->kernel_dirs[n] = NULL;
        return err_sys(err, -ENOMEM, "options");
}

static int add_usual_dirs(struct options *o, struct err *err)
{
        struct str path = str_of(getenv("JUPYTER_PATH")), dir;
        int r = 0;

        while (r == 0 && path.n) {
                (void)str_cut(&path, ':', &dir);
                if (dir.n)
                        r = add_dir(o, dir, "/kernels", err);
        }
        if (r == 0)
                r = add_dir(o, STR("/root/.local/share/jupyter/kernels"), "", err);
        if (r == 0)
                r = add_dir(o, STR("/usr/local/share/jupyter/kernels"), "", err);
        if (r == 0)
                r = add_dir(o, STR("/usr/share/jupyter/kernels"), "", err);
        return r < 0 ? r : add_dir(o, str_of(o->home), "/.local/share/jupyter/kernels", err);
}

static int set_value(struct options *o, const char *name, const char *value, struct err *err)
{
        uint32_t n;

        if (strcmp(name, "--listen") == 0)
                o->listen = value;
        else if (strcmp(name, "--envd") == 0)
                return envs_parse_url(value, &o->envd, err);
        else if (strcmp(name, "--kernel-path") == 0)
                return add_dir(o, str_of(value), "", err);
        else if (strcmp(name, "--home") == 0)
                o->home = value;
        else if (strcmp(name, "--identity") == 0)
                o->identity_file = value;
        else if (strcmp(name, "--output-max") == 0) {
                if (parse_u32(str_of(value), OUTPUT_LEAST, OUTPUT_MOST, &o->output_max) < 0)
                        return err_set(err, ERR_INVALID, "%s: '%s' is not a number from %u to %u", name, value,
                                       OUTPUT_LEAST, OUTPUT_MOST);
        } else if (parse_u32(str_of(value), 1, 3600, &n) < 0)
                return err_set(err, ERR_INVALID, "%s: '%s' is not a number from 1 to 3600", name, value);
        else
                o->start_ms_max = n * 1000;
        return 0;
}

static bool takes_value(const char *name)
{
        static const char *const names[] = {"--listen",   "--envd",          "--kernel-path", "--home",
                                            "--identity", "--start-timeout", "--output-max"};

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        return false;
}

int options_parse(int argc, char **argv, struct options *ret, struct err *err)
{
        int r = 0;

        *ret = (struct options){.listen = "0.0.0.0:49999",
                                .home = "/home/user",
                                .identity_file = "/run/e2b/.E2B_SANDBOX_ID",
                                .start_ms_max = 60000,
                                .output_max = OUTPUT_USUAL};
        r = envs_parse_url("http://localhost:49983", &ret->envd, err);
        for (int i = 1; r == 0 && i < argc; i++) {
                if (strcmp(argv[i], "--version") == 0)
                        ret->wants_version = true;
                else if (strcmp(argv[i], "--help") == 0)
                        ret->wants_help = true;
                else if (strcmp(argv[i], "--detach") == 0)
                        ret->is_detached = true;
                else if (!takes_value(argv[i]))
                        r = err_set(err, ERR_INVALID, "unknown option '%s'", argv[i]);
                else if (i + 1 == argc)
                        r = err_set(err, ERR_INVALID, "%s needs a value", argv[i]);
                else {
                        r = set_value(ret, argv[i], argv[i + 1], err);
                        i++;
                }
        }
        if (r == 0)
                r = add_usual_dirs(ret, err);
        if (r < 0)
                options_done(ret);
        return r;
}

void options_done(struct options *o)
{
        for (char **at = o->kernel_dirs; *at; at++) {
                free(*at);
                *at = NULL;
        }
}
