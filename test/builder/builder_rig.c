#include "builder_rig.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "builder/role.h"
#include "io/listener.h"

#define ANSWER_MS 100000u
#define LOG_MAX (8u << 20)

/* ---- envd in a system of its own ---- */

/* The newest layer of the base template, or this machine's own files. */
static void find_lower(char out[512])
{
        const char *images = getenv("SANDGLASS_TEST_IMAGES");
        char path[400];
        struct dirent *e;
        DIR *d;

        (void)snprintf(out, 512, "/");
        (void)snprintf(path, sizeof(path), "%s/layers", images ? images : "/nonexistent");
        d = opendir(path);
        while (d && (e = readdir(d)))
                if (strncmp(e->d_name, "base-", 5) == 0 && strlen(e->d_name) < 64)
                        (void)snprintf(out, 512, "%s/%.64s", path, e->d_name);
        if (d)
                (void)closedir(d);
}

static int enter_copy(const char *dir)
{
        char lower[512], options[900], path[256];

        find_lower(lower);
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", dir, "tmpfs", 0, "mode=0755") < 0)
                return -errno;
        for (size_t i = 0; i < 3; i++) {
                static const char *const names[] = {"upper", "work", "root"};

                (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
                if (mkdir(path, 0755) < 0)
                        return -errno;
        }
        (void)snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s/upper,workdir=%s/work", lower, dir, dir);
        if (mount("overlay", path, "overlay", 0, options) < 0 || chroot(path) < 0 || chdir("/") < 0)
                return -errno;
        if (mount("proc", "/proc", "proc", 0, NULL) < 0)
                return -errno;
        (void)mkdir("/dev", 0755);
        return mount("tmpfs", "/dev", "tmpfs", 0, "mode=0755") < 0 ||
                               mknod("/dev/null", S_IFCHR | 0666, 1 << 8 | 3) < 0 || chmod("/dev/null", 0666) < 0
                       ? -errno
                       : 0;
}

static _Noreturn void run_envd(const char *dir, int exe, int out)
{
        char *const argv[] = {"sandglass-envd", "--standalone", "--listen", "127.0.0.1:0", NULL};
        char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
        int r;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        r = enter_copy(dir);
        if (r < 0) {
                (void)dprintf(out, "cannot copy the system: %s\n", strerror(-r));
                _exit(1);
        }
        (void)dup2(out, 1);
        (void)fexecve(exe, argv, env);
        (void)dprintf(out, "cannot run envd: %s\n", strerror(errno));
        _exit(1);
}

static const char *start_envd(struct builder_rig *g, const char *path)
{
        static char line[128];
        AUTO_CLOSE int exe = open(path, O_RDONLY | O_CLOEXEC);
        unsigned port = 0;
        int fds[2];
        ssize_t n;

        if (exe < 0 || pipe2(fds, O_CLOEXEC) < 0)
                return "no envd to run";
        g->envd = fork();
        if (g->envd == 0)
                run_envd(g->dir, exe, fds[1]);
        (void)close(fds[1]);
        n = read(fds[0], line, sizeof(line) - 1);
        (void)close(fds[0]);
        line[n > 0 ? n : 0] = '\0';
        if (sscanf(line, "listening on port %u", &port) != 1)
                return line;
        g->port = (uint16_t)port;
        return NULL;
}

int builder_rig_dial(const struct builder_rig *g)
{
        struct sockaddr_in to = {
                .sin_family = AF_INET, .sin_port = htons(g->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && connect(fd, (struct sockaddr *)(void *)&to, sizeof(to)) < 0)
                close_fd(&fd);
        return fd;
}

const char *builder_rig_path(const struct builder_rig *g, const char *inside)
{
        static char text[4][512];
        static unsigned at;
        char *out = text[++at % 4];

        (void)snprintf(out, sizeof(text[0]), "/proc/%d/root%s", (int)g->envd, inside);
        return out;
}

/* ---- the builder ---- */

static void take_log(struct builder_rig *g, const json_t *entries)
{
        const json_t *entry;
        size_t i;

        json_array_foreach (entries, i, entry) {
                const char *m = json_string_value(json_object_get(entry, "m"));

                g->log_entries++;
                g->log_bytes += m ? strlen(m) : 0;
                (void)buf_addf(&g->log, "%s\n", m ? m : "(no text)");
        }
}

static void rig_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        struct builder_rig *g = arg;

        (void)ch;
        (void)fds;
        (void)nfds;
        if (json_object_get(msg, "event")) {
                take_log(g, json_object_get(msg, "entries"));
                return;
        }
        json_decref(g->answer);
        g->answer = json_incref(msg);
        loop_stop(g->loop);
}

static void rig_closed(struct channel *ch, const char *reason, void *arg)
{
        struct builder_rig *g = arg;

        (void)reason;
        g->channel = channel_free(ch);
        g->is_closed = true;
        loop_stop(g->loop);
}

static const char *start_builder(struct builder_rig *g)
{
        static const struct channel_ops ops = {.on_message = rig_message, .on_close = rig_closed};
        char path[96];
        int ln = -1, fd = -1;

        (void)snprintf(path, sizeof(path), "%s.sock", g->dir);
        if (listen_unix(path, 0600, &ln, NULL) < 0)
                return "no socket for the builder";
        g->builder = fork();
        if (g->builder == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                log_setup("builder", LOG_WARN);
                _exit(builder_serve(ln, 60000));
        }
        (void)close(ln);
        if (loop_create(&g->loop) < 0 || connect_unix(path, &fd) < 0 ||
            channel_create(g->loop, fd, &ops, g, &g->channel) < 0)
                return "no connection to the builder";
        return NULL;
}

const char *builder_rig_start(struct builder_rig *g, const char *envd_path)
{
        const char *why;

        *g = (struct builder_rig){.dir = "/tmp/builder-test-XXXXXX", .log = BUF_INIT(LOG_MAX)};
        if (geteuid() != 0)
                return "needs root";
        if (!mkdtemp(g->dir))
                return "no directory";
        why = start_envd(g, envd_path);
        return why ? why : start_builder(g);
}

static void end_process(pid_t *pid, int signo)
{
        if (*pid > 0) {
                (void)kill(*pid, signo);
                (void)waitpid(*pid, NULL, 0);
        }
        *pid = 0;
}

void builder_rig_stop(struct builder_rig *g)
{
        char path[96];

        g->channel = channel_free(g->channel);
        end_process(&g->builder, SIGTERM);
        end_process(&g->envd, SIGKILL);
        if (g->loop)
                g->loop = loop_free(g->loop);
        json_decref(g->answer);
        g->answer = NULL;
        buf_done(&g->log);
        (void)snprintf(path, sizeof(path), "%s.sock", g->dir);
        (void)unlink(path);
        (void)rmdir(g->dir);
}

/* ---- steps ---- */

static struct builder_rig *waiting; /* for an answer */

static void rig_late(struct timer *t)
{
        (void)t;
        loop_stop(waiting->loop);
}

const json_t *builder_rig_step(struct builder_rig *g, json_t *spec, int second)
{
        static json_int_t req;
        struct timer late = {.on = rig_late};
        int fds[2] = {builder_rig_dial(g), second};
        json_t *msg = json_pack("{s:s, s:I, s:n, s:o}", "op", "step", "req", ++req, "token", "step", spec);

        json_decref(g->answer);
        g->answer = NULL;
        buf_reset(&g->log);
        g->log_entries = g->log_bytes = 0;
        if (!g->channel || !msg || channel_send(g->channel, msg, fds, second >= 0 ? 2 : 1) < 0)
                return NULL;
        close_fd(&fds[0]);
        waiting = g;
        timer_set(g->loop, &late, ANSWER_MS);
        (void)loop_run(g->loop);
        timer_clear(&late);
        if (!g->answer)
                printf("# no answer from the builder\n");
        return g->answer;
}

const char *builder_rig_error(const struct builder_rig *g)
{
        const char *text = json_string_value(json_object_get(json_object_get(g->answer, "error"), "message"));

        if (json_is_true(json_object_get(g->answer, "ok")))
                return "";
        return text ? text : "(no answer)";
}

const char *builder_rig_kind(const struct builder_rig *g)
{
        const char *text = json_string_value(json_object_get(json_object_get(g->answer, "error"), "kind"));

        return text ? text : "";
}

bool builder_rig_logged(struct builder_rig *g, const char *line)
{
        const char *all = buf_cstr(&g->log), *at = all;
        size_t n = strlen(line);

        for (; at && (at = strstr(at, line)); at++)
                if ((at == all || at[-1] == '\n') && at[n] == '\n')
                        return true;
        printf("# not in the log: %s\n# the log: %.2000s\n", line, all ? all : "");
        return false;
}

bool builder_rig_limit(const struct builder_rig *g, unsigned mb)
{
        char cmd[256];

        (void)snprintf(cmd, sizeof(cmd), "nsenter --mount=/proc/%d/ns/mnt mount -o remount,size=%um %s", (int)g->envd,
                       mb, g->dir);
        return system(cmd) == 0;
}
