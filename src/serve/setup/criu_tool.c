#include "serve/setup/criu_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/criu/criu_find.h"
#include "serve/setup/criu_fetch.h"
#include "sys/fs.h"
#include "sys/proc.h"

#define PROVEN "proven" /* holds what was proven in which boot: another kernel may come with the next */
#define FAILED "failed" /* likewise; it is not fetched again for that */
#define PROOF_MAX 128

struct proof {
        char text[PROOF_MAX];
};

/* Which CRIU, by its program's identity, in which boot. */
static void criu_tool_describe(const struct criu_place *p, struct proof *ret)
{
        AUTO_FREE char *path = NULL;
        char boot[SYS_BOOT_ID_MAX] = "";
        struct stat st = {0};

        (void)sys_boot_id(boot);
        if (p->dir ? asprintf(&path, "%s/criu", p->dir) < 0 : !(path = strdup(criu_host_program())))
                path = NULL;
        if (path)
                (void)stat(path, &st);
        (void)snprintf(ret->text, sizeof(ret->text), "%s %s %lld %lld\n", boot, p->dir ? "private" : "host",
                       (long long)st.st_mtim.tv_sec, (long long)st.st_size);
}

static bool is_noted(int dir, const char *name, const struct proof *want)
{
        char text[PROOF_MAX];

        return sys_read_at(dir, name, text, sizeof(text)) > 0 && strcmp(text, want->text) == 0;
}

static int prove(int dir, const char *criu_dir, const struct criu_place *p, struct err *err)
{
        struct criu_tool tool = criu_place_tool(p);
        struct proof proof;
        int r;

        criu_tool_describe(p, &proof);
        if (is_noted(dir, PROVEN, &proof))
                return 0;
        r = criu_prove(&tool, criu_dir, err);
        if (r < 0 && err->kind == ERR_NO_SPACE)
                return r; /* that says nothing about CRIU */
        /* Without the note it is tried again, that is all. */
        (void)sys_replace_at(dir, r == 0 ? PROVEN : FAILED, proof.text, strlen(proof.text), 0600);
        return r;
}

/* The private one before the host's, as criu_find() has it.  *ret_is_hopeless: what would be fetched was, and failed. */
static int look(int dir, const char *criu_dir, bool *ret_is_hopeless, struct err *err)
{
        struct criu_place p;
        struct proof proof;
        int r = criu_find_private(criu_dir, &p, err);

        if (r < 0)
                r = criu_find_host(criu_dir, &p, err);
        if (r < 0)
                return r;
        criu_tool_describe(&p, &proof);
        *ret_is_hopeless = p.dir && is_noted(dir, FAILED, &proof);
        r = prove(dir, criu_dir, &p, err);
        criu_place_done(&p);
        return r;
}

static int criu_tool_lock(const char *criu_dir, struct err *err)
{
        AUTO_CLOSE int dir = -1;
        sigset_t set = sys_signals_to_end(), old;
        int r = 0;

        /* Open for passing through: processes that are restored there, to prove that it works, are nobody special. */
        if ((mkdir(criu_dir, 0711) < 0 && errno != EEXIST) || chmod(criu_dir, 0711) < 0)
                return err_sys(err, -errno, "make '%s'", criu_dir);
        dir = open(criu_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return err_sys(err, -errno, "open '%s'", criu_dir);
        if (flock(dir, LOCK_EX | LOCK_NB) == 0)
                return TAKE_FD(dir);
        (void)sigprocmask(SIG_UNBLOCK, &set, &old); /* nothing is ours yet: ending here is clean */
        r = flock(dir, LOCK_EX) < 0 ? -errno : 0;
        (void)sigprocmask(SIG_SETMASK, &old, NULL);
        return r < 0 ? err_sys(err, r, "lock '%s'", criu_dir) : TAKE_FD(dir);
}

int criu_tool_get(const char *criu_dir, const char *mirror, struct err *err)
{
        AUTO_CLOSE int dir = criu_tool_lock(criu_dir, err);
        bool is_hopeless = false;
        int r = dir < 0 ? dir : look(dir, criu_dir, &is_hopeless, err);

        if (dir < 0 || r == 0 || is_hopeless || err->kind == ERR_NO_SPACE)
                return r;
        (void)printf("criu: no CRIU here works (%s): fetching one, only this time\n", err->msg);
        r = criu_fetch(criu_dir, mirror, err);
        return r < 0 ? r : look(dir, criu_dir, &is_hopeless, err);
}

static bool is_interrupted(void)
{
        sigset_t pending, set = sys_signals_to_end(), both;

        return sigpending(&pending) == 0 && sigandset(&both, &pending, &set) == 0 && !sigisemptyset(&both);
}

int criu_tool_ensure(const char *criu_dir, const char *mirror, struct err *err)
{
        struct err why = {0};

        if (criu_tool_get(criu_dir, mirror, &why) == 0)
                return 0;
        if (is_interrupted()) {
                *err = why;
                return err_set(err, ERR_UNAVAILABLE, "interrupted");
        }
        log_warn("criu.missing", "error=\"%s\" effect=\"sandboxes cannot be paused with their memory\"", why.msg);
        return 0;
}
