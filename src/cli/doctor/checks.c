#include "cli/doctor/checks.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/conf.h"
#include "cli/doctor/kvm.h"
#include "cli/trust.h"
#include "engine/criu/criu_find.h"
#include "engine/records/lost_note.h"
#include "sys/fs.h"
#include "sys/mnt.h"

#define DISK_WANTED_GB 5u

void check_say(struct check_result *r, enum check_state state, const char *fix, const char *fmt, ...)
{
        va_list ap;

        r->state = state;
        r->fix = fix;
        va_start(ap, fmt);
        (void)vsnprintf(r->detail, sizeof(r->detail), fmt, ap);
        va_end(ap);
}

/* Try it in a child, which may change its namespaces and leave everything to the kernel to clean up: 0 or the errno. */
static int try_in_child(int (*fn)(const void *arg), const void *arg)
{
        int status;
        pid_t pid = fork();

        if (pid < 0)
                return errno;
        if (pid == 0)
                _exit(fn(arg) & 0x7f);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                continue;
        return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

/* A user namespace held by a child that waits, mapped to some other range. */
static int userns_open(pid_t *ret_pid)
{
        int ends[2], fd = -1;
        char path[48], byte;
        pid_t pid;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        pid = fork();
        if (pid == 0) {
                if (unshare(CLONE_NEWUSER) < 0)
                        _exit(1);
                (void)!write(ends[1], "x", 1);
                (void)pause();
                _exit(0);
        }
        (void)close(ends[1]);
        if (pid > 0 && read(ends[0], &byte, 1) == 1) {
                (void)snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
                (void)sys_write_at(AT_FDCWD, path, "0 100000 65536");
                (void)snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
                (void)sys_write_at(AT_FDCWD, path, "0 100000 65536");
                (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
                fd = open(path, O_RDONLY | O_CLOEXEC);
        }
        (void)close(ends[0]);
        *ret_pid = pid;
        return fd < 0 ? -EPERM : fd;
}

/* The nearest directory that exists, above what may not exist yet. */
static char *existing_dir(const char *path)
{
        char *at = strdup(path), *slash;

        while (at && access(at, F_OK) < 0 && (slash = strrchr(at, '/')))
                slash[slash == at ? 1 : 0] = 0;
        if (!at || access(at, F_OK) == 0)
                return at;
        free(at); /* the first of several names, below the working directory */
        return strdup(".");
}

static int try_idmap(const void *arg)
{
        AUTO_CLOSE int mount = -1, ns = -1;
        pid_t holder = 0;
        int r;

        ns = userns_open(&holder);
        mount = ns < 0 ? ns : sys_clone_tree(AT_FDCWD, arg);
        r = mount < 0 ? mount : sys_mount_idmap(mount, ns);
        if (holder > 0) {
                (void)kill(holder, SIGKILL);
                (void)waitpid(holder, NULL, 0);
        }
        return -r;
}

static void check_idmap(const char *path, struct check_result *ret)
{
        AUTO_FREE char *dir = existing_dir(path);
        int e = dir ? try_in_child(try_idmap, dir) : ENOMEM;

        if (e == EPERM && geteuid() != 0)
                check_say(ret, CHECK_NOTE, NULL, "only root can try");
        else if (e == 0)
                check_say(ret, CHECK_OK, NULL, "the file system of %s can be idmapped", dir);
        else
                check_say(
                        ret, CHECK_MISSING,
                        "put the directory on ext4, XFS or btrfs with a kernel of 5.12 or newer (overlay on it: 5.19)",
                        "the file system of %s cannot be idmapped: %s", dir ? dir : "?", strerror(e));
}

static void check_data(const struct check_env *env, struct check_result *ret)
{
        check_idmap(env->data_dir, ret);
}

static void check_images(const struct check_env *env, struct check_result *ret)
{
        check_idmap(env->images_dir, ret);
}

static void check_disk(const struct check_env *env, struct check_result *ret)
{
        AUTO_FREE char *dir = existing_dir(env->data_dir);
        struct statvfs st;
        unsigned long long gb;

        if (!dir || statvfs(dir, &st) < 0) {
                check_say(ret, CHECK_NOTE, "make the data directory's file system readable", "%s: %s", dir ? dir : "?",
                          strerror(errno));
                return;
        }
        gb = (unsigned long long)st.f_bavail * st.f_frsize >> 30;
        if (gb >= DISK_WANTED_GB)
                check_say(ret, CHECK_OK, NULL, "%llu GiB free at %s", gb, dir);
        else
                check_say(ret, CHECK_NOTE, "free some space: the base template alone takes about 1 GiB",
                          "only %llu GiB free at %s", gb, dir);
}

/* What lies aside is kept for a while only: somebody should look at it. */
static void check_lost(const struct check_env *env, struct check_result *ret)
{
        AUTO_CLOSE int data = open(env->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct lost_count n = {0};
        int r = data < 0 ? 0 : lost_count(data, &n); /* no data directory: nothing was lost */

        if (r < 0)
                check_say(ret, CHECK_NOTE, NULL, "%s", r == -EACCES ? "only root can look" : strerror(-r));
        else if (n.of[LOST_SANDBOX] + n.of[LOST_CHECKPOINT] + n.of[LOST_LAYER] == 0)
                check_say(ret, CHECK_OK, NULL, "nothing was lost");
        else
                check_say(ret, CHECK_NOTE,
                          "`sandglass lost` lists, restores or removes them; the server removes them after `lost_days`",
                          "%u sandboxes, %u checkpoints, %u layers that the database does not know are in %s/" LOST_DIR,
                          n.of[LOST_SANDBOX], n.of[LOST_CHECKPOINT], n.of[LOST_LAYER], env->data_dir);
}

static void check_template(const struct check_env *env, struct check_result *ret)
{
        AUTO_FREE char *manifest = NULL;

        if (asprintf(&manifest, "%s/templates/base.json", env->images_dir) > 0 && access(manifest, F_OK) == 0)
                check_say(ret, CHECK_OK, NULL, "base is in %s", env->images_dir);
        else if (access("/usr/bin/mmdebstrap", X_OK) == 0)
                check_say(ret, CHECK_OK, NULL, "base is not in %s yet; mmdebstrap is there to make it at first start",
                          env->images_dir);
        else
                check_say(
                        ret, CHECK_MISSING,
                        "apt-get install mmdebstrap debian-archive-keyring; --images DIR if the template is elsewhere",
                        "base is not in %s, and mmdebstrap, which makes it, is not installed", env->images_dir);
}

static void check_port(uint16_t port, struct check_result *ret)
{
        const struct sockaddr_in at = {
                .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int on = 1;

        if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
            bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0)
                check_say(ret, CHECK_OK, NULL, "127.0.0.1:%u is free", port);
        else
                check_say(ret, CHECK_NOTE,
                          "fine while a server runs; otherwise use --listen and --tls-listen with other ports",
                          "127.0.0.1:%u: %s", port, strerror(errno));
}

static void check_http_port(const struct check_env *env, struct check_result *ret)
{
        (void)env;
        check_port(3000, ret);
}

static void check_https_port(const struct check_env *env, struct check_result *ret)
{
        (void)env;
        check_port(3443, ret);
}

static bool is_loopback(const struct sockaddr *a)
{
        if (a->sa_family == AF_INET6)
                return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
        return a->sa_family == AF_INET &&
               ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
}

/* Where names of sandboxes below this domain lead, as an ordinary program would find out: NULL, or what is wrong. */
static const char *name_fault(const char *domain, bool must_be_here)
{
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        struct addrinfo *list = NULL;
        bool is_here = true;
        char name[300];
        int r;

        (void)snprintf(name, sizeof(name), "3000-i0123456789.%.*s", (int)strcspn(domain, ":"), domain);
        r = getaddrinfo(name, NULL, &hints, &list);
        if (r != 0)
                return gai_strerror(r);
        for (const struct addrinfo *a = list; a; a = a->ai_next)
                is_here = is_here && is_loopback(a->ai_addr);
        freeaddrinfo(list);
        return must_be_here && !is_here ? "is another machine" : NULL;
}

/* Clients reach a port of a sandbox by name.  Browsers know .localhost by themselves, other programs ask the system. */
static void check_names(const struct check_env *env, struct check_result *ret)
{
        const char *fault = name_fault("localhost", true);

        (void)env;
        if (!fault)
                check_say(ret, CHECK_OK, NULL, "*.localhost is this machine");
        else
                check_say(ret, CHECK_NOTE,
                          "apt-get install libnss-myhostname, or use a --domain with a wildcard DNS entry",
                          "*.localhost: %s; browsers work, but other programs cannot reach ports by name", fault);
}

static void check_domain(const struct check_env *env, struct check_result *ret)
{
        AUTO(envfile_done) struct envfile conf = {0};
        struct err err = {0};
        const char *fault;
        size_t n;

        if (cli_conf(env->data_dir, &conf, &err) < 0 || !conf.domain) {
                check_say(ret, CHECK_OK, NULL, "not known yet: %s",
                          err.kind == ERR_UNAVAILABLE ? "no server was started there" : err.msg);
                return;
        }
        n = strcspn(conf.domain, ":");
        if (str_iis((struct str){conf.domain, n}, "localhost")) {
                check_say(ret, CHECK_OK, NULL, "%s", conf.domain);
                return;
        }
        fault = name_fault(conf.domain, n > 10 && strncasecmp(conf.domain + n - 10, ".localhost", 10) == 0);
        if (!fault)
                check_say(ret, CHECK_OK, NULL, "*.%s resolves", conf.domain);
        else
                check_say(ret, CHECK_NOTE, "add a wildcard DNS entry for the domain", "*.%s: %s", conf.domain, fault);
}

static void check_trust(const struct check_env *env, struct check_result *ret)
{
        AUTO_FREE char *ca = NULL;

        if (asprintf(&ca, "%s/ca/ca.pem", env->data_dir) < 0 || access(ca, F_OK) < 0)
                check_say(ret, CHECK_OK, NULL, "no local authority in %s", env->data_dir);
        else if (trust_is_installed(env->data_dir))
                check_say(ret, CHECK_OK, NULL, "this system trusts %s", ca);
        else
                check_say(ret, CHECK_NOTE,
                          "sandglass trust --data DIR; programs that use the exports of DIR/env do not need it",
                          "this system does not trust %s", ca);
}

static int prove_criu(const struct criu_place *p, const char *scratch, struct err *err)
{
        const struct criu_tool tool = criu_place_tool(p);

        return criu_prove(&tool, scratch, err);
}

/* The private copy before the host's, by doing it: dump and restore of two processes, in a directory of its own. */
static int try_criu(const char *criu_dir, struct criu_place *ret, struct err *err)
{
        char scratch[] = "/tmp/sandglass-doctor-XXXXXX";
        AUTO_CLOSE int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct err host = {0};
        int r;

        if (!mkdtemp(scratch) || chmod(scratch, 0711) < 0)
                return err_sys(err, -errno, "make a directory in /tmp");
        r = criu_find_private(criu_dir, ret, err);
        if (r == 0)
                r = prove_criu(ret, scratch, err);
        if (r < 0) { /* as `serve` does */
                criu_place_done(ret);
                if (criu_find_host(scratch, ret, &host) == 0)
                        r = prove_criu(ret, scratch, &host);
        }
        (void)sys_remove_tree(tmp, scratch + strlen("/tmp/"));
        return r;
}

static void check_criu(const struct check_env *env, struct check_result *ret)
{
        static const char fix[] =
                "sandglass criu --data DIR (or --criu DIR) fetches one that works; needed only to pause with memory";
        AUTO(criu_place_done) struct criu_place p = {0};
        AUTO_FREE char *full = realpath(env->criu_dir, NULL);
        struct err err = {0};

        if (geteuid() != 0)
                check_say(ret, CHECK_NOTE, NULL, "only root can try");
        else if (try_criu(full ? full : env->criu_dir, &p, &err) < 0)
                check_say(ret, CHECK_NOTE, fix, "%s", err.msg);
        else
                check_say(ret, CHECK_OK, NULL, "%s dumped and restored two processes",
                          p.dir ? p.dir : criu_host_program());
}

static void check_kvm(const struct check_env *env, struct check_result *ret)
{
        int r = kvm_try();

        (void)env;
        if (r == 0)
                check_say(ret, CHECK_OK, NULL, "a virtual machine ran a program at full speed");
        else
                check_say(ret, CHECK_NOTE, NULL, "not usable (%s); sandboxes use namespaces and do not need KVM",
                          r == -ENOENT      ? "no /dev/kvm"
                          : r == -ETIMEDOUT ? "/dev/kvm opens, but virtual machines are very slow"
                                            : strerror(-r));
}

const struct check checks[] = {
        {"data directory", check_data},
        {"image directory", check_images},
        {"disk", check_disk},
        {"lost", check_lost},
        {"template", check_template},
        {"port 3000", check_http_port},
        {"port 3443", check_https_port},
        {"names", check_names},
        {"domain", check_domain},
        {"trust", check_trust},
        {"CRIU", check_criu},
        {"KVM", check_kvm},
        {NULL, NULL},
};
