#include "engine/criu/criu_find.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/criu/criu_proof.h"

#define SHIM "sandglass-criu-shim.so"

void criu_place_done(struct criu_place *p)
{
        free(p->dir);
        free(p->shim);
        free(p->run_dir);
        *p = (struct criu_place){0};
}

struct criu_tool criu_place_tool(const struct criu_place *p)
{
        return (struct criu_tool){.dir = p->dir, .shim = p->shim, .run_dir = p->run_dir};
}

const char *criu_host_program(void)
{
        static const char *const places[] = {"/usr/sbin/criu", "/usr/local/sbin/criu", "/usr/bin/criu"};

        for (size_t i = 0; i < ARRAY_LEN(places); i++)
                if (access(places[i], X_OK) == 0)
                        return places[i];
        return NULL;
}

/* Beside our own binary, or where `make install` puts it. */
static char *find_shim(void)
{
        static const char *const places[] = {SHIM, "../libexec/sandglass/" SHIM};
        char self[PATH_MAX], path[PATH_MAX + 64];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        char *found = NULL;

        if (n <= 0)
                return NULL;
        self[n] = '\0';
        *strrchr(self, '/') = '\0';
        for (size_t i = 0; i < ARRAY_LEN(places) && !found; i++) {
                (void)snprintf(path, sizeof(path), "%s/%s", self, places[i]);
                found = realpath(path, NULL);
        }
        return found;
}

/* Root runs what is in there. */
static int check_owner(const char *path, struct err *err)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return err_set(err, ERR_UNAVAILABLE, "there is no CRIU in '%s'", path);
        if (st.st_uid != 0 || (st.st_mode & 022))
                return err_set(err, ERR_UNAVAILABLE, "'%s' belongs to others than root, or they may write to it", path);
        return 0;
}

static int complete(const char *criu_dir, char *dir, struct criu_place *ret, struct err *err)
{
        struct criu_place p = {.dir = dir, .shim = find_shim()};

        if (asprintf(&p.run_dir, "%s/run", criu_dir) < 0)
                p.run_dir = NULL;
        if (p.run_dir && p.shim &&
            ((mkdir(criu_dir, 0711) < 0 && errno != EEXIST) || (mkdir(p.run_dir, 0700) < 0 && errno != EEXIST))) {
                int r = err_sys(err, -errno, "make '%s'", p.run_dir);

                criu_place_done(&p);
                return r;
        }
        if (!p.run_dir || !p.shim) {
                criu_place_done(&p);
                return err_set(err, ERR_UNAVAILABLE, "there is no " SHIM " beside our own program");
        }
        *ret = p;
        return 0;
}

int criu_find_private(const char *criu_dir, struct criu_place *ret, struct err *err)
{
        AUTO_FREE char *dir = NULL, *program = NULL;
        int r;

        if (asprintf(&dir, "%s/tool", criu_dir) < 0 || asprintf(&program, "%s/tool/criu", criu_dir) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = check_owner(dir, err);
        if (r == 0)
                r = check_owner(program, err);
        return r < 0 ? r : complete(criu_dir, TAKE_PTR(dir), ret, err);
}

int criu_find_host(const char *criu_dir, struct criu_place *ret, struct err *err)
{
        if (!criu_host_program())
                return err_set(err, ERR_UNAVAILABLE, "this host has no CRIU");
        return complete(criu_dir, NULL, ret, err);
}

typedef int criu_finder(const char *criu_dir, struct criu_place *ret, struct err *err);

/* 0: this one; or why not. */
static int find_usable(criu_finder *find, const char *criu_dir, struct criu_place *ret, struct err *err)
{
        int r = find(criu_dir, ret, err);

        if (r < 0 || criu_proof_read(criu_dir, ret, err) != CRIU_FAILS)
                return r;
        criu_place_done(ret);
        return -ENOEXEC;
}

int criu_find(const char *criu_dir, struct criu_place *ret, struct err *err)
{
        struct err private = {0}, host = {0};

        if (find_usable(criu_find_private, criu_dir, ret, &private) == 0 ||
            find_usable(criu_find_host, criu_dir, ret, &host) == 0)
                return 0;
        return err_set(err, ERR_UNAVAILABLE,
                       "%.90s; %.60s: `sandglass criu` fetches one from a Debian mirror (--mirror)", private.msg,
                       host.msg);
}
