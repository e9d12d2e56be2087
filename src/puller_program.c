/* puller_program.c - the role that fetches images, as a program of its own: what libcurl and libarchive load with them would slow
 * down the start of every other role and command.  `serve` starts it like a role, with a configuration on fd 3. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/err.h"
#include "base/log.h"
#include "puller/role.h"
#include "serve/supervisor/role.h"

static enum log_level level_of(const char *name)
{
        static const char *const names[] = {"error", "warn", "info", "debug"};

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (strcmp(names[i], name) == 0)
                        return (enum log_level)i;
        return LOG_INFO;
}

int main(int argc, char **argv)
{
        struct err err = {0};
        struct conf c;
        int r;

        if (argc != 3 || strcmp(argv[1], "role") != 0 || strcmp(argv[2], "puller") != 0) {
                (void)fputs("sandglass-puller: for `sandglass serve` only\n", stderr);
                return 2;
        }
        log_setup("puller", LOG_INFO);
        (void)prctl(PR_SET_NAME, "sg-puller", 0, 0, 0);
        if (role_conf(&c, &err) < 0) {
                log_error("role.conf", "error=\"%s\"", err.msg);
                return 1;
        }
        log_setup("puller", level_of(c.log_level));
        r = puller_main(&c);
        conf_done(&c);
        return r;
}
