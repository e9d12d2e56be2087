#include "interpreter/caller_environ.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/log.h"

#define TEXT_MAX (4u << 20)
#define READ_PIECE 16384
#define FILE_NAME_MAX 40
#define LOADER "LD_"
#define ASIDE "SANDGLASS_ASIDE_"

/* Whether sudo itself sets them, or they say in which process, shell or sandbox one is. */
static bool is_taken(struct str name)
{
        static const char *const others[] = {"HOME",   "USER",  "LOGNAME", "SHELL", "MAIL", "PWD",
                                             "OLDPWD", "SHLVL", "_",       "TERM",  "PATH"};

        for (size_t i = 0; i < ARRAY_LEN(others); i++)
                if (str_is(name, others[i]))
                        return false;
        return name.n && !str_starts(name, "SUDO_") && !str_starts(name, "E2B_");
}

static bool has_directory(struct str path, struct str wanted)
{
        struct str one;

        while (path.n) {
                (void)str_cut(&path, ':', &one);
                if (one.n == wanted.n && memcmp(one.p, wanted.p, one.n) == 0)
                        return true;
        }
        return false;
}

static struct str own_path(void)
{
        for (char **at = environ; *at; at++)
                if (strncmp(*at, "PATH=", 5) == 0)
                        return str_of(*at + 5);
        return (struct str){0};
}

static int merge_path(struct str theirs)
{
        AUTO_BUF struct buf all = BUF_INIT(TEXT_MAX);
        struct str ours = own_path(), one;
        int r = buf_add(&all, theirs.p, theirs.n);

        while (r == 0 && ours.n) {
                (void)str_cut(&ours, ':', &one);
                if (one.n && !has_directory(theirs, one))
                        r = buf_addf(&all, "%s%.*s", all.len ? ":" : "", STR_ARG(one));
        }
        if (r == 0 && buf_cstr(&all))
                r = setenv("PATH", buf_cstr(&all), 1) < 0 ? -errno : 0;
        return r;
}

static int merge_one(struct str line)
{
        AUTO_FREE char *name = NULL, *value = NULL;
        struct str key;

        if (!str_cut(&line, '=', &key))
                return 0;
        if (str_is(key, "PATH"))
                return merge_path(line);
        if (!is_taken(key))
                return 0;
        name = str_dup(key);
        value = str_dup(line);
        if (!name || !value)
                return -ENOMEM;
        return setenv(name, value, 1) < 0 ? -errno : 0;
}

void caller_environ_merge(struct str text)
{
        struct str line;
        int r = 0;

        while (r == 0 && text.n) {
                (void)str_cut(&text, '\0', &line);
                r = merge_one(line);
        }
        if (r < 0)
                log_warn("environ.merge", "why=\"%s\"", strerror(-r));
}

/* ---- variables of the loader ---- */

char *caller_environ_aside_name(struct str name)
{
        char *aside = NULL;

        if (!str_starts(name, LOADER))
                return str_dup(name);
        return asprintf(&aside, ASIDE "%.*s", STR_ARG(name)) < 0 ? NULL : aside;
}

/* The first variable whose name begins so: its line.  NULL: there is none. */
static const char *first_with(const char *prefix)
{
        for (char **at = environ; *at; at++)
                if (strncmp(*at, prefix, strlen(prefix)) == 0 && strchr(*at, '='))
                        return *at;
        return NULL;
}

/* Each pass has one variable less with that prefix, whether it got its new name or not. */
static void rename_all(const char *prefix, char *(*new_name)(struct str name))
{
        const char *line;

        while ((line = first_with(prefix))) {
                AUTO_FREE char *name = str_dup((struct str){line, (size_t)(strchr(line, '=') - line)});
                AUTO_FREE char *value = str_dup(str_of(strchr(line, '=') + 1));
                AUTO_FREE char *other = name ? new_name(str_of(name)) : NULL;

                if (!name || !value || !other || setenv(other, value, 1) < 0)
                        log_warn("environ.rename", "why=\"out of memory\"");
                if (!name || unsetenv(name) < 0)
                        return;
        }
}

static char *own_name(struct str aside)
{
        return str_dup((struct str){aside.p + strlen(ASIDE), aside.n - strlen(ASIDE)});
}

void caller_environ_put_aside(void)
{
        rename_all(LOADER, caller_environ_aside_name);
}

/* ---- those of the caller ---- */

static int read_of_parent(const char *file, struct buf *out)
{
        char name[FILE_NAME_MAX];
        AUTO_CLOSE int fd = -1;
        ssize_t n = 1;

        (void)snprintf(name, sizeof(name), "/proc/%d/%s", (int)getppid(), file);
        fd = open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        while (n > 0)
                n = buf_fill(out, fd, READ_PIECE);
        return (int)n;
}

void caller_environ_take(void)
{
        AUTO_BUF struct buf comm = BUF_INIT(FILE_NAME_MAX), text = BUF_INIT(TEXT_MAX);
        int r;

        rename_all(ASIDE LOADER, own_name);
        r = read_of_parent("comm", &comm);
        if (r < 0 || !str_is((struct str){(const char *)buf_at(&comm), comm.len}, "sudo\n"))
                return;
        r = read_of_parent("environ", &text);
        if (r < 0)
                log_warn("environ.read", "why=\"%s\"", strerror(-r));
        else
                caller_environ_merge((struct str){(const char *)buf_at(&text), text.len});
}
