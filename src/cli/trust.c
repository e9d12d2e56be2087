#include "cli/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/conf.h"
#include "cli/options.h"
#include "sys/fs.h"
#include "wire/sha256.h"

#define UPDATE_PROGRAM "/usr/sbin/update-ca-certificates"
#define CERTUTIL_PROGRAM "/usr/bin/certutil"
#define PEM_MAX (16u << 10)
#define PATH_ROOM 4096

const char trust_usage[] =
        "usage: sandglass trust [--undo] [--data DIR]\n"
        "Add the certificate of the server's local authority to those this system trusts, so that curl, Python and\n"
        "others open https://<port>-<sandbox>.<domain> without a warning.  --undo removes the certificate.  Needs "
        "root.\n"
        "Chromium has its own store.  If the user (under sudo: the user who called sudo) has such a store, and\n"
        "certutil is installed, the certificate is added there, too.\n";

struct trust {
        char name[TRUST_NAME_MAX];
        char source[PATH_ROOM]; /* the authority's certificate */
        char target[128];       /* its copy in the system's store */
        char nss[PATH_ROOM];    /* the user's NSS database, as certutil wants it; empty: none */
        uid_t uid;              /* the user */
        gid_t gid;
};

void trust_name(const char *data_dir, char out[TRUST_NAME_MAX])
{
        AUTO_FREE char *real = realpath(data_dir, NULL);
        char hex[SHA256_HEX_LEN + 1];

        sha256_hex(str_of(real ? real : data_dir), hex);
        (void)snprintf(out, TRUST_NAME_MAX, "sandglass-%.8s", hex);
}

static int set_paths(struct trust *t, const char *data_dir, struct err *err)
{
        int n = snprintf(t->source, sizeof(t->source), "%s/ca/ca.pem", data_dir);

        if (n < 0 || (size_t)n >= sizeof(t->source))
                return err_set(err, ERR_INVALID, "--data: too long");
        trust_name(data_dir, t->name);
        (void)snprintf(t->target, sizeof(t->target), "%s/%s.crt", TRUST_STORE, t->name);
        return 0;
}

bool trust_is_installed(const char *data_dir)
{
        char ours[PEM_MAX], theirs[PEM_MAX];
        struct err err = {0};
        struct trust t;
        ssize_t n;

        if (set_paths(&t, data_dir, &err) < 0)
                return false;
        n = sys_read_at(AT_FDCWD, t.source, ours, sizeof(ours));
        return n > 0 && sys_read_at(AT_FDCWD, t.target, theirs, sizeof(theirs)) == n &&
               memcmp(ours, theirs, (size_t)n) == 0;
}

/* Whose browser it is: under sudo the caller's, with the home directory of the password file. */
static void find_nss(struct trust *t)
{
        struct cli_user user = cli_user();
        const struct passwd *pw = user.is_sudo ? getpwuid(user.uid) : NULL;
        const char *home = pw ? pw->pw_dir : user.home;
        struct stat st;
        int n;

        t->uid = user.uid;
        t->gid = pw ? pw->pw_gid : getgid();
        n = home ? snprintf(t->nss, sizeof(t->nss), "sql:%s/.pki/nssdb", home) : 0;
        if (n <= 0 || (size_t)n >= sizeof(t->nss) || stat(t->nss + 4, &st) < 0 || st.st_uid != t->uid)
                t->nss[0] = 0;
}

/* Run a program, quietly when asked to, as the user when not as root: its exit code, or a negative errno. */
static int run_program(const struct trust *t, bool as_user, bool is_quiet, char *const argv[])
{
        int status;
        pid_t pid;

        (void)fflush(stdout);
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                if (as_user && geteuid() == 0 && t->uid != 0 &&
                    (setgroups(0, NULL) < 0 || setgid(t->gid) < 0 || setuid(t->uid) < 0))
                        _exit(126);
                if (is_quiet) {
                        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

                        if (null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
                                _exit(126);
                }
                (void)execv(argv[0], argv);
                _exit(127);
        }
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

static int update_store(const struct trust *t, struct err *err)
{
        char *argv[] = {UPDATE_PROGRAM, NULL};
        int r = run_program(t, false, true, argv);

        if (r == 0) {
                (void)printf("ran update-ca-certificates\n");
                return 0;
        }
        return err_set(err, ERR_INTERNAL, "update-ca-certificates failed (%d): run it to see why", r);
}

static int check_possible(struct err *err)
{
        if (geteuid() != 0)
                return err_set(err, ERR_DENIED, "needs root, the certificates are the system's: sudo sandglass trust");
        if (access(UPDATE_PROGRAM, X_OK) < 0)
                return err_set(err, ERR_UNAVAILABLE,
                               "no update-ca-certificates on this system: apt-get install ca-certificates");
        return 0;
}

static int trust_install(const struct trust *t, const char *data_dir, struct err *err)
{
        AUTO_CLOSE int store = -1;
        char pem[PEM_MAX];
        ssize_t n = sys_read_at(AT_FDCWD, t->source, pem, sizeof(pem));
        int r;

        if (n == -ENOENT)
                return err_set(err, ERR_NOT_FOUND,
                               "no local authority in '%s': either no server has been started there (--data says "
                               "where), or the server uses a certificate of your own",
                               data_dir);
        if (n < 0)
                return err_sys(err, (int)n, "read '%s'", t->source);
        if (!memmem(pem, (size_t)n, "-----BEGIN CERTIFICATE-----", 27))
                return err_set(err, ERR_INVALID, "'%s' holds no certificate", t->source);
        (void)mkdir(TRUST_STORE, 0755);
        store = open(TRUST_STORE, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        r = store < 0 ? -errno : sys_replace_at(store, strrchr(t->target, '/') + 1, pem, (size_t)n, 0644);
        if (r < 0)
                return err_sys(err, r, "write '%s'", t->target);
        (void)printf("copied %s to %s\n", t->source, t->target);
        return update_store(t, err);
}

static int uninstall(const struct trust *t, struct err *err)
{
        if (unlink(t->target) == 0)
                (void)printf("removed %s\n", t->target);
        else if (errno == ENOENT)
                (void)printf("%s was not there\n", t->target);
        else
                return err_sys(err, -errno, "remove '%s'", t->target);
        return update_store(t, err);
}

/* The user's browser: what fails here is told, and no failure of the command. */
static void tell_browser(struct trust *t, bool is_undo)
{
        char *add[] = {CERTUTIL_PROGRAM, "-d", t->nss, "-A", "-t", "C,,", "-n", t->name, "-i", t->target, NULL};
        char *del[] = {CERTUTIL_PROGRAM, "-d", t->nss, "-D", "-n", t->name, NULL};
        bool has_certutil = access(CERTUTIL_PROGRAM, X_OK) == 0;

        if (t->nss[0] && has_certutil) {
                bool was_there = run_program(t, true, true, del) == 0; /* an older one of the same name */

                if (is_undo && !was_there)
                        return;
                if (is_undo)
                        (void)printf("removed %s from %s\n", t->name, t->nss + 4);
                else if (run_program(t, true, false, add) == 0)
                        (void)printf("added the certificate as %s to Chromium's store %s\n", t->name, t->nss + 4);
                else
                        (void)printf("could not add the certificate to Chromium's store %s\n", t->nss + 4);
                return;
        }
        if (is_undo)
                return;
        (void)printf("\nChromium and Chrome have their own store%s:\n"
                     "  %smkdir -p ~/.pki/nssdb && certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n %s -i %s\n",
                     has_certutil ? "" : ", which certutil writes",
                     has_certutil ? "" : "apt-get install libnss3-tools; ", t->name, t->target);
}

static void tell_rest(const struct trust *t, const char *data_dir, bool is_undo)
{
        if (is_undo) {
                (void)printf("The local authority of %s is no longer trusted.\n", data_dir);
                return;
        }
        (void)printf("\nNode does not read the system's store: set NODE_EXTRA_CA_CERTS=%s\n"
                     "To undo all of this: sandglass trust --undo --data %s\n",
                     t->source, data_dir);
}

int trust_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        AUTO_FREE char *real = NULL;
        const char *data_dir;
        struct err err = {0};
        struct trust t = {0};
        int r;

        if (cli_options_parse(argc, argv, CLI_DATA | CLI_UNDO, &o, &err) < 0 || o.help || o.arg_count)
                return cli_usage(&o, trust_usage, &err);
        data_dir = o.data ? o.data : CLI_DEFAULT_DATA;
        real = realpath(data_dir, NULL);
        data_dir = real ? real : data_dir;
        r = check_possible(&err);
        if (r == 0)
                r = set_paths(&t, data_dir, &err);
        if (r == 0)
                r = o.undo ? uninstall(&t, &err) : trust_install(&t, data_dir, &err);
        if (r < 0) {
                (void)fprintf(stderr, "sandglass trust: %s\n", err.msg);
                return 1;
        }
        find_nss(&t);
        tell_browser(&t, o.undo);
        tell_rest(&t, data_dir, o.undo);
        return 0;
}
