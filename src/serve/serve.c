#include "serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/destroy.h"
#include "io/tls.h"
#include "serve/setup/base_template.h"
#include "serve/setup/ca_bundle.h"
#include "serve/setup/criu_tool.h"
#include "serve/setup/datadir.h"
#include "serve/setup/host_files.h"
#include "serve/setup/secret_key.h"
#include "serve/greeting.h"
#include "serve/supervisor/leftover.h"
#include "serve/options.h"
#include "serve/supervisor/sockets.h"
#include "serve/supervisor/supervisor.h"
#include "version.h"
#include "sys/proc.h"

const char serve_usage[] =
        "usage: sandglass serve [--data DIR] [options]\n"
        "Run the server in the foreground.  When it is ready, DIR/env has the settings for clients.\nSIGTERM ends the "
        "server; "
        "sandboxes continue to run.\n"
        "\n"
        "  --data DIR              everything the server stores (default " SERVE_DEFAULT_DATA ")\n"
        "  --listen ADDR:PORT      plain HTTP (default 127.0.0.1:3000; port 0: any free one)\n"
        "  --tls-listen ADDR:PORT  TLS (default 127.0.0.1:3443)\n"
        "  --domain NAME[:PORT]    sandboxes are <port>-<id>.NAME:PORT (default localhost and the TLS port)\n"
        "  --tls-cert FILE         certificate chain for *.NAME (default: from a local CA made at first start)\n"
        "  --tls-key FILE          the key of that certificate\n"
        "  --insecure-listen       allow --listen on an address that other machines reach, without encryption\n"
        "  --images DIR            layers and templates (default DIR/images)\n"
        "  --criu DIR              program for pausing with memory, fetched if there is none (default DIR/criu)\n"
        "  --config FILE           JSON object of settings; options override them\n"
        "  --mirror URL            Debian mirror of base template and CRIU (default: the host's own)\n"
        "  --log-level LEVEL       error, warn, info, debug\n"
        "  --stop-sandboxes        end the sandboxes, too, when the server ends\n"
        "  --check                 run a first sandbox, then print how to use the server\n";

struct serve {
        struct serve_options opt;
        struct sockets sockets;
        int lock;
        struct greeting greeting;
        struct host_files host_files;
};

/* Own users when the package made them.  A user whose group has another number is not used: that number as a group
 * could be anybody's. */
static void find_users(struct serve_options *o)
{
        const struct {
                const char *name;
                uint32_t *uid;
        } users[] = {
                {"sandglass", &o->conf.control_uid},         {"sandglass-edge", &o->conf.edge_uid},
                {"sandglass-builder", &o->conf.builder_uid}, {"sandglass-puller", &o->conf.puller_uid},
                {"sandglass-agent", &o->conf.agent_uid},
        };
        const struct passwd *pw;

        for (size_t i = 0; i < ARRAY_LEN(users) && !o->uids_are_given; i++) {
                pw = getpwnam(users[i].name);
                if (pw && pw->pw_uid && pw->pw_uid == pw->pw_gid)
                        *users[i].uid = pw->pw_uid;
        }
}

/* The group whose members get keys.  *ret_found false: none is named, and the system has no group "sandglass". */
static int find_group(const struct conf *c, uint32_t *ret_gid, bool *ret_found, struct err *err)
{
        const struct group *gr;

        *ret_found = c->group && parse_u32(str_of(c->group), 1, UINT32_MAX - 1, ret_gid) == 0;
        if (*ret_found)
                return 0;
        gr = getgrnam(c->group ? c->group : SERVE_DEFAULT_GROUP);
        if (!gr && c->group)
                return err_set(err, ERR_INVALID, "group: this system has no group '%s': `groupadd %s` makes it",
                               c->group, c->group);
        *ret_found = gr && gr->gr_gid != 0;
        if (*ret_found)
                *ret_gid = gr->gr_gid;
        return 0;
}

static int open_unix_sockets(struct serve *s, struct err *err)
{
        uint32_t gid = 0;
        bool has_group = false;
        int r = find_group(&s->opt.conf, &gid, &has_group, err);

        return r < 0 ? r : sockets_open_unix(&s->sockets, &s->opt.conf, has_group ? &gid : NULL, err);
}

/* The daemon lies beside us in the build tree, in libexec when installed. */
static int find_envd(struct conf *c, struct err *err)
{
        static const char *const places[] = {"../libexec/sandglass/sandglass-envd", "sandglass-envd"};
        char exe[4096];
        ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

        if (n < 0)
                return err_sys(err, -errno, "find our own program");
        exe[n] = 0;
        *strrchr(exe, '/') = 0;
        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
                AUTO_FREE char *path = NULL;

                if (asprintf(&path, "%s/%s", exe, places[i]) < 0)
                        return err_set(err, ERR_LIMIT, "out of memory");
                c->envd = realpath(path, NULL);
                if (c->envd)
                        return 0;
        }
        return err_set(err, ERR_NOT_FOUND, "sandglass-envd is neither in %s nor in %s/../libexec/sandglass", exe, exe);
}

static size_t edge_count(const struct conf *c)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN);

        if (c->edge_count)
                return c->edge_count;
        return cores < 1 ? 1 : cores > CONF_EDGES_MAX ? CONF_EDGES_MAX : (size_t)cores;
}

/* The default domain follows the real TLS port. */
static int settle_domain(struct serve *s, struct err *err)
{
        char *domain;

        if (s->opt.domain_is_given)
                return 0;
        if (asprintf(&domain, "localhost:%u", s->sockets.https_port) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        free(s->opt.conf.domain);
        s->opt.conf.domain = domain;
        return 0;
}

/* Before all that takes long. */
static int check_certificate(const struct conf *c, struct err *err)
{
        if (c->tls_cert && access(c->tls_cert, R_OK) < 0)
                return err_sys(err, -errno, "tls_cert: read '%s'", c->tls_cert);
        if (c->tls_key && access(c->tls_key, R_OK) < 0)
                return err_sys(err, -errno, "tls_key: read '%s'", c->tls_key);
        return 0;
}

static int make_certificate(const struct conf *c, struct err *err)
{
        AUTO_FREE char *dir = conf_path(c, "ca"), *name = strndup(c->domain, strcspn(c->domain, ":"));
        struct err why = {0};
        int r;

        if (c->tls_cert)
                return 0;
        r = dir && name ? tls_local_ca(dir, name, err) : err_set(err, ERR_LIMIT, "out of memory");
        if (r == 0 && ca_bundle_renew(dir, ca_bundle_systems, &why) < 0) /* most clients do without it */
                log_warn("ca.bundle", "error=\"%s\" effect=\"ca/bundle.pem is not renewed\"", why.msg);
        return r;
}

static int serve_prepare(struct serve *s, struct err *err)
{
        struct conf *c = &s->opt.conf;
        int r;

        if (geteuid() != 0)
                return err_set(err, ERR_DENIED,
                               "needs root, to make namespaces, mounts and cgroups (sandboxes and the roles that talk "
                               "to clients run without it): try sudo");
        find_users(&s->opt);
        r = find_envd(c, err);
        if (r == 0)
                r = check_certificate(c, err);
        if (r == 0)
                r = datadir_prepare(c, err);
        if (r == 0)
                r = datadir_lock(c, &s->lock, err);
        if (r == 0)
                r = leftover_end(c, err);
        if (r == 0)
                r = secret_key_ensure(c, err);
        if (r == 0)
                r = sockets_open_tcp(&s->sockets, c, edge_count(c), err);
        if (r == 0)
                r = settle_domain(s, err);
        if (r == 0)
                r = base_template_ensure(c->images_dir, s->opt.mirror, err);
        if (r == 0)
                r = criu_tool_ensure(c->criu_dir, s->opt.mirror, err);
        if (r == 0)
                r = make_certificate(c, err);
        if (r == 0)
                r = host_files_init(&s->host_files, c, &host_sources_default, err);
        if (r == 0)
                r = open_unix_sockets(s, err);
        if (r == 0)
                r = greeting_init(&s->greeting, c, &s->sockets, err);
        if (r == 0)
                r = greeting_exports(&s->greeting, &c->exports, err);
        if (r == 0)
                c->make_key = !s->greeting.env.api_key;
        return r;
}

static int serve_is_ready(void *arg, pid_t *ret_child, struct err *err)
{
        struct serve *s = arg;
        int r;

        r = greeting_ready(&s->greeting, &s->opt.conf, err);
        if (r == 0)
                s->opt.conf.make_key = false; /* it is in env now: a control that is started again makes no other */
        if (r == 0 && s->opt.notify)
                greeting_notify(s->opt.notify);
        if (r == 0 && s->opt.check)
                r = greeting_check_start(&s->greeting, &s->opt.conf, ret_child, err);
        return r;
}

static int serve_check_ended(void *arg, int status, struct err *err)
{
        struct serve *s = arg;

        return greeting_check_end(&s->greeting, status, err);
}

static void serve_look(void *arg)
{
        struct serve *s = arg;

        host_files_look(&s->host_files);
}

static int serve_run(struct serve *s, struct err *err)
{
        const struct supervisor_options sup = {.conf = &s->opt.conf,
                                               .sockets = &s->sockets,
                                               .on_ready = serve_is_ready,
                                               .on_child = serve_check_ended,
                                               .on_look = serve_look,
                                               .arg = s};
        struct err later = {0};
        int r = serve_prepare(s, err);

        if (r == 0)
                r = supervisor_run(&sup, err);
        if (s->lock >= 0 && s->opt.conf.stop_sandboxes && engine_destroy_all(s->opt.conf.data_dir, &later) < 0) {
                (void)fprintf(stderr, "sandglass serve: %s\n", later.msg);
                r = r < 0 ? r : -EIO;
        }
        return r;
}

int serve_main(int argc, char **argv)
{
        struct serve s = {.lock = -1};
        struct err err = {0};
        sigset_t set = sys_signals_to_end();
        int r;

        if (serve_options_parse(argc, argv, &s.opt, &err) < 0) {
                (void)fprintf(stderr, "sandglass serve: %s\n", err.msg);
                return 2;
        }
        if (s.opt.help) {
                (void)fputs(serve_usage, stdout);
                serve_options_done(&s.opt);
                return 0;
        }
        log_setup("serve", LOG_INFO);
        sockets_init(&s.sockets);
        (void)sigaddset(&set, SIGCHLD);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        r = serve_run(&s, &err);
        if (r < 0)
                (void)fprintf(stderr, "sandglass serve: %s\n", err.msg);
        greeting_done(&s.greeting);
        sockets_done(&s.sockets);
        close_fd(&s.lock);
        serve_options_done(&s.opt);
        return r < 0 ? 1 : 0;
}
