#include "interpreter/restart_request.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "interpreter/caller_environ.h"
#include "model/envd_restart.h"

#define ENVD_PID 1
#define NAME_MAX_BYTES 64

static bool is_child_of_envd(void)
{
        return getppid() == ENVD_PID && geteuid() == 0;
}

static void name_of(char out[NAME_MAX_BYTES], const char *suffix)
{
        (void)snprintf(out, NAME_MAX_BYTES, ENVD_RESTART_DIR "/%d%s", (int)getpid(), suffix);
}

static json_t *arguments(char *const *args)
{
        json_t *list = json_array();

        for (; list && *args; args++)
                (void)json_array_append_new(list, json_string(*args));
        return list;
}

static json_t *variables(void)
{
        json_t *all = json_object();

        for (char **at = environ; all && *at; at++) {
                const char *value = strchr(*at, '=');
                AUTO_FREE char *name =
                        value ? caller_environ_aside_name((struct str){*at, (size_t)(value - *at)}) : NULL;
                json_t *text = name ? json_string(value + 1) : NULL; /* NULL also if it is not UTF-8 */

                if (text)
                        (void)json_object_set_new(all, name, text);
        }
        return all;
}

static char *request_text(char *const *args)
{
        char program[4096], directory[4096];
        ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
        json_t *request;
        char *text;

        if (n < 0 || !getcwd(directory, sizeof(directory)))
                return NULL;
        program[n] = 0;
        request = json_pack("{s:s, s:o, s:o, s:s}", "cmd", program, "args", arguments(args), "envs", variables(), "cwd",
                            directory);
        text = request ? json_dumps(request, JSON_COMPACT) : NULL;
        json_decref(request);
        return text;
}

/* Whole or not at all: envd reads the file when this process is dead, however it died. */
static int write_request(const char *text)
{
        char name[NAME_MAX_BYTES], new_name[NAME_MAX_BYTES];
        AUTO_CLOSE int fd = -1;
        size_t n = strlen(text);

        name_of(name, "");
        name_of(new_name, ".new");
        (void)mkdir("/run/sandglass", 0755);
        (void)mkdir(ENVD_RESTART_DIR, 0700);
        fd = open(new_name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        if (write(fd, text, n) != (ssize_t)n)
                return -EIO;
        return rename(new_name, name) < 0 ? -errno : 0;
}

void restart_request_make(char *const *args)
{
        AUTO_FREE char *text = NULL;
        int r;

        if (!is_child_of_envd())
                return;
        text = request_text(args);
        r = text ? write_request(text) : -ENOMEM;
        if (r < 0)
                log_warn("guardian.restart_request", "why=\"%s\"", strerror(-r));
}

void restart_request_drop(void)
{
        char name[NAME_MAX_BYTES];

        if (!is_child_of_envd())
                return;
        name_of(name, "");
        (void)unlink(name);
}
