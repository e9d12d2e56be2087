#include "serve/greeting.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "model/conf.h"
#include "serve/setup/datadir.h"
#include "serve/supervisor/sockets.h"
#include "version.h"

#define CHECK_EXPECTS "2\n"

/* Where clients on this machine reach the plain port. */
static char *plain_url(const struct conf *c, uint16_t port)
{
        struct str host = {0};
        uint16_t asked;
        char *url;

        (void)conf_split_address(str_of(c->listen), &host, &asked);
        if (host.n == 0 || str_is(host, "0.0.0.0") || str_is(host, "[::]"))
                host = STR("127.0.0.1");
        return asprintf(&url, "http://%.*s:%u", STR_ARG(host), port) < 0 ? NULL : url;
}

static void take_old_key(struct greeting *g, const char *path)
{
        AUTO_BUF struct buf text = BUF_INIT(ENVFILE_MAX);
        AUTO(envfile_done) struct envfile old = {0};

        if (file_read(path, &text) == 0 &&
            envfile_parse((struct str){(const char *)buf_at(&text), text.len}, &old) == 0)
                g->env.api_key = TAKE_PTR(old.api_key);
}

/* With the operator's certificate clients need nothing of ours. */
static int set_authorities(struct greeting *g, const struct conf *c)
{
        AUTO_FREE char *bundle = conf_path(c, "ca/bundle.pem");

        if (c->tls_cert)
                return 0;
        g->env.ca_certs = conf_path(c, "ca/ca.pem");
        if (!g->env.ca_certs || !bundle)
                return -ENOMEM;
        if (access(bundle, R_OK) == 0)
                g->env.ca_bundle = TAKE_PTR(bundle);
        return 0;
}

int greeting_init(struct greeting *g, const struct conf *c, const struct sockets *s, struct err *err)
{
        AUTO_FREE char *path = conf_path(c, "env");

        *g = (struct greeting){.output = -1, .http_port = s->http_port, .https_port = s->https_port};
        g->env.api_url = plain_url(c, s->http_port);
        g->env.sandbox_url = plain_url(c, s->http_port);
        g->env.domain = strdup(c->domain);
        if (!path || !g->env.api_url || !g->env.sandbox_url || !g->env.domain || set_authorities(g, c) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        take_old_key(g, path);
        return 0;
}

int greeting_exports(const struct greeting *g, char **ret, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(ENVFILE_MAX);
        struct envfile e = g->env; /* borrows the texts */

        e.api_key = NULL;
        if (envfile_format(&e, &text) < 0 || !buf_cstr(&text))
                return err_set(err, ERR_LIMIT, "out of memory");
        free(*ret);
        *ret = strdup(buf_cstr(&text));
        return *ret ? 0 : err_set(err, ERR_LIMIT, "out of memory");
}

/* "e2b_" and lower-case hex, as every client insists. */
static bool is_key(struct str s)
{
        if (s.n != 44 || !str_starts(s, "e2b_"))
                return false;
        for (size_t i = 4; i < s.n; i++)
                if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
                        return false;
        return true;
}

/* Control leaves a new key in a file of its own; from here on it is in env only. */
static int take_first_key(struct greeting *g, const char *path, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(256);
        struct str key;
        int r;

        r = file_read(path, &text);
        if (r == -ENOENT)
                return g->env.api_key ? 0 : err_set(err, ERR_INTERNAL, "control made no API key");
        if (r < 0)
                return err_sys(err, r, "read '%s'", path);
        key = (struct str){(const char *)buf_at(&text), text.len};
        if (str_ends(key, "\n"))
                key.n--;
        if (!is_key(key))
                return err_set(err, ERR_INTERNAL, "'%s' holds no API key", path);
        free(g->env.api_key);
        g->env.api_key = str_dup(key);
        return g->env.api_key ? 0 : err_set(err, ERR_LIMIT, "out of memory");
}

/* "127.0.0.1:0" as it became: with the real port. */
static json_t *address_with_port(const char *addr, uint16_t port)
{
        struct str host = {0};
        uint16_t asked;

        (void)conf_split_address(str_of(addr), &host, &asked);
        return json_sprintf("%.*s:%u", STR_ARG(host), port);
}

/* <data>/run/listening: nothing secret; for `sandglass doctor --remote`. */
static void write_listening(const struct greeting *g, const struct conf *c)
{
        AUTO_FREE char *path = conf_path(c, "run/listening"), *text = NULL;
        AUTO_BUF struct buf line = BUF_INIT(ENVFILE_MAX);
        json_t *obj = json_pack("{s:o, s:o, s:s, s:s*, s:s*}", "listen", address_with_port(c->listen, g->http_port),
                                "tls_listen", address_with_port(c->tls_listen, g->https_port), "domain", c->domain,
                                "tls_cert", c->tls_cert, "tls_key", c->tls_key);
        int r = -ENOMEM;

        text = obj ? json_dumps(obj, JSON_INDENT(2)) : NULL;
        json_decref(obj);
        if (path && text)
                r = buf_addf(&line, "%s\n", text);
        if (r == 0)
                r = file_replace_lines(path, 0644, buf_at(&line), line.len);
        if (r < 0)
                log_warn("serve.listening", "error=\"%s\" effect=\"doctor --remote does not know the settings\"",
                         strerror(-r));
}

int greeting_ready(struct greeting *g, const struct conf *c, struct err *err)
{
        AUTO_FREE char *first = conf_path(c, "store/first-key"), *path = conf_path(c, "env");
        AUTO_BUF struct buf text = BUF_INIT(ENVFILE_MAX);
        int r;

        if (!first || !path)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = take_first_key(g, first, err);
        if (r < 0)
                return r;
        r = envfile_format(&g->env, &text);
        if (r == 0)
                r = file_replace_lines(path, 0600, buf_at(&text), text.len);
        if (r < 0)
                return err_sys(err, r, "write '%s'", path);
        (void)unlink(first);
        write_listening(g, c);
        (void)printf("sandglass %s is ready: %s, and https://*.%s\nclients: source %s\n", SANDGLASS_VERSION,
                     g->env.api_url, g->env.domain, path);
        (void)fflush(stdout);
        return 0;
}

void greeting_notify(const char *path)
{
        AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        size_t n = strlen(path);

        if (fd < 0 || n < 2 || n >= sizeof(at.sun_path))
                return;
        memcpy(at.sun_path, path, n);
        if (path[0] == '@')
                at.sun_path[0] = 0;
        /* Nobody there to hear it: then nobody waits either. */
        (void)sendto(fd, "READY=1", 7, MSG_NOSIGNAL, (const struct sockaddr *)&at,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}

static _Noreturn void check_child(int output, const char *data_dir)
{
        sigset_t none;

        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
        (void)setsid(); /* not the terminal's Ctrl-C: the supervisor tells it */
        if (dup2(output, STDOUT_FILENO) < 0)
                _exit(126);
        (void)close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
        (void)execl("/proc/self/exe", "sandglass", "run", "--data", data_dir, "--", "python3", "-c", "print(1+1)",
                    NULL);
        _exit(127);
}

int greeting_check_start(struct greeting *g, const struct conf *c, pid_t *ret_pid, struct err *err)
{
        pid_t pid;

        g->check_ms = clock_mono_ms();
        g->output = memfd_create("sandglass-check", MFD_CLOEXEC);
        if (g->output < 0)
                return err_sys(err, -errno, "start the self-check");
        pid = fork();
        if (pid < 0)
                return err_sys(err, -errno, "start the self-check");
        if (pid == 0)
                check_child(g->output, c->data_dir);
        *ret_pid = pid;
        return 0;
}

int greeting_check_end(struct greeting *g, int status, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(ENVFILE_MAX);
        char printed[8] = "";
        ssize_t n = pread(g->output, printed, sizeof(printed) - 1, 0);

        close_fd(&g->output);
        if (status != 0 || n != (ssize_t)strlen(CHECK_EXPECTS) || strcmp(printed, CHECK_EXPECTS) != 0)
                return err_set(err, ERR_INTERNAL,
                               "the first sandbox failed (status %#x): see the log above, and run "
                               "`sandglass doctor`",
                               (unsigned)status);
        if (envfile_format(&g->env, &text) < 0 || !buf_cstr(&text))
                return err_set(err, ERR_LIMIT, "out of memory");
        (void)printf("self-check: a first sandbox ran python3 -c 'print(1+1)' and printed 2, all in %u ms\n\n"
                     "Paste into another shell:\n\n%s\n"
                     "Then, after `npm install e2b`, with node:\n\n"
                     "  import { Sandbox } from 'e2b'\n"
                     "  const sandbox = await Sandbox.create()\n"
                     "  console.log((await sandbox.commands.run('echo hello from $HOSTNAME')).stdout)\n\n"
                     "Ctrl-C ends the server. Sandboxes continue to run, and the next start takes them over.\n",
                     (unsigned)(clock_mono_ms() - g->check_ms), buf_cstr(&text));
        (void)fflush(stdout);
        return 0;
}

void greeting_done(struct greeting *g)
{
        envfile_done(&g->env);
        if (g->output > 0) /* a zeroed greeting was never set up */
                close_fd(&g->output);
}
