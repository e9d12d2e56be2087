/* The probes tell what is there from what is not. */
#include <fcntl.h>
#include <sys/wait.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/namespace/probe.h"
#include "rig.h"

static void finds_everything_where_sandboxes_run(void)
{
        struct probe_result r[PROBES_MAX];
        size_t n = probe_all(r);

        CHECK(n > 5);
        for (size_t i = 0; i < n; i++)
                printf("# %s: %s %s\n", r[i].name, r[i].ok ? "ok" : "MISSING", r[i].detail);
        CHECK(!probe_find_missing(r, n));
}

static void names_what_an_ordinary_user_lacks(void)
{
        int st = 0;
        pid_t pid = fork();

        if (pid == 0) {
                struct probe_result r[PROBES_MAX];
                const struct probe_result *missing;

                if (setuid(54321) < 0)
                        _exit(1);
                missing = probe_find_missing(r, probe_all(r));
                _exit(missing && strcmp(missing->name, "root") == 0 && missing->fix && missing->detail[0] ? 42 : 2);
        }
        CHECK_INT(waitpid(pid, &st, 0), ==, pid);
        CHECK_INT(WEXITSTATUS(st), ==, 42);
}

static void leaves_nothing(void)
{
        static const char *const at[] = {"", "/memory", "/pids", "/cpu", "/unified"};

        for (size_t i = 0; i < ARRAY_LEN(at); i++) {
                char path[96];

                (void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s/sandglass-probe-%d", at[i], (int)getpid());
                CHECK_INT(access(path, F_OK), ==, -1);
        }
}

int main(void)
{
        if (rig_reason_to_skip()) {
                printf("1..0 # SKIP %s\n", rig_reason_to_skip());
                return 0;
        }
        RUN(finds_everything_where_sandboxes_run);
        RUN(names_what_an_ordinary_user_lacks);
        RUN(leaves_nothing);
        return tap_done();
}
