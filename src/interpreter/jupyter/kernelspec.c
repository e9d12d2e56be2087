#include "interpreter/jupyter/kernelspec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"

#define NAMES_MAX 1000 /* kernels in one directory that are looked at */
#define ARGV_MAX 256
#define ARGUMENT_MAX (64u << 10)
#define VALUE_MAX (1u << 20) /* of a variable, filled in */
#define USUAL_PREFIX "/usr"  /* of Debian's Python */
#define BELOW_PREFIX "/share/jupyter/kernels/"

void string_list_free(char **list)
{
        for (char **at = list; at && *at; at++)
                free(*at);
        free(list);
}

void kernelspec_done(struct kernelspec *s)
{
        free(s->name);
        free(s->dir);
        free(s->language);
        string_list_free(s->argv);
        string_list_free(s->env);
        *s = (struct kernelspec){0};
}

/* ---- kernel.json ---- */

static int decode_argv(const json_t *argv, struct kernelspec *ret, struct err *err)
{
        size_t n = json_array_size(argv);

        if (n == 0 || n > ARGV_MAX)
                return err_set(err, ERR_INVALID, "\"argv\" must be a list of 1 to %d strings", ARGV_MAX);
        ret->argv = calloc(n + 1, sizeof(*ret->argv));
        if (!ret->argv)
                return err_sys(err, -ENOMEM, "kernel.json");
        for (size_t i = 0; i < n; i++) {
                const char *text = json_string_value(json_array_get(argv, i));

                if (!text || !(ret->argv[i] = strdup(text)))
                        return err_set(err, ERR_INVALID, "\"argv\" must be a list of strings");
        }
        return ret->argv[0][0] ? 0 : err_set(err, ERR_INVALID, "\"argv\" begins with an empty string");
}

static size_t identifier_length(const char *p)
{
        size_t n = 0;

        while ((p[n] >= 'a' && p[n] <= 'z') || (p[n] >= 'A' && p[n] <= 'Z') || p[n] == '_' ||
               (n > 0 && p[n] >= '0' && p[n] <= '9'))
                n++;
        return n;
}

static const char *own_variable(const char *name, size_t n)
{
        for (char **at = environ; *at; at++)
                if (strncmp(*at, name, n) == 0 && (*at)[n] == '=')
                        return *at + n + 1;
        return NULL;
}

/* As Jupyter fills it in: $NAME and ${NAME} are variables of our own environment, $$ is $, what is not known stays. */
static int fill_in_variables(const char *text, struct buf *out)
{
        int r = 0;

        while (r == 0 && *text) {
                bool is_braced = text[0] == '$' && text[1] == '{';
                const char *name = text + 1 + is_braced, *value = NULL;
                size_t n = text[0] == '$' ? identifier_length(name) : 0;

                if (n && (!is_braced || name[n] == '}'))
                        value = own_variable(name, n);
                if (value) {
                        r = buf_addc(out, value);
                        text = name + n + is_braced;
                } else {
                        r = buf_add(out, text, 1);
                        text += text[0] == '$' && text[1] == '$' ? 2 : 1;
                }
        }
        return r;
}

static int decode_variable(const char *name, const char *value, char **ret, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(VALUE_MAX);
        int r = buf_addf(&text, "%s=", name);

        if (r == 0)
                r = fill_in_variables(value, &text);
        if (r == -E2BIG)
                return err_set(err, ERR_INVALID, "\"env\" has a value of more than %u bytes", VALUE_MAX);
        if (r < 0 || !buf_cstr(&text) || !(*ret = strdup(buf_cstr(&text))))
                return err_sys(err, -ENOMEM, "kernel.json");
        return 0;
}

static int decode_env(json_t *env, struct kernelspec *ret, struct err *err)
{
        const char *name;
        json_t *value;
        size_t n = 0;

        if (env && !json_is_object(env))
                return err_set(err, ERR_INVALID, "\"env\" must be an object");
        ret->env = calloc(json_object_size(env) + 1, sizeof(*ret->env));
        if (!ret->env)
                return err_sys(err, -ENOMEM, "kernel.json");
        json_object_foreach (env, name, value) {
                if (!json_is_string(value) || !name[0] || strchr(name, '='))
                        return err_set(err, ERR_INVALID, "\"env\" must have names and strings");
                if (decode_variable(name, json_string_value(value), &ret->env[n], err) < 0)
                        return -1;
                n++;
        }
        return 0;
}

/* Kernels of ours say so in their metadata; ipykernel is known by the module that starts it. */
static bool is_idle_last(const json_t *o, const struct kernelspec *s)
{
        if (json_is_true(json_object_get(json_object_get(o, "metadata"), "idle_is_last")))
                return true;
        for (char **at = s->argv; *at; at++)
                if (strcmp(*at, "ipykernel_launcher") == 0 || strcmp(*at, "ipykernel") == 0)
                        return true;
        return false;
}

static int decode_object(json_t *o, struct kernelspec *ret, struct err *err)
{
        const char *language = json_string_value(json_object_get(o, "language"));
        const char *mode = json_string_value(json_object_get(o, "interrupt_mode"));
        int r;

        if (!json_is_object(o))
                return err_set(err, ERR_INVALID, "not an object");
        r = decode_argv(json_object_get(o, "argv"), ret, err);
        if (r == 0)
                r = decode_env(json_object_get(o, "env"), ret, err);
        if (r < 0)
                return r;
        ret->interrupts_by_message = mode && strcmp(mode, "message") == 0;
        ret->idle_is_last = is_idle_last(o, ret);
        ret->language = strdup(language ? language : "");
        return ret->language ? 0 : err_sys(err, -ENOMEM, "kernel.json");
}

int kernelspec_decode(struct str json, struct kernelspec *ret, struct err *err)
{
        AUTO_KERNELSPEC struct kernelspec found = {0};
        json_error_t why;
        json_t *o = json_loadb(json.p ? json.p : "", json.n, 0, &why);
        int r;

        if (!o)
                return err_set(err, ERR_INVALID, "not JSON: %s", why.text);
        r = decode_object(o, &found, err);
        json_decref(o);
        if (r < 0)
                return r;
        *ret = found;
        found = (struct kernelspec){0};
        return 0;
}

/* ---- finding ---- */

static int read_file(const char *path, struct buf *out)
{
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        ssize_t n = 1;

        if (fd < 0)
                return -errno;
        while (n > 0)
                n = buf_fill(out, fd, 16384);
        return (int)n;
}

/* -ENOENT: no such kernel here (err untouched).  Other failures: it is there and cannot be used. */
static int load(const char *dir, const char *name, struct kernelspec *ret, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(KERNEL_JSON_MAX);
        AUTO_KERNELSPEC struct kernelspec found = {0};
        AUTO_FREE char *path = NULL;
        int r;

        if (asprintf(&path, "%s/%s/kernel.json", dir, name) < 0) {
                path = NULL;
                return err_sys(err, -ENOMEM, "kernel %s", name);
        }
        r = read_file(path, &text);
        if (r == -ENOENT || r == -ENOTDIR)
                return -ENOENT;
        if (r < 0)
                return err_sys(err, r, "read %s", path);
        r = kernelspec_decode((struct str){(const char *)buf_at(&text), text.len}, &found, err);
        if (r < 0)
                return err_wrap(err, "%s", path);
        path[strlen(path) - strlen("/kernel.json")] = 0;
        found.dir = TAKE_PTR(path);
        found.name = strdup(name);
        if (!found.name)
                return err_sys(err, -ENOMEM, "kernel %s", name);
        *ret = found;
        found = (struct kernelspec){0};
        return 0;
}

static int by_name(const char *const *dirs, const char *name, struct kernelspec *ret, struct err *err)
{
        int r = -ENOENT;

        if (!name[0] || name[0] == '.' || strchr(name, '/') || strlen(name) > 255)
                return -ENOENT;
        for (; *dirs && r == -ENOENT; dirs++)
                r = load(*dirs, name, ret, err);
        return r;
}

/* Among several kernels of a language, the one that everybody has. */
static const char *usual_name(const char *language)
{
        if (strcmp(language, "python") == 0)
                return "python3";
        return strcmp(language, "r") == 0 ? "ir" : "";
}

static int by_language_in(const char *dir, const char *language, struct kernelspec *ret)
{
        struct dirent **names = NULL;
        int n = scandir(dir, &names, NULL, alphasort), r = -ENOENT;

        for (int i = 0; i < n; i++) {
                AUTO_KERNELSPEC struct kernelspec found = {0};

                if (r < 0 && i < NAMES_MAX && names[i]->d_name[0] != '.' &&
                    load(dir, names[i]->d_name, &found, NULL) == 0 && str_iis(str_of(found.language), language)) {
                        *ret = found;
                        found = (struct kernelspec){0};
                        r = 0;
                }
                free(names[i]);
        }
        free(names);
        return r;
}

int kernelspec_find(const char *const *dirs, const char *language, struct kernelspec *ret, struct err *err)
{
        int r = by_name(dirs, language, ret, err);

        if (r == -ENOENT)
                r = by_name(dirs, usual_name(language), ret, err);
        if (r != -ENOENT)
                return r;
        for (const char *const *at = dirs; *at && r < 0; at++)
                r = by_language_in(*at, language, ret);
        return r == 0 ? 0 : err_set(err, ERR_NOT_FOUND, "No such kernel: %s", language);
}

/* ---- argv ---- */

struct placeholder {
        struct str name, with;
};

/* Where what belongs to the kernel is: PREFIX of PREFIX/share/jupyter/kernels/NAME. */
static struct str prefix_of(const char *dir)
{
        const char *name = strrchr(dir, '/');
        size_t n = name ? (size_t)(name + 1 - dir) : 0, below = strlen(BELOW_PREFIX);

        if (n > below && memcmp(dir + n - below, BELOW_PREFIX, below) == 0)
                return (struct str){dir, n - below};
        return STR(USUAL_PREFIX);
}

static char *fill_in(const char *text, const struct placeholder *known, size_t count)
{
        AUTO_BUF struct buf out = BUF_INIT(ARGUMENT_MAX);
        const char *copy;

        while (*text) {
                struct str with = {text, 1};
                size_t n = 1;

                for (size_t i = 0; i < count; i++)
                        if (str_starts(str_of(text), known[i].name.p)) {
                                with = known[i].with;
                                n = known[i].name.n;
                        }
                if (buf_add(&out, with.p, with.n) < 0)
                        return NULL;
                text += n;
        }
        copy = buf_cstr(&out);
        return copy ? strdup(copy) : NULL;
}

char **kernelspec_argv(const struct kernelspec *s, const char *connection_file)
{
        const char *dir = s->dir ? s->dir : "";
        const struct placeholder known[] = {{STR("{connection_file}"), str_of(connection_file)},
                                            {STR("{resource_dir}"), str_of(dir)},
                                            {STR("{prefix}"), prefix_of(dir)}};
        size_t n = 0;
        char **argv;

        while (s->argv[n])
                n++;
        argv = calloc(n + 1, sizeof(*argv));
        for (size_t i = 0; argv && i < n; i++) {
                argv[i] = fill_in(s->argv[i], known, ARRAY_LEN(known));
                if (!argv[i]) {
                        string_list_free(argv);
                        return NULL;
                }
        }
        return argv;
}
