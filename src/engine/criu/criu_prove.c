#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/criu/criu.h"
#include "engine/criu/criu_tree.h"
#include "sys/fs.h"

static int make_below(const char *dir, const char *name, char out[CRIU_TREE_PATH_MAX], struct err *err)
{
        int n = snprintf(out, CRIU_TREE_PATH_MAX, "%s/%s", dir, name);

        if (n < 0 || n >= CRIU_TREE_PATH_MAX)
                return err_set(err, ERR_INVALID, "'%s' is too long a path", dir);
        return mkdir(out, 0711) < 0 || chmod(out, 0711) < 0 ? err_sys(err, -errno, "make '%s'", out) : 0;
}

static int dump_and_restore(const struct criu_tool *tool, struct criu_tree *t, const char *images, const char *work,
                            struct err *err)
{
        const struct criu_dump d = {.pid = t->pid, .images = images};
        const struct criu_restore c = {
                .images = images, .work = work, .root = t->root, .dev = t->dev, .uid_base = CRIU_TREE_UID};
        struct criu_stats stats;
        pid_t again;
        int r = criu_dump(tool, &d, &stats, err);

        criu_tree_end(t->pid); /* its pids are free for the other now, its mounts are not needed */
        if (r < 0)
                return err_wrap(err, "dump");
        r = criu_restore(tool, &c, &again, err);
        if (r < 0)
                return r;
        r = criu_tree_check(again, err);
        criu_tree_end(again);
        return r;
}

static int prove_here(const struct criu_tool *tool, const char *dir, struct err *err)
{
        char images[CRIU_TREE_PATH_MAX], work[CRIU_TREE_PATH_MAX];
        struct criu_tree t;
        int r;

        if ((r = make_below(dir, "images", images, err)) < 0 || (r = make_below(dir, "work", work, err)) < 0 ||
            (r = criu_tree_furnish(&t, dir, err)) < 0 || (r = criu_tree_start(&t, -1, err)) < 0)
                return r;
        return dump_and_restore(tool, &t, images, work, err);
}

/* In a child: its mounts go with it. */
int criu_prove(const struct criu_tool *tool, const char *scratch, struct err *err)
{
        AUTO_CLOSE int top = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct err *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        char name[32] = "prove-", dir[CRIU_TREE_PATH_MAX];
        int r = 0;
        pid_t pid;

        random_id(name + 6, 12);
        if (shared == MAP_FAILED)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = top < 0 ? err_sys(err, -errno, "open '%s'", scratch) : make_below(scratch, name, dir, err);
        pid = r < 0 ? r : fork();
        if (pid == 0)
                _exit(prove_here(tool, dir, shared) < 0 ? 1 : 0);
        if (r == 0 && pid < 0)
                r = err_sys(err, -errno, "fork");
        if (pid > 0) {
                int status = 0;

                while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                        continue;
                if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
                        *err = *shared;
                        r = shared->kind ? err_wrap(err, "CRIU does not work here")
                                         : err_set(err, ERR_INTERNAL, "the proof of CRIU died");
                }
                (void)sys_remove_tree(top, name);
        }
        (void)munmap(shared, sizeof(*shared));
        return r;
}
