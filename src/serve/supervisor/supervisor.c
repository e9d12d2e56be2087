#include "serve/supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "serve/setup/secret_key.h"
#include "serve/supervisor/certificate.h"
#include "serve/supervisor/leftover.h"
#include "serve/supervisor/probe.h"
#include "serve/supervisor/role.h"
#include "serve/supervisor/sockets.h"
#include "sys/proc.h"
#include "sys/scm.h"

#define PROBE_S 30u
#define PROBE_PAUSE_MS 200u   /* after an answer that was not "up" */
#define STABLE_MS 10000u      /* alive for so long: the next death counts as the first again */
#define BACKOFF_FIRST_MS 100u /* the first restart is immediate, the second waits so long, doubled each time */
#define BACKOFF_MAX_MS 5000u
#define EARLY_DEATHS_MAX 5u /* before the server was ever ready: then it is broken, not unlucky */
#define STOP_MS 10000u      /* SIGTERM to SIGKILL */

/* The order in which they are stopped: no client first, then no requests, then nothing. */
enum role_kind { ROLE_EDGE, ROLE_AGENT, ROLE_CONTROL, ROLE_BUILDER, ROLE_PULLER, ROLE_ENGINE, ROLE_KINDS };
static const char *const role_names[] = {"edge", "agent", "control", "builder", "puller", "engine"};

struct supervised_role {
        enum role_kind kind;
        size_t index; /* among the edges */
        pid_t pid;    /* 0: not running */
        uint64_t started_ms;
        uint64_t due_ms; /* start it then; 0: nothing planned */
        /* Of a role that runs only when it is needed: its listening socket, borrowed.  It is started when a connection waits
         * there, but not before `rest_ms`; a role that ends with 0 had nothing to do.  -1: it runs all the time. */
        int demand;
        uint64_t rest_ms;
        unsigned deaths; /* in a row */
        int renewals;    /* our end of an edge's socket for certificates; owned; -1: none */
};

struct supervisor {
        const struct supervisor_options *opt;
        struct supervised_role roles[CONF_EDGES_MAX + 5];
        int signals; /* owned: signalfd */
        size_t count;
        int exe;
        struct certificate certificate;
        uint64_t look_due_ms; /* at the certificate's files */
        pid_t probe;          /* asks whether the server is up; 0: not now */
        uint64_t probe_due_ms;
        pid_t child; /* of on_ready */
        bool is_ready;
        bool is_stopping;
        enum role_kind stage; /* being stopped now */
        uint64_t kill_due_ms;
        int result;
        struct err *err;
};

static void plan_roles(struct supervisor *s)
{
        s->roles[s->count++] = (struct supervised_role){.kind = ROLE_ENGINE};
        s->roles[s->count++] = (struct supervised_role){.kind = ROLE_CONTROL};
        for (size_t i = 0; i < s->opt->sockets->edges; i++)
                s->roles[s->count++] = (struct supervised_role){.kind = ROLE_EDGE, .index = i};
        for (size_t i = 0; i < s->count; i++) {
                s->roles[i].due_ms = 1;
                s->roles[i].demand = -1;
        }
        s->roles[s->count++] = (struct supervised_role){.kind = ROLE_BUILDER, .demand = s->opt->sockets->builder};
        s->roles[s->count++] = (struct supervised_role){.kind = ROLE_PULLER, .demand = s->opt->sockets->puller};
        s->roles[s->count++] = (struct supervised_role){.kind = ROLE_AGENT, .demand = s->opt->sockets->agent};
        for (size_t i = 0; i < s->count; i++)
                s->roles[i].renewals = -1;
}

static void supervisor_remember(const struct supervisor *s)
{
        pid_t pids[ARRAY_LEN(s->roles)];
        int r;

        for (size_t i = 0; i < s->count; i++)
                pids[i] = s->roles[i].pid;
        r = leftover_save(s->opt->conf, pids, s->count);
        if (r < 0)
                log_warn("serve.remember", "error=%s, going on", strerror(-r));
}

/* An edge hears on this socket when there is another certificate. */
static int open_renewals(struct supervised_role *role, int *ret_theirs, struct err *err)
{
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return err_sys(err, -errno, "start an edge");
        close_fd(&role->renewals);
        role->renewals = ends[0];
        *ret_theirs = ends[1];
        return 0;
}

static void send_certificate(const struct supervisor *s)
{
        const int pair[] = {s->certificate.cert, s->certificate.key};
        ssize_t r;

        for (size_t i = 0; i < s->count; i++) {
                if (!s->roles[i].pid || s->roles[i].renewals < 0)
                        continue; /* an edge that starts later begins with the new one */
                r = scm_send(s->roles[i].renewals, "c", 1, pair, ARRAY_LEN(pair));
                if (r < 0)
                        log_warn("certificate.send", "edge=%zu error=%s, it has the old one until it starts again",
                                 s->roles[i].index, strerror((int)-r));
        }
}

static void look_at_certificate(struct supervisor *s)
{
        s->look_due_ms = clock_mono_ms() + CERTIFICATE_LOOK_MS;
        if (certificate_look(&s->certificate))
                send_certificate(s);
        s->opt->on_look(s->opt->arg);
}

/* The puller is a program of its own, beside envd: what it loads would make the others slower to start. */
static int open_puller(const struct conf *c, int *ret, struct err *err)
{
        const char *slash = c->envd ? strrchr(c->envd, '/') : NULL;
        AUTO_FREE char *path = NULL;

        if (!slash || asprintf(&path, "%.*s/sandglass-puller", (int)(slash - c->envd), c->envd) < 0)
                return err_set(err, ERR_INTERNAL, "the directory of sandglass-puller is not known");
        *ret = open(path, O_RDONLY | O_CLOEXEC);
        return *ret < 0 ? err_sys(err, -errno, "open '%s'", path) : 0;
}

static int start_role(struct supervisor *s, struct supervised_role *role, struct err *err)
{
        const struct conf *c = s->opt->conf;
        const struct sockets *k = s->opt->sockets;
        AUTO_CLOSE int renewals = -1, program = -1, secret_key = -1;
        struct role_spec spec = {.name = role_names[role->kind],
                                 .conf = c,
                                 .exe = s->exe,
                                 .fds = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}};
        int r = 0;

        switch (role->kind) {
        case ROLE_EDGE:
                r = open_renewals(role, &renewals, err);
                spec.fds.http = k->http[role->index];
                spec.fds.https = k->https[role->index];
                spec.fds.tls_cert = s->certificate.cert;
                spec.fds.tls_key = s->certificate.key;
                spec.fds.tls_renewals = renewals;
                spec.fds.clients = k->clients;
                spec.uid = c->edge_uid;
                break;
        case ROLE_AGENT:
                spec.fds.agent = k->agent;
                spec.uid = c->agent_uid;
                break;
        case ROLE_CONTROL:
                spec.fds.api = k->api;
                spec.fds.routes = k->routes;
                spec.fds.users = k->users;
                spec.fds.credentials = k->credentials;
                r = secret_key_open(c, &secret_key, err);
                spec.fds.secret_key = secret_key;
                spec.uid = c->control_uid;
                break;
        case ROLE_BUILDER:
                spec.fds.builder = k->builder;
                spec.uid = c->builder_uid;
                break;
        case ROLE_PULLER:
                r = open_puller(c, &program, err);
                spec.exe = program;
                spec.fds.puller = k->puller;
                spec.uid = c->puller_uid;
                break;
        case ROLE_ENGINE:
                spec.fds.engine = k->engine;
                spec.fds.dial = k->dial;
                break;
        case ROLE_KINDS: break;
        }
        return r < 0 ? r : role_start(&spec, &role->pid, err);
}

static void plan_restart(struct supervisor *s, struct supervised_role *role)
{
        uint64_t now = clock_mono_ms(), wait = 0;

        if (now - role->started_ms >= STABLE_MS)
                role->deaths = 0;
        role->deaths++;
        for (unsigned i = 1; i < role->deaths && wait < BACKOFF_MAX_MS; i++)
                wait = wait ? wait * 2 : BACKOFF_FIRST_MS;
        wait = now + (wait < BACKOFF_MAX_MS ? wait : BACKOFF_MAX_MS);
        if (role->demand >= 0) {
                role->rest_ms = wait;
                return;
        }
        role->due_ms = wait;
        if (!s->is_ready && role->deaths >= EARLY_DEATHS_MAX)
                s->result = err_set(s->err, ERR_UNAVAILABLE,
                                    "%s died %u times before the server was ready (its log is above)",
                                    role_names[role->kind], role->deaths);
}

static void start_due_roles(struct supervisor *s)
{
        struct err err = {0};
        bool changed = false;

        for (size_t i = 0; i < s->count; i++) {
                struct supervised_role *role = &s->roles[i];

                if (!role->due_ms || role->due_ms > clock_mono_ms())
                        continue;
                role->due_ms = 0;
                role->started_ms = clock_mono_ms();
                changed = true;
                if (start_role(s, role, &err) < 0) {
                        log_error("serve.start", "role=%s error=\"%s\", retrying", role_names[role->kind], err.msg);
                        plan_restart(s, role);
                }
        }
        if (changed)
                supervisor_remember(s);
}

static void start_due_probe(struct supervisor *s)
{
        int r;

        if (s->is_ready || s->probe || s->probe_due_ms > clock_mono_ms())
                return;
        r = probe_start(s->opt->sockets->http[0], PROBE_S, &s->probe);
        s->probe_due_ms = clock_mono_ms() + PROBE_PAUSE_MS;
        if (r < 0)
                log_warn("serve.probe", "error=%s, retrying", strerror(-r));
}

static size_t signal_stage(const struct supervisor *s, int signo)
{
        size_t alive = 0;

        for (size_t i = 0; i < s->count; i++) {
                if (s->roles[i].kind != s->stage || !s->roles[i].pid)
                        continue;
                alive++;
                if (signo)
                        (void)kill(s->roles[i].pid, signo);
        }
        return alive;
}

/* Stop one kind after the other; a kind with nobody alive is passed over. */
static void advance_stop(struct supervisor *s)
{
        while (s->stage < ROLE_KINDS && signal_stage(s, 0) == 0) {
                s->stage++;
                s->kill_due_ms = clock_mono_ms() + STOP_MS;
                (void)signal_stage(s, SIGTERM);
        }
}

static void begin_stop(struct supervisor *s)
{
        if (s->is_stopping) { /* asked twice: no patience left */
                s->kill_due_ms = clock_mono_ms();
                return;
        }
        s->is_stopping = true;
        for (size_t i = 0; i < s->count; i++)
                s->roles[i].due_ms = 0;
        if (s->probe)
                (void)kill(s->probe, SIGKILL);
        if (s->child)
                (void)kill(s->child, SIGTERM);
        s->stage = ROLE_EDGE;
        s->kill_due_ms = clock_mono_ms() + STOP_MS;
        (void)signal_stage(s, SIGTERM);
}

static bool all_roles_live(const struct supervisor *s)
{
        for (size_t i = 0; i < s->count; i++)
                if (!s->roles[i].pid && s->roles[i].demand < 0)
                        return false;
        return true;
}

static void on_probe_end(struct supervisor *s, int status)
{
        s->probe = 0;
        if (s->is_stopping || status != 0 || !all_roles_live(s))
                return; /* start_due_probe() asks again */
        s->is_ready = true;
        s->result = s->opt->on_ready(s->opt->arg, &s->child, s->err);
}

static void on_role_end(struct supervisor *s, struct supervised_role *role, int status)
{
        bool is_idle = role->demand >= 0 && status == 0;

        role->pid = 0;
        if (s->is_stopping || is_idle)
                return;
        log_warn("serve.role_died", "role=%s %s=%d, starting it again%s", role_names[role->kind],
                 WIFSIGNALED(status) ? "signal" : "code", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                 role->demand >= 0 ? " when it is needed" : "");
        plan_restart(s, role);
}

/* Whatever else ends is a sandbox's process whose engine is gone: reaped, nothing more. */
static void reap(struct supervisor *s)
{
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
                if (pid == s->probe)
                        on_probe_end(s, status);
                if (pid == s->child) {
                        s->child = 0;
                        if (!s->is_stopping)
                                s->result = s->opt->on_child(s->opt->arg, status, s->err);
                }
                for (size_t i = 0; i < s->count; i++)
                        if (s->roles[i].pid == pid)
                                on_role_end(s, &s->roles[i], status);
        }
}

static bool is_resting(const struct supervised_role *role)
{
        return role->demand >= 0 && !role->pid && role->rest_ms > clock_mono_ms();
}

static uint64_t next_due(const struct supervisor *s)
{
        uint64_t due = s->look_due_ms;

        if (s->is_stopping)
                return s->kill_due_ms;
        if (!s->is_ready && !s->probe && s->probe_due_ms < due)
                due = s->probe_due_ms;
        for (size_t i = 0; i < s->count; i++)
                if (s->roles[i].due_ms && s->roles[i].due_ms < due)
                        due = s->roles[i].due_ms;
        for (size_t i = 0; i < s->count; i++) /* then its socket is looked at again */
                if (is_resting(&s->roles[i]) && s->roles[i].rest_ms < due)
                        due = s->roles[i].rest_ms;
        return due;
}

/* The next signal, or 0 when something else is to be done before: roles for which a connection waits are due then. */
static int wait_signal(struct supervisor *s)
{
        struct pollfd fds[1 + ARRAY_LEN(s->roles)] = {{.fd = s->signals, .events = POLLIN}};
        struct supervised_role *wanted[ARRAY_LEN(s->roles)];
        uint64_t due = next_due(s), now = clock_mono_ms();
        struct signalfd_siginfo si;
        nfds_t n = 1;

        for (size_t i = 0; i < s->count && !s->is_stopping; i++)
                if (s->roles[i].demand >= 0 && !s->roles[i].pid && !is_resting(&s->roles[i])) {
                        wanted[n - 1] = &s->roles[i];
                        fds[n++] = (struct pollfd){.fd = s->roles[i].demand, .events = POLLIN};
                }
        if (poll(fds, n, due > now ? (int)(due - now) : 0) <= 0)
                return 0;
        for (nfds_t i = 1; i < n; i++)
                if (fds[i].revents)
                        wanted[i - 1]->due_ms = 1;
        return fds[0].revents && read(s->signals, &si, sizeof(si)) == sizeof(si) ? (int)si.ssi_signo : 0;
}

static void supervisor_step(struct supervisor *s)
{
        int signo = wait_signal(s);

        if (signo == SIGCHLD)
                reap(s);
        else if (signo)
                begin_stop(s);
        if (s->result < 0 && !s->is_stopping)
                begin_stop(s);
        if (!s->is_stopping) {
                if (clock_mono_ms() >= s->look_due_ms)
                        look_at_certificate(s);
                start_due_roles(s);
                start_due_probe(s);
                return;
        }
        if (clock_mono_ms() >= s->kill_due_ms) {
                (void)signal_stage(s, SIGKILL);
                s->kill_due_ms = clock_mono_ms() + STOP_MS;
        }
        advance_stop(s);
}

static int open_signals(void)
{
        sigset_t set = sys_signals_to_end();

        (void)sigaddset(&set, SIGCHLD);
        return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int supervisor_run(const struct supervisor_options *opt, struct err *err)
{
        AUTO_CLOSE int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), signals = open_signals();
        struct supervisor s = {.opt = opt, .exe = exe, .signals = signals, .err = err};

        if (exe < 0 || signals < 0)
                return err_sys(err, -errno, "open our own program");
        s.result = certificate_init(&s.certificate, opt->conf, err);
        s.look_due_ms = clock_mono_ms() + CERTIFICATE_LOOK_MS;
        if (s.result == 0) {
                plan_roles(&s);
                start_due_roles(&s);
                while (!s.is_stopping || s.stage < ROLE_KINDS)
                        supervisor_step(&s);
                supervisor_remember(&s);
        }
        for (size_t i = 0; i < s.count; i++)
                close_fd(&s.roles[i].renewals);
        certificate_done(&s.certificate);
        return s.result;
}
