#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/destroy.h"
#include "engine/role.h"
#include "model/conf.h"
#include "model/ids.h"
#include "sys/fs.h"
#include "sys/proc.h"
#include "sys/scm.h"

#define ANSWER_MS 20000
#define SETTLE_ROUNDS 3000 /* of 10 ms */

const char *rig_reason_to_skip(void)
{
        if (geteuid() != 0)
                return "needs root";
        return NULL;
}

const char *rig_criu_dir(void)
{
        return getenv("SANDGLASS_CRIU_DIR");
}

/* ------------------------------------------------------------- the engine's process */

static int listen_at(const char *path)
{
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        if (fd < 0 || bind(fd, (struct sockaddr *)(void *)&a, sizeof(a)) < 0 || listen(fd, 64) < 0)
                return -1;
        return fd;
}

static int connect_to(const char *path)
{
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        if (fd < 0 || connect(fd, (struct sockaddr *)(void *)&a, sizeof(a)) < 0)
                return -1;
        return fd;
}

/* The engine then mounts as Linux 6.1 has it: namespaces.c. */
static bool use_old_mounts(const struct rig *g)
{
        char path[96];
        int fd;

        (void)snprintf(path, sizeof(path), "%s/data/stall", g->dir);
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return false;
        (void)snprintf(path, sizeof(path), "%s/data/stall/old-mounts", g->dir);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        return fd >= 0 && close(fd) == 0;
}

bool rig_open(struct rig *g, unsigned pool_size)
{
        static const char *const dirs[] = {"data",
                                           "images",
                                           "images/layers",
                                           "images/layers/base",
                                           "images/layers/base/tmp",
                                           "images/layers/base/run",
                                           "images/layers/base/proc",
                                           "images/layers/base/dev"};
        char path[160];

        *g = (struct rig){.listen_fd = -1, .dial_fd = -1, .channel = -1, .dial_channel = -1, .pool_size = pool_size};
        (void)snprintf(g->dir, sizeof(g->dir), "/tmp/sandglass-root-XXXXXX");
        if (!mkdtemp(g->dir))
                return false;
        for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
                (void)snprintf(path, sizeof(path), "%s/%s", g->dir, dirs[i]);
                if (mkdir(path, 0755) < 0)
                        return false;
        }
        (void)snprintf(path, sizeof(path), "%s/images/layers/base/tmp", g->dir);
        (void)chmod(path, 01777);
        (void)snprintf(g->sock, sizeof(g->sock), "%s/engine.sock", g->dir);
        (void)snprintf(g->dial_sock, sizeof(g->dial_sock), "%s/dial.sock", g->dir);
        g->listen_fd = listen_at(g->sock);
        g->dial_fd = listen_at(g->dial_sock);
        if (getenv("RIG_OLD_MOUNTS") && !use_old_mounts(g))
                return false;
        return g->listen_fd >= 0 && g->dial_fd >= 0;
}

static _Noreturn void run_engine(struct rig *g)
{
        char data[80], images[80];
        struct err err = {0};
        struct conf c;

        int keep[] = {g->listen_fd, g->dial_fd};

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)sys_close_except(keep, 2); /* what the test holds open is not the engine's */
        (void)snprintf(data, sizeof(data), "%s/data", g->dir);
        (void)snprintf(images, sizeof(images), "%s/images", g->dir);
        if (conf_defaults(&c, data, &err) < 0)
                _exit(9);
        free(c.images_dir);
        c.images_dir = strdup(images);
        c.pool_size = g->pool_size;
        c.warm_mb = g->warm_mb;
        c.warm_stall_ms = g->warm_stall_ms ? g->warm_stall_ms : c.warm_stall_ms;
        if (rig_criu_dir()) {
                free(c.criu_dir);
                c.criu_dir = strdup(rig_criu_dir());
        }
        c.default_memory_mb = 256;
        c.default_pids = 256;
        c.fds.engine = dup(g->listen_fd);
        c.fds.dial = dup(g->dial_fd);
        (void)fcntl(c.fds.engine, F_SETFD, FD_CLOEXEC);
        (void)fcntl(c.fds.dial, F_SETFD, FD_CLOEXEC);
        (void)close(g->listen_fd);
        (void)close(g->dial_fd);
        log_setup("engine", getenv("RIG_VERBOSE") ? LOG_DEBUG : LOG_ERROR);
        _exit(engine_main(&c));
}

static void hang_up(struct rig *g)
{
        close_fd(&g->channel);
        close_fd(&g->dial_channel);
}

void rig_reconnect(struct rig *g)
{
        hang_up(g);
        g->channel = connect_to(g->sock);
        g->dial_channel = connect_to(g->dial_sock);
}

bool rig_start(struct rig *g)
{
        hang_up(g);
        g->engine = fork();
        if (g->engine == 0)
                run_engine(g);
        rig_reconnect(g);
        return g->engine > 0 && g->channel >= 0 && g->dial_channel >= 0;
}

void rig_crash(struct rig *g)
{
        (void)kill(g->engine, SIGKILL);
        (void)waitpid(g->engine, NULL, 0);
        g->engine = 0;
        hang_up(g);
}

bool rig_stop(struct rig *g)
{
        int st = -1;

        json_decref(rig_info(g)); /* so that it is up, and knows what to do with a signal */
        hang_up(g);
        (void)kill(g->engine, SIGTERM);
        (void)waitpid(g->engine, &st, 0);
        g->engine = 0;
        return WIFEXITED(st) && WEXITSTATUS(st) == 0;
}

void rig_close(struct rig *g)
{
        AUTO_CLOSE int tmp = -1;
        struct err err = {0};
        char data[80];

        if (g->engine > 0)
                (void)rig_stop(g);
        close_fd(&g->listen_fd);
        close_fd(&g->dial_fd);
        (void)snprintf(data, sizeof(data), "%s/data", g->dir);
        if (engine_destroy_all(data, &err) < 0)
                printf("# destroy: %s\n", err.msg);
        tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (sys_remove_tree(tmp, g->dir + strlen("/tmp/")) < 0)
                printf("# %s is left\n", g->dir);
}

/* ------------------------------------------------------------- messages */

static void send_message(int fd, json_t *msg)
{
        char *text = json_dumps(msg, JSON_COMPACT);
        size_t len = strlen(text), done = 0;
        char *frame = malloc(len + 5);

        frame[0] = (char)(len >> 24);
        frame[1] = (char)(len >> 16);
        frame[2] = (char)(len >> 8);
        frame[3] = (char)len;
        frame[4] = 0;
        memcpy(frame + 5, text, len);
        while (done < len + 5) {
                ssize_t n = send(fd, frame + done, len + 5 - done, MSG_NOSIGNAL);

                if (n <= 0)
                        break;
                done += (size_t)n;
        }
        free(frame);
        free(text);
        json_decref(msg);
}

static bool read_exactly(int fd, uint8_t *p, size_t n, int *ret_passed)
{
        while (n > 0) {
                struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
                int got[4];
                size_t ngot = 0;
                ssize_t r;

                if (poll(&poll_fd, 1, ANSWER_MS) != 1)
                        return false;
                r = scm_recv(fd, p, n, got, 4, &ngot);
                if (r <= 0)
                        return false;
                for (size_t i = 0; i < ngot; i++)
                        if (i == 0 && *ret_passed < 0)
                                *ret_passed = got[i];
                        else
                                (void)close(got[i]);
                p += r;
                n -= (size_t)r;
        }
        return true;
}

static json_t *receive(int fd, int *ret_passed)
{
        uint8_t head[5];
        size_t len;
        uint8_t *text;
        json_t *msg;

        *ret_passed = -1;
        if (!read_exactly(fd, head, sizeof(head), ret_passed))
                return NULL;
        len = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
        text = malloc(len + 1);
        msg = read_exactly(fd, text, len, ret_passed) ? json_loadb((char *)text, len, 0, NULL) : NULL;
        free(text);
        return msg;
}

void rig_send(struct rig *g, json_t *msg)
{
        (void)json_object_set_new(msg, "req", json_integer(++g->req));
        send_message(g->channel, msg);
}

json_t *rig_receive(struct rig *g)
{
        int passed;
        json_t *msg = receive(g->channel, &passed);

        close_fd(&passed);
        return msg;
}

json_t *rig_call(struct rig *g, json_t *msg)
{
        json_t *answer;

        if (g->channel < 0) {
                json_decref(msg);
                return NULL;
        }
        rig_send(g, msg);
        for (;;) { /* facts may come in between */
                answer = rig_receive(g);
                if (!answer || json_integer_value(json_object_get(answer, "req")) == g->req)
                        return answer;
                json_decref(answer);
        }
}

static const char *outcome(json_t *answer)
{
        static char why[400];
        json_t *e = json_object_get(answer, "error");

        if (answer && json_is_true(json_object_get(answer, "ok"))) {
                json_decref(answer);
                return NULL;
        }
        (void)snprintf(why, sizeof(why), "%s: %s", e ? json_string_value(json_object_get(e, "kind")) : "gone",
                       e ? json_string_value(json_object_get(e, "message")) : "the engine hung up");
        json_decref(answer);
        return why;
}

json_t *rig_plan(const char *id)
{
        return json_pack("{s:s,s:[s],s:{s:i,s:i,s:i},s:{s:b,s:[],s:[]},s:{s:s}}", "id", id, "layers", "base", "limits",
                         "memory_bytes", 256 << 20, "cpu_count", 2, "pids", 256, "net", "internet", 1, "allow", "deny",
                         "init", "sandboxID", id);
}

const char *rig_create(struct rig *g, json_t *plan)
{
        return outcome(rig_call(g, json_pack("{s:s,s:o}", "op", "create", "plan", plan)));
}

const char *rig_kill(struct rig *g, const char *id)
{
        return outcome(rig_call(g, json_pack("{s:s,s:s}", "op", "kill", "id", id)));
}

const char *rig_pause(struct rig *g, const char *id, const char *checkpoint)
{
        return outcome(rig_call(g, json_pack("{s:s,s:s,s:s?}", "op", "pause", "id", id, "checkpoint", checkpoint)));
}

const char *rig_seal(struct rig *g, const char *id, const char *layer)
{
        return outcome(rig_call(g, json_pack("{s:s,s:s,s:s}", "op", "seal", "id", id, "layer", layer)));
}

const char *rig_drop(struct rig *g, const char *checkpoint, const char *layer)
{
        json_t *checkpoints = json_array(), *layers = json_array();

        if (checkpoint)
                (void)json_array_append_new(checkpoints, json_string(checkpoint));
        if (layer)
                (void)json_array_append_new(layers, json_string(layer));
        return outcome(
                rig_call(g, json_pack("{s:s,s:o,s:o}", "op", "drop", "checkpoints", checkpoints, "layers", layers)));
}

const char *rig_forget(struct rig *g, const char *id)
{
        return outcome(rig_call(g, json_pack("{s:s,s:[s]}", "op", "drop", "sandboxes", id)));
}

const char *rig_state(struct rig *g, const char *id)
{
        json_t *answer = rig_call(g, json_pack("{s:s}", "op", "list")), *one;
        static char state[32];
        size_t i;
        bool is_found = false;

        json_array_foreach (json_object_get(answer, "sandboxes"), i, one)
                if (strcmp(json_string_value(json_object_get(one, "id")), id) == 0) {
                        is_found = true;
                        (void)snprintf(state, sizeof(state), "%s", json_string_value(json_object_get(one, "state")));
                }
        json_decref(answer);
        return is_found ? state : NULL;
}

void rig_dial_send(struct rig *g, const char *id, unsigned port)
{
        send_message(g->dial_channel,
                     json_pack("{s:s,s:I,s:s,s:i}", "op", "dial", "req", ++g->req, "id", id, "port", (int)port));
}

int rig_dial_receive(struct rig *g)
{
        int fd = -1;

        (void)outcome(receive(g->dial_channel, &fd));
        return fd;
}

int rig_dial(struct rig *g, const char *id, unsigned port)
{
        rig_dial_send(g, id, port);
        return rig_dial_receive(g);
}

const char *rig_dial_refusal(struct rig *g, const char *id, unsigned port)
{
        int fd = -1;

        rig_dial_send(g, id, port);
        return outcome(receive(g->dial_channel, &fd));
}

const char *rig_run(struct rig *g, const char *id, const char *command)
{
        static char text[65536];
        size_t have = 0;
        AUTO_CLOSE int fd = rig_dial(g, id, ENVD_PORT);

        if (fd < 0)
                return "not reachable";
        (void)fcntl(fd, F_SETFL, O_RDWR);
        if (dprintf(fd, "%s\n", command) < 0)
                return "not writable";
        while (have < sizeof(text) - 1) {
                ssize_t n = read(fd, text + have, sizeof(text) - 1 - have);

                if (n <= 0)
                        break;
                have += (size_t)n;
        }
        text[have] = '\0';
        return text;
}

json_t *rig_info(struct rig *g)
{
        return rig_call(g, json_pack("{s:s}", "op", "info"));
}

static void pause_ms(long ms) /* between two looks at something that has no event */
{
        const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

        (void)nanosleep(&t, NULL);
}

void rig_wait_pool(struct rig *g)
{
        for (int i = 0; i < SETTLE_ROUNDS; i++) {
                json_t *info = rig_info(g);
                json_int_t ready = json_integer_value(json_object_get(info, "pool_ready"));

                json_decref(info);
                if (!info || ready == g->pool_size)
                        return;
                pause_ms(10);
        }
}

static pid_t find_child(pid_t of, const char *name)
{
        DIR *d = opendir("/proc");
        struct dirent *e;
        pid_t found = 0;
        char whole[32]; /* one name may begin like another */

        (void)snprintf(whole, sizeof(whole), "(%s)", name);
        while (d && !found && (e = readdir(d))) {
                char path[300], text[512], *at;
                uint32_t pid;
                int parent = 0;

                (void)snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
                if (parse_u32(str_of(e->d_name), 2, INT32_MAX, &pid) < 0 ||
                    sys_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
                        continue;
                at = strrchr(text, ')');
                if (at && strstr(text, whole) && sscanf(at, ") %*c %d", &parent) == 1 && parent == of)
                        found = (pid_t)pid;
        }
        if (d)
                (void)closedir(d);
        return found;
}

pid_t rig_helper(struct rig *g, const char *name)
{
        return find_child(g->engine, name);
}

bool rig_hold(pid_t pid)
{
        char path[48], text[512], *at = NULL;

        if (pid <= 1 || kill(pid, SIGSTOP) < 0)
                return false;
        (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        for (int i = 0; i < SETTLE_ROUNDS; i++) {
                at = sys_read_at(AT_FDCWD, path, text, sizeof(text)) < 0 ? NULL : strrchr(text, ')');
                if (at && strncmp(at, ") T", 3) == 0)
                        return true;
                pause_ms(10);
        }
        return false;
}

static pid_t child_of_vault(struct rig *g, const char *name)
{
        pid_t job_queue = rig_helper(g, "sg-job-queue");

        return job_queue ? find_child(job_queue, name) : 0;
}

pid_t rig_job_process(struct rig *g)
{
        return child_of_vault(g, "sg-job");
}

pid_t rig_spare(struct rig *g)
{
        return child_of_vault(g, "sg-job-spare");
}

/* ------------------------------------------------------------- counting */

static long count_dir(const char *path, const char *prefix)
{
        DIR *d = opendir(path);
        struct dirent *e;
        long n = 0;

        while (d && (e = readdir(d)))
                n += e->d_name[0] != '.' && strncmp(e->d_name, prefix, strlen(prefix)) == 0;
        if (d)
                (void)closedir(d);
        return n;
}

static long count_lines(const char *path, const char *with)
{
        FILE *f = fopen(path, "re");
        char line[4096];
        long n = 0;

        while (f && fgets(line, sizeof(line), f))
                n += strstr(line, with) != NULL;
        if (f)
                (void)fclose(f);
        return n;
}

/* Which share of the machine the data directory has: others may be at work beside us.  -1: none. */
static int instance_of(struct rig *g)
{
        const char *identity;
        char path[96], holder[64];
        json_t *note;
        int n;

        (void)snprintf(path, sizeof(path), "%s/data/engine.json", g->dir);
        note = json_load_file(path, 0, NULL);
        n = note ? (int)json_integer_value(json_object_get(note, "instance")) : -1;
        identity = json_string_value(json_object_get(note, "identity"));
        (void)snprintf(path, sizeof(path), "/run/sandglass/instance-%d", n);
        if (!identity || sys_read_at(AT_FDCWD, path, holder, sizeof(holder)) < 0 || strcmp(holder, identity) != 0)
                n = -1; /* given up when there was nothing left of us, and another's by now */
        json_decref(note);
        return n;
}

static void count_cgroups(int instance, struct leak_count *c)
{
        static const char *const at[] = {"", "/unified", "/memory", "/pids", "/cpu", "/freezer", "/cpu,cpuacct"};

        for (size_t i = 0; i < ARRAY_LEN(at); i++) {
                char path[400];
                struct dirent *e;
                DIR *d;

                (void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s/sandglass-%d", at[i], instance);
                d = opendir(path);
                while (d && (e = readdir(d))) {
                        if (e->d_type != DT_DIR || e->d_name[0] == '.')
                                continue;
                        c->cgroups++;
                        (void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s/sandglass-%d/%s/cgroup.procs", at[i],
                                       instance, e->d_name);
                        c->processes += count_lines(path, "");
                }
                if (d)
                        (void)closedir(d);
        }
}

static long count_files(const struct rig *g)
{
        static const char *const places[] = {"sandboxes", "trash", "checkpoints", "sealed"};
        char text[160];
        long n = 0;

        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
                (void)snprintf(text, sizeof(text), "%s/data/%s", g->dir, places[i]);
                n += count_dir(text, "");
        }
        return n;
}

void rig_wait_files(const struct rig *g, long at_most)
{
        for (int i = 0; i < SETTLE_ROUNDS && count_files(g) > at_most; i++)
                pause_ms(10);
}

static struct leak_count count_now(struct rig *g)
{
        int instance = instance_of(g);
        struct leak_count c = {.mounts = count_lines("/proc/self/mounts", g->dir)};
        char text[160];

        if (g->engine > 0) { /* what hangs on its stage: mount_stage.h */
                (void)snprintf(text, sizeof(text), "/proc/%d/mounts", (int)g->engine);
                c.mounts += count_lines(text, "/run/sandglass/mounts/");
        }
        if (instance >= 0) {
                count_cgroups(instance, &c);
                (void)snprintf(text, sizeof(text), "sg%d-", instance);
                c.links = count_dir("/sys/class/net", text);
        }
        c.files = count_files(g);
        if (g->engine > 0) {
                (void)snprintf(text, sizeof(text), "/proc/%d/fd", g->engine);
                c.fds = count_dir(text, "");
        }
        return c;
}

pid_t rig_newest_process(struct rig *g)
{
        char path[128];
        pid_t newest = 0;
        int instance = instance_of(g);

        for (unsigned slot = 0; slot < 4096; slot++) {
                FILE *f;
                int pid;

                (void)snprintf(path, sizeof(path), "/sys/fs/cgroup/pids/sandglass-%d/%u/cgroup.procs", instance, slot);
                f = fopen(path, "re");
                if (!f) {
                        (void)snprintf(path, sizeof(path), "/sys/fs/cgroup/sandglass-%d/%u/cgroup.procs", instance,
                                       slot);
                        f = fopen(path, "re");
                }
                if (f && fscanf(f, "%d", &pid) == 1 && pid > newest)
                        newest = pid;
                if (f)
                        (void)fclose(f);
        }
        return newest;
}

/* Less is fine: what an earlier case left to be cleaned may have been part of the count before. */
static bool no_more(const struct leak_count *a, const struct leak_count *b)
{
        return a->processes <= b->processes && a->mounts <= b->mounts && a->cgroups <= b->cgroups &&
               a->links <= b->links && a->fds <= b->fds && a->files <= b->files;
}

struct leak_count rig_count(struct rig *g, const struct leak_count *want)
{
        struct leak_count c = count_now(g);

        for (int i = 0; want && !no_more(&c, want) && i < SETTLE_ROUNDS; i++) {
                pause_ms(10);
                c = count_now(g);
        }
        return c;
}

bool leak_none(const struct leak_count *a, const struct leak_count *b)
{
        if (no_more(a, b))
                return true;
        printf("# processes %ld/%ld mounts %ld/%ld cgroups %ld/%ld links %ld/%ld fds %ld/%ld files %ld/%ld\n",
               a->processes, b->processes, a->mounts, b->mounts, a->cgroups, b->cgroups, a->links, b->links, a->fds,
               b->fds, a->files, b->files);
        return false;
}
