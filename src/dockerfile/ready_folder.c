#include "dockerfile/ready_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "dockerfile/instructions.h"

#define FOLDERS_MAX 1000
#define DOCKERFILE "e2b.Dockerfile"

char *ready_folders_dir(void)
{
        static const char *const places[] = {"../share/sandglass/templates", "../templates"};
        char exe[4096];
        ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

        if (n <= 0)
                return NULL;
        exe[n] = 0;
        *strrchr(exe, '/') = 0;
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
                AUTO_FREE char *path = NULL;
                char *found;

                if (asprintf(&path, "%s/%s", exe, places[i]) < 0) {
                        path = NULL;
                        return NULL;
                }
                found = realpath(path, NULL);
                if (found)
                        return found;
        }
        return NULL;
}

static bool name_is_plain(const char *name)
{
        return name[0] && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_")] == 0;
}

static int open_folder(const char *dir, const char *name)
{
        AUTO_CLOSE int top = -1;

        if (!name_is_plain(name))
                return -ENOENT;
        top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (top < 0)
                return -errno;
        int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

bool ready_folder_exists(const char *dir, const char *name)
{
        AUTO_CLOSE int fd = open_folder(dir, name);

        return fd >= 0 && faccessat(fd, "e2b.toml", R_OK, 0) == 0;
}

static int compare_names(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

int ready_folder_names(const char *dir, struct buf *out)
{
        char *names[FOLDERS_MAX];
        size_t count = 0;
        DIR *d = opendir(dir);
        const struct dirent *e;
        int r = 0;

        if (!d)
                return -errno;
        while (count < FOLDERS_MAX && r == 0 && (e = readdir(d))) {
                if (!ready_folder_exists(dir, e->d_name))
                        continue;
                names[count] = strdup(e->d_name);
                if (names[count])
                        count++;
                else
                        r = -ENOMEM;
        }
        (void)closedir(d);
        qsort(names, count, sizeof(names[0]), compare_names);
        for (size_t i = 0; i < count; i++) {
                if (r == 0)
                        r = buf_addf(out, "%s%s", i ? ", " : "", names[i]);
                free(names[i]);
        }
        return r;
}

static int read_file(int folder, const char *name, size_t max, struct buf *out, struct err *err)
{
        AUTO_CLOSE int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
        char piece[16384];
        ssize_t n;

        if (fd < 0)
                return err_sys(err, -errno, "open '%s'", name);
        while ((n = read(fd, piece, sizeof(piece))) > 0)
                if (out->len + (size_t)n > max || buf_add(out, piece, (size_t)n) < 0)
                        return err_set(err, ERR_INVALID, "'%s' is too large", name);
        return n < 0 ? err_sys(err, -errno, "read '%s'", name) : 0;
}

static int first_problem(const struct problems *p, const char *file, struct err *err)
{
        for (size_t i = 0; i < p->count; i++)
                if (p->at[i].level == PROBLEM_ERROR)
                        return err_set(err, ERR_INVALID, "%s, line %u: %s", file, p->at[i].line, p->at[i].text);
        return err_set(err, ERR_LIMIT, "out of memory");
}

static int read_toml(int folder, struct e2b_toml *ret, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(E2B_TOML_MAX + 1);
        AUTO_PROBLEMS struct problems problems = {0};
        int r = read_file(folder, "e2b.toml", E2B_TOML_MAX, &text, err);

        if (r == 0 && e2b_toml_parse((struct str){(const char *)buf_at(&text), text.len}, ret, &problems) < 0)
                r = first_problem(&problems, "e2b.toml", err);
        return r;
}

/* A folder without a Dockerfile is another name of the template that its e2b.toml names. */
static bool find_meaning(const char *dir, const char *name, struct e2b_toml *toml)
{
        AUTO_CLOSE int folder = open_folder(dir, name);

        return folder >= 0 && read_toml(folder, toml, NULL) == 0 && toml->template_name &&
               strcmp(toml->template_name, name) != 0 &&
               faccessat(folder, toml->dockerfile ? toml->dockerfile : DOCKERFILE, F_OK, 0) < 0 &&
               ready_folder_exists(dir, toml->template_name);
}

char *ready_folder_meaning(const char *dir, const char *name)
{
        AUTO_E2B_TOML struct e2b_toml toml = {0};

        return find_meaning(dir, name, &toml) ? TAKE_PTR(toml.template_name) : NULL;
}

json_t *ready_folder_other_names(const char *dir)
{
        json_t *found = json_object();
        DIR *d = opendir(dir);
        const struct dirent *e;

        while (found && d && (e = readdir(d))) {
                AUTO_FREE char *meaning = ready_folder_meaning(dir, e->d_name);

                if (meaning && json_object_set_new(found, e->d_name, json_string(meaning)) < 0) {
                        json_decref(found);
                        found = NULL;
                }
        }
        if (d)
                (void)closedir(d);
        return found;
}

static int read_dockerfile(int folder, const char *file, const char *architecture, struct dockerfile_build *ret,
                           struct err *err)
{
        const struct dockerfile_options opt = {.architecture = architecture};
        AUTO_BUF struct buf text = BUF_INIT(DOCKERFILE_MAX + 1);
        AUTO_PROBLEMS struct problems problems = {0};
        int r = read_file(folder, file, DOCKERFILE_MAX, &text, err);

        if (r == 0 && dockerfile_convert((struct str){(const char *)buf_at(&text), text.len}, &opt, ret, &problems) < 0)
                r = first_problem(&problems, file, err);
        return r;
}

static int set_commands(json_t *request, const struct e2b_toml *toml, struct err *err)
{
        int r = 0;

        if (toml->start_cmd)
                r |= json_object_set_new(request, "startCmd", json_string(toml->start_cmd));
        if (toml->ready_cmd)
                r |= json_object_set_new(request, "readyCmd", json_string(toml->ready_cmd));
        return r == 0 ? 0 : err_set(err, ERR_LIMIT, "out of memory");
}

static int load_parts(const char *path, int folder, const char *architecture, struct ready_folder *f, struct err *err)
{
        AUTO_PROBLEMS struct problems problems = {0};
        const char *file;
        int r;

        r = read_toml(folder, &f->toml, err);
        if (r < 0)
                return r;
        file = f->toml.dockerfile ? f->toml.dockerfile : DOCKERFILE;
        r = read_dockerfile(folder, file, architecture, &f->build, err);
        if (r == 0)
                r = set_commands(f->build.request, &f->toml, err);
        if (r == 0)
                r = context_open(path, NULL, &f->context, &problems, err);
        if (r == 0)
                f->context.links_may_lead_out = true;
        if (r < 0 && problems_has_errors(&problems))
                r = first_problem(&problems, ".dockerignore", err);
        return r;
}

int ready_folder_load(const char *dir, const char *name, const char *architecture, struct ready_folder *ret,
                      struct err *err)
{
        struct ready_folder f = {.context.dir = -1};
        AUTO_CLOSE int folder = open_folder(dir, name);
        AUTO_FREE char *path = NULL;
        int r;

        if (folder < 0)
                return err_set(err, ERR_NOT_FOUND, "no ready-made template is called '%s'", name);
        if (asprintf(&path, "%s/%s", dir, name) < 0) {
                path = NULL;
                return err_set(err, ERR_LIMIT, "out of memory");
        }
        r = load_parts(path, folder, architecture, &f, err);
        if (r < 0) {
                ready_folder_done(&f);
                return err_wrap(err, "ready-made template %s", name);
        }
        *ret = f;
        return 0;
}

void ready_folder_done(struct ready_folder *f)
{
        e2b_toml_done(&f->toml);
        dockerfile_build_done(&f->build);
        if (f->context.dir >= 0)
                context_close(&f->context);
        *f = (struct ready_folder){.context.dir = -1};
}
