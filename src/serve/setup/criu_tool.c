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
#include "engine/criu/criu_proof.h"
#include "serve/setup/criu_fetch.h"
#include "sys/proc.h"

/* Takes p. */
static int prove(const char *criu_dir, struct criu_place *p, struct err *err)
{
        struct criu_tool tool = criu_place_tool(p);
        enum criu_verdict known = criu_proof_read(criu_dir, p, err);
        int r = known == CRIU_FAILS ? -ENOEXEC : 0;

        if (known == CRIU_UNTRIED) {
                r = criu_prove(&tool, criu_dir, err);
                if (r == 0 || err->kind != ERR_NO_SPACE) /* a full disk says nothing about CRIU */
                        criu_proof_write(criu_dir, p, r < 0 ? err : NULL);
        }
        if (r == 0)
                log_info("criu.works", "place=%s", p->dir ? p->dir : criu_host_program());
        criu_place_done(p);
        return r;
}

/* The private one before the host's, as criu_find() has it.  *ret_is_hopeless: what would be fetched was, and failed. */
static int look(const char *criu_dir, bool *ret_is_hopeless, struct err *err)
{
        struct err other = {0};
        struct criu_place p;
        int r = criu_find_private(criu_dir, &p, err);
        bool has_private = r == 0;

        if (has_private) {
                *ret_is_hopeless = criu_proof_read(criu_dir, &p, NULL) == CRIU_FAILS;
                r = prove(criu_dir, &p, err);
        }
        if (r == 0 || criu_find_host(criu_dir, &p, &other) < 0)
                return r;
        if (prove(criu_dir, &p, &other) == 0) {
                *err = (struct err){0};
                return 0;
        }
        if (!has_private)
                *err = other;
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
        int r = dir < 0 ? dir : look(criu_dir, &is_hopeless, err);

        if (dir < 0 || r == 0 || is_hopeless || err->kind == ERR_NO_SPACE)
                return r;
        (void)printf("criu: no CRIU here works (%s): fetching one, only this time\n", err->msg);
        r = criu_fetch(criu_dir, mirror, err);
        return r < 0 ? r : look(criu_dir, &is_hopeless, err);
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
