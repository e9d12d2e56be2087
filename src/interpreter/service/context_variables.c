/* Variables of the sandbox and of a run, and the identity of the sandbox, as statements for the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "interpreter/service/context_impl.h"
#include "interpreter/service/contexts.h"
#include "interpreter/service/run.h"

static struct str json_str(const json_t *s)
{
        return (struct str){json_string_value(s), json_string_length(s)};
}

/* ---- whose random numbers ---- */

static void read_identity(const struct contexts *cs, char out[IDENTITY_MAX])
{
        AUTO_CLOSE int fd = open(cs->opt.identity_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        ssize_t n = fd < 0 ? -1 : read(fd, out, IDENTITY_MAX - 1);

        out[n < 0 ? 0 : n] = 0;
}

/* The sandbox may continue from the memory of another one: then its random numbers would be the same. */
static int add_reseed(struct context *c, struct buf *out)
{
        char identity[IDENTITY_MAX];
        uint32_t seed;

        read_identity(c->contexts, identity);
        if (strcmp(identity, c->identity) == 0)
                return 0;
        memcpy(c->identity, identity, sizeof(identity));
        random_bytes(&seed, sizeof(seed));
        return language_reseed(c->dialect, seed, out);
}

void context_notice_copy(struct context *c)
{
        char identity[IDENTITY_MAX];

        read_identity(c->contexts, identity);
        if (strcmp(identity, c->identity) == 0 || !c->sandbox_variables)
                return;
        json_decref(c->former_variables);
        c->former_variables = TAKE_PTR(c->sandbox_variables);
}

void context_forget_variables(struct context *c)
{
        json_decref(c->sandbox_variables);
        c->sandbox_variables = NULL;
        json_decref(c->former_variables);
        c->former_variables = NULL;
        json_decref(c->undo);
        c->undo = NULL;
        c->needs_fence = c->may_drop = false;
        read_identity(c->contexts, c->identity);
}

/* ---- set ---- */

static int add_all(const struct context *c, json_t *variables, struct buf *out)
{
        const char *name;
        json_t *value;
        int r = 0;

        json_object_foreach (variables, name, value) {
                if (r == 0 && json_is_string(value) && variable_is_valid(str_of(name), json_str(value)))
                        r = language_set(c->dialect, str_of(name), json_str(value), out);
        }
        return r;
}

/* ---- undo, and prepare ---- */

static const char *find_variable(char *const *env, struct str name)
{
        for (; env && *env; env++)
                if (strncmp(*env, name.p, name.n) == 0 && (*env)[name.n] == '=')
                        return *env + name.n + 1;
        return NULL;
}

/* What the variable has without a run: the value of the sandbox, or the one that the kernel began with, or none. */
static int add_undo_of(const struct context *c, const char *name, struct buf *out)
{
        const json_t *value = json_object_get(c->sandbox_variables, name);
        const char *first = NULL;

        if (json_is_string(value) && variable_is_valid(str_of(name), json_str(value)))
                return language_set(c->dialect, str_of(name), json_str(value), out);
        if (language_has_process_environment(c->dialect)) {
                first = find_variable(c->spec.env, str_of(name));
                if (!first)
                        first = find_variable(environ, str_of(name));
        }
        return first ? language_set(c->dialect, str_of(name), str_of(first), out)
                     : language_unset(c->dialect, str_of(name), out);
}

/* What only the original of this sandbox had. */
static int add_former(struct context *c, struct buf *out)
{
        json_t *former = TAKE_PTR(c->former_variables), *value;
        const char *name;
        int r = 0;

        json_object_foreach (former, name, value) {
                (void)value;
                if (r == 0 && !json_object_get(c->sandbox_variables, name))
                        r = add_undo_of(c, name, out);
        }
        json_decref(former);
        return r;
}

int context_add_preparation(struct context *c, struct buf *out)
{
        int r = add_reseed(c, out);

        if (r == 0 && c->fetched) {
                r = add_all(c, c->fetched, out);
                c->sandbox_variables = TAKE_PTR(c->fetched);
                if (r == 0)
                        r = add_former(c, out);
        }
        if (r < 0 || !c->run->variables)
                return r;
        c->undo = json_incref(c->run->variables);
        return add_all(c, c->run->variables, out);
}

int context_add_undo(struct context *c, struct buf *out)
{
        json_t *undo = TAKE_PTR(c->undo), *value;
        const char *name;
        int r = 0;

        json_object_foreach (undo, name, value) {
                (void)value;
                if (r == 0)
                        r = add_undo_of(c, name, out);
        }
        json_decref(undo);
        return r;
}
