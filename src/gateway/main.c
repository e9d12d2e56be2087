/* main.c - mcp-gateway: a program inside sandboxes, started by the client's library after a create with `mcp`. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "gateway/catalogue.h"
#include "gateway/gateway.h"
#include "gateway/options.h"
#include "http/server.h"
#include "io/listener.h"
#include "mcp/protocol/endpoint.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/serve.h"
#include "version.h"

/* What the daemon tells the program that started it, and that prints it: the first byte says how it went. */
#define SAYS_READY '+'
#define SAYS_FAILED '-'

struct daemon {
        struct mcp mcp;
        int report; /* -1: told already */
};

/* ---- in the background ---- */

static void report(struct daemon *d, char how, const char *text)
{
        if (d->report < 0)
                return;
        (void)!write(d->report, &how, 1);
        (void)!write(d->report, text, strlen(text));
        close_fd(&d->report);
}

static void on_settled(void *arg)
{
        struct daemon *d = arg;
        AUTO_BUF struct buf text = BUF_INIT(1u << 20);

        gateway_describe(&d->mcp, &text);
        report(d, SAYS_READY, text.len ? buf_cstr(&text) : "no servers\n");
}

static int serve(struct daemon *d, const struct gateway_command *cmd, const json_t *config, int listen_fd,
                 struct err *err)
{
        struct gateway_options opt = {.config = config,
                                      .install_dir = cmd->install_dir,
                                      .github_url = cmd->github_url,
                                      .on_settled = on_settled,
                                      .arg = d};
        int r = mcp_serve_start(&d->mcp, listen_fd, err);

        if (r == 0)
                r = gateway_start(&d->mcp, &opt, err);
        if (r == 0 && gateway_is_settled(&d->mcp))
                on_settled(d);
        return r < 0 ? r : mcp_serve_run(&d->mcp, err);
}

/* The pipes of whoever started the program must be free, or a client would wait for their end. */
static int leave_terminal(const char *log_file)
{
        int log = open(log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600),
            null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        if (log < 0 || null < 0 || setsid() < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
                return -errno;
        (void)close(null);
        (void)close(log);
        return chdir("/") < 0 ? -errno : 0;
}

static int run_daemon(const struct gateway_command *cmd, const json_t *config, int listen_fd, int report_fd)
{
        struct daemon d = {.report = report_fd};
        struct err err = {0};
        int r = leave_terminal(cmd->log_file);

        if (r < 0)
                (void)err_sys(&err, r, "write %s", cmd->log_file);
        log_setup("gateway", LOG_INFO);
        d.mcp.backend = &gateway_backend;
        d.mcp.opt = (struct mcp_options){.workspace = "/", .token_file = cmd->token_file};
        if (r == 0)
                r = serve(&d, cmd, config, listen_fd, &err);
        if (r < 0) {
                log_error("gateway.failed", "why=\"%s\"", err.msg);
                report(&d, SAYS_FAILED, err.msg);
        }
        mcp_serve_end(&d.mcp);
        gateway_stop(&d.mcp);
        return r < 0 ? 1 : 0;
}

/* ---- in the foreground ---- */

/* The servers get the environment of this program, and have no business with the token. */
static int keep_token(const struct gateway_command *cmd, struct err *err)
{
        AUTO_FREE char *dir = strdup(cmd->token_file);
        char *slash = dir ? strrchr(dir, '/') : NULL;
        AUTO_CLOSE int fd = -1;

        if (!cmd->token || !cmd->token[0])
                return err_set(err, ERR_INVALID, GATEWAY_TOKEN_VARIABLE " is not set");
        if (slash && slash != dir) {
                *slash = '\0';
                if (mkdir(dir, 0755) < 0 && errno != EEXIST)
                        return err_sys(err, -errno, "make %s", dir);
        }
        (void)unlink(cmd->token_file);
        fd = open(cmd->token_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, cmd->token, strlen(cmd->token)) != (ssize_t)strlen(cmd->token))
                return err_sys(err, -errno, "write %s", cmd->token_file);
        explicit_bzero(cmd->token, strlen(cmd->token)); /* /proc/PID/environ shows this memory */
        (void)unsetenv(GATEWAY_TOKEN_VARIABLE);
        return 0;
}

/* What the daemon says, until it has said all or the time is over. */
static int await_report(int fd, const struct gateway_command *cmd)
{
        AUTO_BUF struct buf text = BUF_INIT(1u << 20);
        uint64_t end = clock_mono_ms() + (uint64_t)cmd->wait_s * 1000;
        ssize_t n = 1;

        while (n > 0) {
                uint64_t now = clock_mono_ms();
                fd_set set;
                struct timeval tv = {.tv_sec = (time_t)((end > now ? end - now : 0) / 1000),
                                     .tv_usec = (suseconds_t)((end > now ? end - now : 0) % 1000 * 1000)};

                FD_ZERO(&set);
                FD_SET(fd, &set);
                if (select(fd + 1, &set, NULL, NULL, &tv) <= 0)
                        break;
                n = buf_fill(&text, fd, 64u << 10);
        }
        if (text.len == 0 && n <= 0) {
                (void)fprintf(stderr, "mcp-gateway: the gateway ended before its servers ran; its log is %s\n",
                              cmd->log_file);
                return 1;
        }
        if (text.len == 0) {
                printf("the servers are still starting\n");
                return 0;
        }
        (void)fprintf(buf_at(&text)[0] == SAYS_READY ? stdout : stderr, "%.*s", (int)text.len - 1,
                      (const char *)buf_at(&text) + 1);
        return buf_at(&text)[0] == SAYS_READY ? 0 : 1;
}

static int start(const struct gateway_command *cmd, const json_t *config, struct err *err)
{
        AUTO_CLOSE int listen_fd = -1;
        int fds[2], r = listen_tcp(str_of(cmd->listen), false, &listen_fd, err);
        pid_t pid;

        if (r == 0)
                r = keep_token(cmd, err);
        if (r < 0)
                return r;
        if (pipe2(fds, O_CLOEXEC) < 0)
                return err_sys(err, -errno, "make a pipe");
        pid = fork();
        if (pid < 0)
                return err_sys(err, -errno, "start the gateway");
        if (pid == 0) {
                (void)close(fds[0]);
                _exit(run_daemon(cmd, config, TAKE_FD(listen_fd), fds[1]));
        }
        (void)close(fds[1]);
        r = await_report(fds[0], cmd);
        (void)close(fds[0]);
        return r;
}

static int start_with(const struct gateway_command *cmd)
{
        json_error_t why;
        json_t *config = json_loads(cmd->config, JSON_REJECT_DUPLICATES, &why);
        struct err err = {0};
        int r;

        if (!json_is_object(config)) {
                (void)fprintf(stderr, "mcp-gateway: --config is no JSON object%s%s\n", config ? "" : ": ",
                              config ? "" : why.text);
                json_decref(config);
                return 1;
        }
        r = start(cmd, config, &err);
        if (r < 0)
                (void)fprintf(stderr, "mcp-gateway: %s\n", err.msg);
        json_decref(config);
        return r == 0 ? 0 : 1;
}

static int pull_one(const char *name, const struct gateway_command *cmd)
{
        const char *package = catalogue_package(name);
        char prefix[512];
        int status = -1;
        pid_t pid;

        if (!package) {
                (void)fprintf(stderr, "mcp-gateway: %s: no package of npm is known for this name\n", name);
                return 1;
        }
        printf("%s: installing %s\n", name, package);
        (void)fflush(stdout);
        (void)snprintf(prefix, sizeof(prefix), "%s/npm/%s", cmd->install_dir, package);
        pid = fork();
        if (pid == 0) {
                execlp("npm", "npm", "install", "--yes", "--no-audit", "--no-fund", "--loglevel=error", "--prefix",
                       prefix, package, (char *)NULL);
                _exit(127);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0) {
                (void)fprintf(stderr, "mcp-gateway: %s: npm could not install %s\n", name, package);
                return 1;
        }
        return 0;
}

static int pull(const struct gateway_command *cmd)
{
        int failed = 0;

        for (char *const *name = cmd->names; *name; name++)
                failed += pull_one(*name, cmd);
        return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
        struct gateway_command cmd;

        if (argc == 2 && strcmp(argv[1], "--version") == 0) {
                printf("mcp-gateway %s\n", SANDGLASS_VERSION);
                return 0;
        }
        if (argc == 2 && strcmp(argv[1], "--help") == 0) {
                AUTO_BUF struct buf names = BUF_INIT(8192);

                catalogue_names(&names);
                printf("%sServers: %s\n", gateway_usage, buf_cstr(&names));
                return 0;
        }
        if (gateway_options_parse(argc, argv, &cmd) < 0) {
                (void)fputs(gateway_usage, stderr);
                return 2;
        }
        return cmd.names ? pull(&cmd) : start_with(&cmd);
}
