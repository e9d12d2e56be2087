#include "mcp/tools/program_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"

extern char **environ;

static void read_file(struct program_env *env, const char *file)
{
        AUTO_CLOSE int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : 1;

        while (n > 0)
                n = buf_fill(&env->text, fd, 4096);
        if (n < 0)
                buf_reset(&env->text);
}

/* The next "NAME=value" of the text; what has no NUL behind it is no variable. */
static char *next_variable(const struct program_env *env, size_t *at)
{
        char *begin, *end;

        if (*at >= env->text.len)
                return NULL;
        begin = (char *)buf_at(&env->text) + *at;
        end = memchr(begin, 0, env->text.len - *at);
        if (end)
                *at += (size_t)(end - begin) + 1;
        return end ? begin : NULL;
}

static void set(struct program_env *env, size_t *count, char *variable)
{
        size_t name = strcspn(variable, "="), at = 0;

        if (name == 0 || variable[name] == 0)
                return;
        while (at < *count && strncmp(env->vars[at], variable, name + 1) != 0)
                at++;
        env->vars[at] = variable;
        *count += at == *count;
}

int program_env_init(struct program_env *env, const char *file, const char *const *more)
{
        size_t own = 0, others = 0, at = 0, count;
        char *variable;

        *env = (struct program_env){.text = BUF_INIT(PROGRAM_ENV_FILE_MAX)};
        read_file(env, file);
        while (environ[own])
                own++;
        while (next_variable(env, &at))
                others++;
        for (size_t i = 0; more && more[i]; i++)
                others++;
        env->vars = calloc(own + others + 1, sizeof(*env->vars));
        if (!env->vars)
                return -ENOMEM;
        memcpy(env->vars, environ, own * sizeof(*env->vars));
        count = own;
        at = 0;
        while ((variable = next_variable(env, &at)))
                set(env, &count, variable);
        for (size_t i = 0; more && more[i]; i++)
                set(env, &count,
                    (char *)(uintptr_t)more[i]); /* posix_spawn() takes what it does not change as not const */
        return 0;
}

void program_env_done(struct program_env *env)
{
        free(env->vars);
        buf_done(&env->text);
        *env = (struct program_env){0};
}
