#include "cli/agent/agent_script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/str.h"
#include "sys/fs.h"

char *agent_script_path(struct err *err)
{
        /* Installed, or in the source tree, from the program's own directory. */
        static const char *const places[] = {"../share/sandglass/agent/agent.mjs", "../src/cli/agent/agent.mjs"};
        char exe[4096];
        ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

        if (n <= 0) {
                (void)err_sys(err, -errno, "find the program's own directory");
                return NULL;
        }
        exe[n] = 0;
        *strrchr(exe, '/') = 0;
        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
                AUTO_FREE char *path = NULL;
                char *found;

                if (asprintf(&path, "%s/%s", exe, places[i]) < 0) {
                        path = NULL;
                        break;
                }
                found = realpath(path, NULL);
                if (found)
                        return found;
        }
        (void)err_set(err, ERR_NOT_FOUND, "the script of the agent is not installed: %s/%s", exe, places[0]);
        return NULL;
}

int agent_script_read(const char *path, char **ret, size_t *ret_len, struct err *err)
{
        AUTO_FREE char *text = malloc(AGENT_SCRIPT_MAX);
        ssize_t n = text ? sys_read_at(AT_FDCWD, path, text, AGENT_SCRIPT_MAX) : -ENOMEM;

        if (n < 0)
                return err_sys(err, (int)n, "read %s", path);
        *ret = TAKE_PTR(text);
        *ret_len = (size_t)n;
        return 0;
}
