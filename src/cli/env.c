/* env.c - the command env: the settings for clients, with the key of the user who asks. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/conf.h"
#include "cli/options.h"
#include "sys/fs.h"

const char env_usage[] =
        "usage: sandglass env [--save] [--data DIR]\n"
        "Print the settings for clients, with your own key, as shell exports: eval \"$(sandglass env)\"\n"
        "Works for root, and for members of the server's group.\n"
        "  --save   write them to the file sandglass/env in ~/.config (or $XDG_CONFIG_HOME), which only you can read,\n"
        "           and print its name\n";

/* Each directory on the way below `base`, ours alone where it is new: the last one, opened. */
static int open_config_dir(const char *base, int *ret_fd, struct err *err)
{
        AUTO_FREE char *path = NULL;
        AUTO_CLOSE int fd = -1;

        if (asprintf(&path, "%s/sandglass", base) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        if ((mkdir(base, 0700) < 0 && errno != EEXIST) || (mkdir(path, 0700) < 0 && errno != EEXIST))
                return err_sys(err, -errno, "make directory '%s'", path);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return err_sys(err, -errno, "open directory '%s'", path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int save_exports(const struct buf *text, struct err *err)
{
        AUTO_FREE char *base = cli_config_dir();
        AUTO_CLOSE int dir = -1;
        int r;

        if (geteuid() == 0)
                return err_set(err, ERR_INVALID, "--save: root's settings are in the file env of the data directory");
        if (!base)
                return err_set(err, ERR_INVALID, "--save: neither XDG_CONFIG_HOME nor HOME is an absolute path");
        r = open_config_dir(base, &dir, err);
        if (r < 0)
                return r;
        r = sys_replace_at(dir, "env", buf_at(text), text->len, 0600);
        if (r < 0)
                return err_sys(err, r, "write '%s/sandglass/env'", base);
        (void)printf("%s/sandglass/env\n", base);
        return 0;
}

int env_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        AUTO(envfile_done) struct envfile env = {0};
        AUTO_BUF struct buf text = BUF_INIT(ENVFILE_MAX);
        struct err err = {0};
        int r;

        if (cli_options_parse(argc, argv, CLI_DATA | CLI_SAVE, &o, &err) < 0 || o.help || o.arg_count)
                return cli_usage(&o, env_usage, &err);
        /* Not what the shell has already: that may be what is to be replaced. */
        if (cli_conf(o.data ? o.data : CLI_DEFAULT_DATA, &env, &err) < 0)
                return cli_fail("env", &err);
        if (envfile_format(&env, &text) < 0 || !buf_cstr(&text))
                return cli_fail("env", &(struct err){.msg = "out of memory"});
        if (!o.save) {
                (void)fputs(buf_cstr(&text), stdout);
                return 0;
        }
        r = save_exports(&text, &err);
        return r < 0 ? cli_fail("env", &err) : 0;
}
