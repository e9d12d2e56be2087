#include "dockerfile/context.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "dockerfile/path_pattern.h"
#include "dockerfile/words.h"
#include "sys/fs.h"

#define DEPTH_MAX 200u

/* ---- open ---- */

/* 1: read; 0: there is no such file. */
static int read_ignore(int dir, const char *path, struct ignore *ret, struct problems *problems, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(IGNORE_MAX);
        AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
        ssize_t n;

        if (fd < 0 && errno == ENOENT)
                return 0;
        do {
                n = fd < 0 ? -errno : buf_fill(&text, fd, buf_room(&text));
        } while (n > 0);
        if (n < 0)
                return err_sys(err, (int)n, "read '%s'", path);
        if (ignore_parse((struct str){(const char *)buf_at(&text), text.len}, ret, problems) < 0)
                return err_set(err, ERR_INVALID, "%s", path);
        return 1;
}

int context_open(const char *dir, const char *dockerfile, struct context *ret, struct problems *problems,
                 struct err *err)
{
        AUTO_FREE char *own = NULL;
        struct context c = {.dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        int r = 0;

        if (c.dir < 0)
                return err_sys(err, -errno, "open '%s'", dir);
        if (dockerfile && asprintf(&own, "%s.dockerignore", dockerfile) > 0)
                r = read_ignore(AT_FDCWD, own, &c.ignore, problems, err);
        if (r == 0)
                r = read_ignore(c.dir, ".dockerignore", &c.ignore, problems, err);
        if (r < 0) {
                context_close(&c);
                return r;
        }
        *ret = c;
        return 0;
}

void context_close(struct context *c)
{
        close_fd(&c->dir);
        ignore_done(&c->ignore);
}

void context_files_done(struct context_files *f)
{
        for (size_t i = 0; i < f->count; i++) {
                free(f->at[i].path);
                free(f->at[i].name);
        }
        free(f->at);
        *f = (struct context_files){0};
}

/* ---- the tree ---- */

struct walk {
        const struct context *c;
        struct context_files *to;
        struct err *err;
};

static int add_entry(struct walk *w, const char *path, const char *name, const struct stat *st)
{
        struct context_entry *more, e = {.mode = st->st_mode, .size = st->st_size, .mtime = st->st_mtime};

        if (w->to->count >= CONTEXT_ENTRIES_MAX)
                return err_set(w->err, ERR_LIMIT, "more than %u files", CONTEXT_ENTRIES_MAX);
        more = w->to->count & (w->to->count + 1) /* room is made at 0, 1, 3, 7, ... */
                       ? w->to->at
                       : reallocarray(w->to->at, 2 * (w->to->count + 1), sizeof(*more));
        e.path = more ? strdup(path) : NULL;
        e.name = more && name ? strdup(name) : NULL;
        if (more)
                w->to->at = more;
        if (!e.path || (name && !e.name)) {
                free(e.path);
                free(e.name);
                return err_set(w->err, ERR_LIMIT, "out of memory");
        }
        more[w->to->count++] = e;
        return 0;
}

static void drop_last(struct walk *w)
{
        struct context_entry *e = &w->to->at[--w->to->count];

        free(e->path);
        free(e->name);
}

static char *join(const char *dir, const char *name)
{
        char *path;

        return asprintf(&path, "%s%s%s", dir, dir[0] ? "/" : "", name) < 0 ? NULL : path;
}

static bool is_left_out(const struct context *c, const char *path)
{
        return c->ignore.count && path[0] && ignore_matches(&c->ignore, str_of(path));
}

static bool is_copied(mode_t mode)
{
        return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode); /* sockets, pipes and devices have no content */
}

static int walk_dir(struct walk *w, const char *path, const char *name, unsigned depth);

/* One file or directory with all that is below it.  name: see context_entry; NULL: the path. */
static int walk_at(struct walk *w, const char *path, const char *name, const struct stat *st, unsigned depth)
{
        bool is_out = is_left_out(w->c, path);
        size_t before;
        int r;

        if (!is_copied(st->st_mode) || (is_out && !(S_ISDIR(st->st_mode) && w->c->ignore.has_keeps)))
                return 0;
        before = w->to->count;
        r = add_entry(w, path, name, st);
        if (r == 0 && S_ISDIR(st->st_mode))
                r = walk_dir(w, path, name, depth + 1);
        if (r == 0 && is_out && w->to->count == before + 1)
                drop_last(w); /* nothing in it was kept */
        return r;
}

static int walk_dir(struct walk *w, const char *path, const char *name, unsigned depth)
{
        AUTO_CLOSE int fd = openat(w->c->dir, path[0] ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        AUTO_DIR DIR *dir = fd < 0 ? NULL : sys_list(fd);
        struct dirent *d;
        int r = 0;

        if (!dir)
                return err_sys(w->err, -errno, "read directory '%s'", path[0] ? path : ".");
        if (depth > DEPTH_MAX)
                return err_set(w->err, ERR_LIMIT, "'%s': directories are nested too deeply", path);
        while (r == 0 && (d = sys_list_next(dir)) != NULL) {
                AUTO_FREE char *child = join(path, d->d_name);
                AUTO_FREE char *child_name = name ? join(name, d->d_name) : NULL;
                struct stat st;

                if (!child || (name && !child_name))
                        r = err_set(w->err, ERR_LIMIT, "out of memory");
                else if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                        r = walk_at(w, child, child_name, &st, depth);
                else if (errno != ENOENT) /* gone meanwhile */
                        r = err_sys(w->err, -errno, "read '%s'", child);
        }
        return r;
}

/* The source itself: a link is followed, and must not lead out of the context, but for folders of ours. */
static int stat_source(const struct context *c, const char *path, struct stat *st)
{
        struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = c->links_may_lead_out ? 0 : RESOLVE_BENEATH};
        AUTO_CLOSE int fd = (int)syscall(SYS_openat2, c->dir, path[0] ? path : ".", &how, sizeof(how));

        return fd < 0 || fstat(fd, st) < 0 ? -errno : 0;
}

/* ---- wildcards ---- */

static int find_matches(struct walk *w, const char *dir, struct str pattern, struct words *ret)
{
        AUTO_CLOSE int fd = openat(w->c->dir, dir[0] ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        AUTO_DIR DIR *list = fd < 0 ? NULL : sys_list(fd);
        struct str part;
        struct dirent *d;
        bool has_more = str_cut(&pattern, '/', &part);
        int r = 0;

        if (!list) /* no directory: nothing there matches */
                return errno == ENOTDIR || errno == ENOENT ? 0 : err_sys(w->err, -errno, "read directory '%s'", dir);
        while (r == 0 && (d = sys_list_next(list)) != NULL) {
                AUTO_FREE char *path = join(dir, d->d_name);

                if (!path)
                        return err_set(w->err, ERR_LIMIT, "out of memory");
                if (!path_pattern_matches(part, str_of(d->d_name), false))
                        continue;
                if (has_more)
                        r = find_matches(w, path, pattern, ret);
                else if (!is_left_out(w->c, path) && words_add(ret, str_of(path)) < 0)
                        r = err_set(w->err, ERR_LIMIT, "out of memory");
        }
        return r;
}

static int by_name(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Directories in front of the first part with a wildcard: what the server takes away from the names. */
static char *fixed_part(const char *pattern)
{
        size_t end = strcspn(pattern, "*?[");

        while (end && pattern[end - 1] != '/')
                end--;
        return strndup(pattern, end ? end - 1 : 0);
}

/* Docker puts each match into the destination by its own name, and of a directory what is in it. */
static int walk_flat(struct walk *w, const char *pattern, const struct words *matches)
{
        AUTO_FREE char *prefix = fixed_part(pattern);
        int r = prefix ? 0 : err_set(w->err, ERR_LIMIT, "out of memory");

        for (size_t i = 0; r == 0 && i < matches->count; i++) {
                const char *path = matches->at[i], *slash = strrchr(path, '/');
                AUTO_FREE char *name = join(prefix, slash ? slash + 1 : path);
                struct stat st;

                if (!name || stat_source(w->c, path, &st) < 0)
                        continue; /* a link that leads nowhere, or out */
                r = S_ISDIR(st.st_mode) ? walk_dir(w, path, prefix, 1) : add_entry(w, path, name, &st);
        }
        return r;
}

/* ---- hash ---- */

static void hash_number(struct sha256 *h, long long n)
{
        char text[24];
        int len = snprintf(text, sizeof(text), "%lld", n);

        sha256_add(h, text, (size_t)len);
}

static int hash_file(const struct context *c, const char *path, struct sha256 *h, struct err *err)
{
        AUTO_CLOSE int fd = openat(c->dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        AUTO_FREE char *block = malloc(256u << 10);
        ssize_t n = fd < 0 ? -1 : 0;

        if (!block)
                return err_set(err, ERR_LIMIT, "out of memory");
        while (fd >= 0 && (n = read(fd, block, 256u << 10)) > 0)
                sha256_add(h, block, (size_t)n);
        return n < 0 ? err_sys(err, -errno, "read '%s'", path) : 0;
}

static int hash_entry(const struct context *c, const struct context_entry *e, struct sha256 *h, struct err *err)
{
        char target[4096];
        ssize_t n;

        sha256_add(h, e->path, strlen(e->path));
        hash_number(h, e->mode);
        hash_number(h, e->size);
        if (S_ISREG(e->mode))
                return hash_file(c, e->path, h, err);
        if (!S_ISLNK(e->mode))
                return 0;
        n = readlinkat(c->dir, e->path, target, sizeof(target));
        if (n < 0)
                return err_sys(err, -errno, "read the link '%s'", e->path);
        sha256_add(h, target, (size_t)n);
        return 0;
}

static int compare_entries(const void *a, const void *b)
{
        return strcmp(((const struct context_entry *)a)->path, ((const struct context_entry *)b)->path);
}

static void hash_end(struct sha256 *h, struct context_files *f)
{
        uint8_t sum[SHA256_LEN];

        sha256_end(h, sum);
        hex_encode(sum, sizeof(sum), f->hash);
}

/* `words`: what the archive is for; the same words and files always give the same archive. */
static int hash_files(const struct context *c, const char *words, struct context_files *f, struct err *err)
{
        struct sha256 h;
        int r = 0;

        sha256_init(&h);
        sha256_add(&h, words, strlen(words));
        if (f->count) /* in flat archives the order says which file wins: their names stay as they are */
                qsort(f->at, f->count, sizeof(*f->at), compare_entries);
        for (size_t i = 0; r == 0 && i < f->count; i++)
                r = hash_entry(c, &f->at[i], &h, err);
        if (f->kind == CONTEXT_TEXT)
                sha256_add(&h, f->copy->content, strlen(f->copy->content));
        hash_end(&h, f);
        return r;
}

/* ---- one copy ---- */

static int finish(const struct context *c, const char *verb, const char *src, struct context_files *f, struct err *err)
{
        AUTO_FREE char *words = NULL;
        json_t *step = f->copy->step;
        int r;

        if (asprintf(&words, "%s %s %s", verb, src, f->copy->dest) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = hash_files(c, words, f, err);
        if (r < 0)
                return r;
        (void)json_array_set_new(json_object_get(step, "args"), 0, json_string(f->kind == CONTEXT_ARCHIVE ? "." : src));
        (void)json_object_set_new(step, "filesHash", json_string(f->hash));
        return 0;
}

static bool is_archive(const struct context *c, const char *path, mode_t mode, const char **program)
{
        AUTO_CLOSE int fd = S_ISREG(mode) ? openat(c->dir, path, O_RDONLY | O_CLOEXEC) : -1;

        *program = fd < 0 ? NULL : context_archive_program(fd);
        return *program != NULL;
}

/* A source without wildcards, or the one file that a wildcard found. */
static int find_one(struct walk *w, const char *src, const char *path, struct problems *problems)
{
        struct context_files *f = w->to;
        struct stat st;
        int r = stat_source(w->c, path, &st);

        if (r == -EXDEV || r == -ELOOP)
                problems_error(problems, f->copy->line, "'%s' is a link that leads out of the context", src);
        else if (r < 0 || is_left_out(w->c, path))
                problems_error(problems, f->copy->line, "'%s' is not in the context%s", src,
                               r < 0 ? "" : ": .dockerignore leaves it out");
        if (r < 0)
                return 0;
        r = walk_at(w, path, NULL, &st, 0);
        if (r == 0 && f->copy->kind == DOCKERFILE_ADD && f->count == 1 &&
            is_archive(w->c, path, st.st_mode, &f->program)) {
                f->kind = CONTEXT_ARCHIVE;
                if (!f->program[0])
                        f->program = NULL;
                return finish(w->c, "ADD", src, f, w->err);
        }
        return r == 0 && f->count ? finish(w->c, "COPY", src, f, w->err) : r;
}

/* Is a match a directory, or below one that a wildcard named?  Then the server would place it elsewhere than Docker. */
static bool is_flat(struct walk *w, const char *pattern, const struct words *matches)
{
        const char *wildcard = strpbrk(pattern, "*?[");
        struct stat st;

        if (strchr(wildcard, '/'))
                return true;
        for (size_t i = 0; i < matches->count; i++)
                if (fstatat(w->c->dir, matches->at[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
                        return true;
        return false;
}

static int find_many(struct walk *w, const char *src, const char *pattern, struct problems *problems)
{
        AUTO_WORDS struct words matches = {0};
        struct context_files *f = w->to;
        struct stat st;
        const char *program;
        int r = find_matches(w, "", str_of(pattern), &matches);

        if (r < 0)
                return r;
        if (matches.count)
                qsort(matches.at, matches.count, sizeof(*matches.at), by_name);
        if (matches.count == 1 && stat_source(w->c, matches.at[0], &st) == 0 && !S_ISDIR(st.st_mode))
                return find_one(w, matches.at[0], matches.at[0], problems);
        for (size_t i = 0; f->copy->kind == DOCKERFILE_ADD && i < matches.count; i++)
                if (stat_source(w->c, matches.at[i], &st) == 0 && is_archive(w->c, matches.at[i], st.st_mode, &program))
                        problems_error(problems, f->copy->line,
                                       "ADD of several files, one of them an archive, is not supported (%s)",
                                       matches.at[i]);
        if (matches.count == 0)
                problems_error(problems, f->copy->line, "nothing in the context matches '%s'", src);
        else if (matches.count > 1 && !str_ends(str_of(f->copy->dest), "/") && !str_ends(str_of(f->copy->dest), "."))
                problems_error(problems, f->copy->line,
                               "'%s' matches %zu files: the destination must be a directory, and end with /", src,
                               matches.count);
        if (problems_has_errors(problems))
                return 0;
        if (is_flat(w, pattern, &matches)) {
                r = walk_flat(w, pattern, &matches);
                return r < 0 ? r : finish(w->c, "COPY flat", src, f, w->err);
        }
        for (size_t i = 0; r == 0 && i < matches.count; i++)
                r = stat_source(w->c, matches.at[i], &st) < 0 ? 0 : walk_at(w, matches.at[i], NULL, &st, 0);
        return r < 0 ? r : finish(w->c, "COPY", src, f, w->err);
}

int context_find(const struct context *c, struct dockerfile_copy *copy, struct context_files *ret,
                 struct problems *problems, struct err *err)
{
        struct context_files found = {.copy = copy};
        struct walk w = {.c = c, .to = &found, .err = err};
        AUTO_FREE char *path = NULL;
        const char *shown;
        bool leaves;
        int r = 0;

        path = clean_path(str_of(copy->src), &leaves);
        if (!path)
                return err_set(err, ERR_LIMIT, "out of memory");
        shown = copy->src[0] == '/' ? path : copy->src; /* the top of the context, in Docker's words */
        if (copy->kind == DOCKERFILE_DOCUMENT) {
                found.kind = CONTEXT_TEXT;
                r = finish(c, "COPY", copy->src, &found, err);
        } else if (leaves) {
                problems_error(problems, copy->line, "'%s' is outside of the context", copy->src);
        } else if (path_pattern_has_wildcard(str_of(path))) {
                r = find_many(&w, shown, path, problems);
        } else {
                r = find_one(&w, shown, strcmp(path, ".") == 0 ? "" : path, problems);
        }
        if (r < 0) {
                context_files_done(&found);
                return r;
        }
        *ret = found;
        return 0;
}
