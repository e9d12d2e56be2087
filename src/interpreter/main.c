/* main.c - sandglass-interpreter: the code interpreter of a sandbox. */
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "interpreter/caller_environ.h"
#include "interpreter/guardian.h"
#include "interpreter/kernel/kernel_socket.h"
#include "interpreter/options.h"
#include "version.h"

int main(int argc, char **argv)
{
        struct options options;
        struct err err = {0};
        int r;

        caller_environ_take(); /* the options depend on it */
        if (argc < 1 || options_parse(argc, argv, &options, &err) < 0) {
                (void)!dprintf(STDERR_FILENO, "sandglass-interpreter: %s\n%s", err.msg, options_usage);
                return 2;
        }
        if (options.wants_help) {
                (void)!dprintf(STDOUT_FILENO, "%s", options_usage);
                return 0;
        }
        if (options.wants_version) {
                (void)!dprintf(STDOUT_FILENO, "sandglass-interpreter %s (libzmq %s)\n", SANDGLASS_VERSION,
                               zmq_version_text());
                return 0;
        }
        log_setup("interpreter", LOG_INFO);
        r = guardian_run(&options, argc, argv);
        options_done(&options);
        return r;
}
