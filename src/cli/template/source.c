#include "cli/template/source.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/options.h"
#include "dockerfile/ready_folder.h"

#define TOML "e2b.toml"

static const char *const dockerfile_names[] = {"e2b.Dockerfile", "Dockerfile"};

void source_done(struct source *s)
{
        for (size_t i = 0; s->files && i < s->build.copy_count; i++)
                context_files_done(&s->files[i]);
        free(s->files);
        if (s->has_context)
                context_close(&s->context);
        dockerfile_build_done(&s->build);
        e2b_toml_done(&s->toml);
        free(s->dir);
        free(s->dockerfile);
        free(s->name);
        *s = (struct source){0};
}

/* ---- where ---- */

static bool is_dir(const char *path)
{
        struct stat st;

        return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The folder of a template that comes with the program. */
static char *ready_made(const char *name)
{
        AUTO_FREE char *dir = ready_folders_dir();
        AUTO_FREE char *meant = dir ? ready_folder_meaning(dir, name) : NULL;
        char *path;

        if (!dir || !ready_folder_exists(dir, name) || asprintf(&path, "%s/%s", dir, meant ? meant : name) < 0)
                return NULL;
        return path;
}

static int find_dir(struct source *s, const char *given, struct err *err)
{
        s->is_ready_made = given && !is_dir(given);
        s->dir = s->is_ready_made ? ready_made(given) : strdup(given ? given : ".");
        if (!s->dir)
                return err_set(err, ERR_NOT_FOUND,
                               "'%s' is no directory, and no template of that name comes with the program", given);
        return 0;
}

/* ---- files ---- */

static int read_file(const char *path, size_t most, struct buf *out, struct err *err)
{
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -errno : 0;

        buf_init(out, most + 1);
        while (fd >= 0 && (n = buf_fill(out, fd, buf_room(out))) > 0)
                ;
        if (n == -E2BIG)
                return 0; /* whoever reads it says that it is too large */
        return n < 0 ? err_sys(err, (int)n, "read '%s'", path) : 0;
}

static char *path_in(const struct source *s, const char *name)
{
        char *path;

        if (name[0] == '/' || strcmp(s->dir, ".") == 0)
                return strdup(name);
        return asprintf(&path, "%s/%s", s->dir, name) < 0 ? NULL : path;
}

/* All of them on stderr: FILE:LINE: what. */
static void tell(struct source *s, const char *file, const struct problems *p, bool tells_notes)
{
        static const char *const words[] = {"", "warning: ", "note: "};

        for (size_t i = 0; i < p->count; i++) {
                const struct problem *one = &p->at[i];

                if (one->level == PROBLEM_NOTE && !tells_notes)
                        continue;
                if (one->line)
                        (void)fprintf(stderr, "%s:%u: %s%s\n", file, one->line, words[one->level], one->text);
                else
                        (void)fprintf(stderr, "%s: %s%s\n", file, words[one->level], one->text);
        }
        s->errors += p->errors + p->lacks_memory;
}

/* ---- e2b.toml ---- */

static int read_toml(struct source *s, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(0);
        AUTO_PROBLEMS struct problems problems = {0};
        AUTO_FREE char *path = path_in(s, TOML);
        int r;

        if (!path)
                return err_set(err, ERR_LIMIT, "out of memory");
        if (access(path, F_OK) < 0)
                return 0;
        r = read_file(path, E2B_TOML_MAX, &text, err);
        if (r < 0)
                return r;
        (void)e2b_toml_parse((struct str){text.len ? (const char *)buf_at(&text) : "", text.len}, &s->toml, &problems);
        tell(s, path, &problems, true);
        return 0;
}

/* ---- the Dockerfile ---- */

static int find_dockerfile(struct source *s, const struct cli_options *o, struct err *err)
{
        if (o->file)
                s->dockerfile = strdup(o->file);
        else if (s->toml.dockerfile)
                s->dockerfile = path_in(s, s->toml.dockerfile);
        for (size_t i = 0; !s->dockerfile && i < ARRAY_LEN(dockerfile_names); i++) {
                s->dockerfile = path_in(s, dockerfile_names[i]);
                if (s->dockerfile && access(s->dockerfile, F_OK) < 0) {
                        free(s->dockerfile);
                        s->dockerfile = NULL;
                }
        }
        if (!s->dockerfile)
                return err_set(err, ERR_NOT_FOUND, "there is no e2b.Dockerfile and no Dockerfile in '%s'", s->dir);
        return 0;
}

/* The name of this machine's architecture, as images have it. */
static const char *architecture(struct utsname *u)
{
        if (uname(u) < 0 || strcmp(u->machine, "x86_64") == 0)
                return "amd64";
        return strcmp(u->machine, "aarch64") == 0 ? "arm64" : u->machine;
}

static int read_dockerfile(struct source *s, const struct cli_options *o, bool tells_notes, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(0);
        AUTO_PROBLEMS struct problems problems = {0}, of_ignore = {0};
        struct utsname u;
        struct dockerfile_options opt = {.build_args = o->build_args, .architecture = architecture(&u)};
        int r = read_file(s->dockerfile, 1u << 20, &text, err);

        if (r < 0)
                return r;
        if (dockerfile_convert((struct str){text.len ? (const char *)buf_at(&text) : "", text.len}, &opt, &s->build,
                               &problems) == 0) {
                r = context_open(s->dir, s->dockerfile, &s->context, &of_ignore, err);
                s->has_context = r == 0;
                s->context.links_may_lead_out = s->is_ready_made;
                if (r == -EINVAL && of_ignore.count) {
                        tell(s, err->msg, &of_ignore, true);
                        r = 0;
                }
        }
        if (s->has_context)
                s->files = calloc(s->build.copy_count + 1, sizeof(*s->files));
        for (size_t i = 0; r == 0 && s->files && i < s->build.copy_count; i++)
                r = context_find(&s->context, &s->build.copies[i], &s->files[i], &problems, err);
        problems_sort(&problems);
        tell(s, s->dockerfile, &problems, tells_notes);
        return r < 0 ? err_wrap(err, "%s", s->dockerfile) : 0;
}

/* ---- what the request has besides ---- */

static void set_text(json_t *request, const char *key, const char *option, const char *of_toml)
{
        const char *text = option ? option : of_toml;

        if (text && text[0])
                (void)json_object_set_new(request, key, json_string(text));
        else if (text) /* "": none */
                (void)json_object_del(request, key);
}

/* The folder's own name, if it can be a template's. */
static char *name_of_dir(const char *dir)
{
        AUTO_FREE char *path = realpath(dir, NULL);
        const char *slash = path ? strrchr(path, '/') : NULL;
        char *name = slash && slash[1] ? strdup(slash + 1) : NULL;

        for (char *p = name; p && *p; p++) {
                *p = (char)tolower((unsigned char)*p);
                if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_') {
                        free(name);
                        return NULL;
                }
        }
        return name;
}

int source_read(const struct cli_options *o, bool tells_notes, struct source *ret, struct err *err)
{
        int r;

        *ret = (struct source){0};
        r = find_dir(ret, o->args[0], err);
        if (r == 0)
                r = read_toml(ret, err);
        if (r == 0)
                r = find_dockerfile(ret, o, err);
        if (r == 0)
                r = read_dockerfile(ret, o, tells_notes, err);
        if (r < 0)
                return r;
        set_text(ret->build.request, "startCmd", o->start_cmd, ret->toml.start_cmd);
        set_text(ret->build.request, "readyCmd", o->ready_cmd, ret->toml.ready_cmd);
        if (o->no_cache && ret->build.request)
                (void)json_object_set_new(ret->build.request, "force", json_true());
        if (o->name || ret->toml.template_name)
                ret->name = strdup(o->name ? o->name : ret->toml.template_name);
        else
                ret->name = ret->toml.template_id ? strdup(ret->toml.template_id) : name_of_dir(ret->dir);
        return 0;
}
