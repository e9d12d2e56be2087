/* main.c - the in-sandbox daemon: PID 1 of a cell, or (--standalone) an ordinary process for tests. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "envd/envd.h"
#include "envd/process/spawn.h"
#include "envd/router.h"
#include "envd/sandbox/cell_start.h"
#include "envd/sandbox/environ_file.h"
#include "http/server.h"
#include "io/listener.h"
#include "io/loop.h"
#include "model/ids.h"
#include "version.h"

#define CONNS_MAX 4096
#define HEAD_TIMEOUT_MS 120000 /* also between pieces of a body: longer than clients' keepalives */
#define IDLE_TIMEOUT_MS 640000

static const char usage[] =
        "usage: sandglass-envd --cell\n"
        "       sandglass-envd --standalone --listen ADDR:PORT [--root-user-map]\n"
        "       sandglass-envd --version\n"
        "--cell             wait as a cell, then become a sandbox; the engine starts it, with its socket on fd 3\n"
        "--standalone       serve as an ordinary process; prints the address it listens on\n"
        "--root-user-map    every user of /etc/passwd is the user who started this: no setuid, no chown\n";

struct envd_options {
        bool is_cell, is_standalone, keep_user;
        const char *listen;
};

static int options_parse(int argc, char **argv, struct envd_options *ret)
{
        for (int i = 1; i < argc; i++) {
                if (strcmp(argv[i], "--cell") == 0)
                        ret->is_cell = true;
                else if (strcmp(argv[i], "--standalone") == 0)
                        ret->is_standalone = true;
                else if (strcmp(argv[i], "--root-user-map") == 0)
                        ret->keep_user = true;
                else if (strcmp(argv[i], "--listen") == 0 && i + 1 < argc)
                        ret->listen = argv[++i];
                else
                        return -EINVAL;
        }
        return ret->is_cell == ret->is_standalone || ret->is_cell == !!ret->listen ? -EINVAL : 0;
}

static void envd_on_signal(int sig, void *arg)
{
        struct envd *e = arg;

        if (sig == SIGCHLD)
                process_reap(&e->processes);
        else
                loop_stop(e->context.loop);
}

static int envd_setup(struct envd *e, bool is_cell, struct err *err)
{
        static const int as_init[] = {SIGCHLD, 0}, as_process[] = {SIGCHLD, SIGTERM, SIGINT, 0};
        struct http_server_options opt = {.on_request = router_on_request,
                                          .arg = e,
                                          .head_timeout_ms = HEAD_TIMEOUT_MS,
                                          .idle_timeout_ms = IDLE_TIMEOUT_MS,
                                          .conns_max = CONNS_MAX};
        int r;

        (void)umask(022);
        spawn_raise_nofile();
        (void)signal(SIGPIPE, SIG_IGN);
        (void)mallopt(M_MMAP_THRESHOLD, 256 << 10); /* fixed, so that the memory of one big request is given back */
        (void)mallopt(M_TRIM_THRESHOLD, 128 << 10);
        r = loop_create(&e->context.loop);
        if (r < 0)
                return err_sys(err, r, "make the event loop");
        opt.loop = e->context.loop;
        r = settings_init(&e->context.settings);
        if (r < 0)
                return err_sys(err, r, "settings");
        process_table_init(&e->processes, e->context.loop);
        restarts_init(&e->restarts, &e->processes, &e->context.settings);
        watchers_init(&e->watchers);
        r = loop_signals(e->context.loop, is_cell ? as_init : as_process, envd_on_signal, e);
        if (r < 0)
                return err_sys(err, r, "take signals");
        r = http_server_create(&opt, &e->server);
        return r < 0 ? err_sys(err, r, "make the server") : 0;
}

static int envd_listen(struct envd *e, struct str addr, uint16_t *ret_port, struct err *err)
{
        int fd = -1, r = listen_tcp(addr, false, &fd, err);

        if (r < 0)
                return r;
        r = socket_port(fd, ret_port);
        if (r < 0) {
                (void)close(fd);
                return err_sys(err, r, "listening socket");
        }
        socket_is_local(fd); /* the edge's connections come through the sandbox's loopback */
        r = http_server_listen(e->server, fd);
        return r < 0 ? err_sys(err, r, "listen") : 0;
}

static void envd_done(struct envd *e)
{
        e->server = http_server_free(e->server);
        restarts_done(&e->restarts);
        process_table_done(&e->processes);
        watchers_done(&e->watchers);
        settings_done(&e->context.settings);
        e->context.loop = loop_free(e->context.loop);
}

static int run_cell(struct envd *e, struct err *err)
{
        uint16_t port;
        int r;

        e->is_cell = true;
        r = cell_start_open_stdio();
        if (r < 0)
                (void)err_sys(err, r, "open /dev/null");
        if (r == 0)
                r = envd_setup(e, true, err);
        if (r == 0)
                r = envd_listen(e, STR(":49983"), &port, err);
        if (r == 0)
                r = cell_start_enter_sandbox(&e->context.settings, err);
        if (r < 0)
                cell_start_tell_failed(err);
        if (r <= 0)
                return r;
        e->processes.restarts = &e->restarts;
        replay_pool_limit(&e->processes.pool, (uint64_t)e->context.settings.memory_mb << 20);
        cell_start_tell_ready();
        /* After the answer: the first request waits for these files, the engine does not. */
        identity_files_create(&e->identity_files, &e->context.settings);
        environ_file_remove();
        restarts_forget_files(&e->restarts);
        return loop_run(e->context.loop);
}

static int run_standalone(struct envd *e, const struct envd_options *opt, struct err *err)
{
        uint16_t port;
        int r;

        e->context.keep_user = opt->keep_user;
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans come to us, as they do to PID 1 */
        if (envd_setup(e, false, err) < 0 || envd_listen(e, str_of(opt->listen), &port, err) < 0)
                return -1;
        (void)!dprintf(STDOUT_FILENO, "listening on port %u\n", port);
        r = loop_run(e->context.loop);
        envd_done(e);
        return r;
}

int main(int argc, char **argv)
{
        static struct envd e;
        struct envd_options opt = {0};
        struct err err = {0};
        int r;

        if (argc == 2 && strcmp(argv[1], "--version") == 0) {
                (void)!dprintf(STDOUT_FILENO, "sandglass-envd %s (envd %s)\n", SANDGLASS_VERSION, ENVD_VERSION);
                return 0;
        }
        if (options_parse(argc, argv, &opt) < 0) {
                (void)!dprintf(STDERR_FILENO, "%s", usage);
                return 2;
        }
        log_setup("envd", LOG_INFO);
        r = opt.is_cell ? run_cell(&e, &err) : run_standalone(&e, &opt, &err);
        if (r < 0)
                log_error("envd.failed", "why=\"%s\"", err.msg[0] ? err.msg : errno_text(-r));
        return r < 0 ? 1 : 0;
}
