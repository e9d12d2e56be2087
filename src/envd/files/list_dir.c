/* list_dir.c - ListDir: a walk in pre-order, each directory sorted by name, in slices so that others get their turn. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/field.h"
#include "envd/files/filesystem_rpc.h"
#include "envd/rpc/rpc.h"

#define ENTRIES_PER_TURN 256
#define ENTRIES_MAX 100000

struct level {        /* one directory on the way down */
        char **names; /* owned, sorted */
        size_t count, at;
        size_t path_len, shown_len; /* of its own path in walk->path and walk->shown */
};

struct walk {
        struct rpc *rpc; /* whose state this is */
        struct task task;
        struct users users;
        struct entry_options opt;
        struct buf path, shown; /* where we are; as it is reported */
        struct level *levels;   /* owned */
        size_t level_count, level_room;
        uint32_t depth;
        json_t *entries;
};

static void level_done(struct level *l)
{
        for (size_t i = 0; i < l->count; i++)
                free(l->names[i]);
        free(l->names);
}

static void walk_free(struct rpc *rpc)
{
        struct walk *w = rpc->state;

        loop_unpost(&w->task);
        users_done(&w->users);
        buf_done(&w->path);
        buf_done(&w->shown);
        while (w->level_count)
                level_done(&w->levels[--w->level_count]);
        free(w->levels);
        json_decref(w->entries);
        free(w);
}

static int by_name(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(struct level *l, size_t *room, const char *name)
{
        char **grown;

        if (l->count == *room) {
                *room = *room ? *room * 2 : 64;
                grown = realloc(l->names, *room * sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                l->names = grown;
        }
        l->names[l->count] = strdup(name);
        return l->names[l->count] ? (l->count++, 0) : -ENOMEM;
}

static int read_names(DIR *dir, struct level *l)
{
        const struct dirent *d;
        size_t room = 0;

        while ((errno = 0, d = readdir(dir))) {
                if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
                        continue;
                if (l->count == ENTRIES_MAX)
                        return -EOVERFLOW;
                if (add_name(l, &room, d->d_name) < 0)
                        return -ENOMEM;
        }
        if (errno)
                return -errno;
        if (l->count)
                qsort(l->names, l->count, sizeof(*l->names), by_name);
        return 0;
}

/* Enter the directory at w->path. */
static int push_level(struct walk *w)
{
        struct level l = {.path_len = w->path.len, .shown_len = w->shown.len}, *grown;
        const char *path = buf_cstr(&w->path);
        DIR *dir;
        int r;

        if (w->level_count == w->level_room) {
                w->level_room = w->level_room ? w->level_room * 2 : 8;
                grown = realloc(w->levels, w->level_room * sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                w->levels = grown;
        }
        dir = path ? opendir(path) : NULL;
        if (!dir)
                return path ? -errno : -ENOMEM;
        r = read_names(dir, &l);
        (void)closedir(dir);
        if (r < 0) {
                level_done(&l);
                return r;
        }
        w->levels[w->level_count++] = l;
        return 0;
}

static void cut(struct buf *b, size_t len)
{
        b->len = len;
}

static int append(struct buf *b, const char *name)
{
        bool has_slash = b->len && buf_at(b)[b->len - 1] == '/';

        return has_slash || buf_addc(b, "/") == 0 ? buf_addc(b, name) : -ENAMETOOLONG;
}

/* The next entry of the deepest directory.  1 there is more; 0 done; negative errno. */
static int step(struct walk *w)
{
        struct level *l = &w->levels[w->level_count - 1];
        bool is_dir = false;
        json_t *entry;
        int r;

        cut(&w->path, l->path_len);
        cut(&w->shown, l->shown_len);
        if (l->at == l->count) {
                level_done(l);
                return --w->level_count > 0;
        }
        if (append(&w->path, l->names[l->at]) < 0 || append(&w->shown, l->names[l->at]) < 0)
                return -ENAMETOOLONG;
        l->at++;
        if (!buf_cstr(&w->path) || !buf_cstr(&w->shown))
                return -ENOMEM;
        r = entry_read((char *)buf_at(&w->path), (char *)buf_at(&w->shown), &w->opt, &entry, &is_dir);
        if (r < 0)
                return r == -ENOENT ? 1 : r; /* gone meanwhile */
        if (json_array_append_new(w->entries, entry) < 0)
                return -ENOMEM;
        if (json_array_size(w->entries) > ENTRIES_MAX)
                return -EOVERFLOW;
        if (is_dir && w->level_count < w->depth) {
                r = push_level(w);
                if (r < 0 && r != -ENOENT)
                        return r;
        }
        return 1;
}

static void fail(struct walk *w, int r)
{
        const char *where = buf_cstr(&w->shown);

        if (r == -EOVERFLOW)
                rpc_failf(w->rpc, CONNECT_RESOURCE_EXHAUSTED, "more than %d entries", ENTRIES_MAX);
        else
                rpc_failf(w->rpc, CONNECT_INTERNAL, "error reading directory %s: %s", where ? where : "",
                          errno_text(-r));
}

static void turn(struct task *t)
{
        struct walk *w = CONTAINER_OF(t, struct walk, task);
        json_t *out;
        int r = 1;

        for (int i = 0; r > 0 && i < ENTRIES_PER_TURN; i++)
                r = step(w);
        if (r > 0) {
                loop_post(w->rpc->context->loop, &w->task);
                return;
        }
        if (r < 0) {
                fail(w, r);
                return;
        }
        out = json_object();
        if (json_array_size(w->entries))
                (void)json_object_set(out, "entries", w->entries);
        rpc_reply(w->rpc, out);
}

/* The directory that is walked: the path, or what it links to.  Checked to be one. */
static int resolve(const char *path, char real[PATH_MAX], struct fault *f)
{
        struct stat st;

        if (stat(path, &st) < 0) {
                if (errno == ELOOP)
                        return fault_set(f, CONNECT_FAILED_PRECONDITION, "cyclic symlink or chain >255 links at \"%s\"",
                                         path);
                return fault_sys(f, errno == ENOENT ? CONNECT_NOT_FOUND : CONNECT_INTERNAL, errno,
                                 errno == ENOENT ? "path not found: stat %s" : "error reading directory: stat %s",
                                 path);
        }
        if (!S_ISDIR(st.st_mode))
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "path is not a directory: %s", path);
        if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
                if (!realpath(path, real))
                        return fault_sys(f, CONNECT_INTERNAL, errno, "error reading directory: %s", path);
                return 1;
        }
        return 0;
}

static struct walk *walk_create(struct rpc *rpc, const char *path, const char *shown, uint32_t depth)
{
        struct walk *w = calloc(1, sizeof(*w));

        if (!w)
                return NULL;
        *w = (struct walk){.rpc = rpc, .task.run = turn, .depth = depth ? depth : 1};
        buf_init(&w->path, 2 * PATH_MAX);
        buf_init(&w->shown, 2 * PATH_MAX);
        users_init(&w->users);
        w->opt = fs_entry_options(rpc, &w->users);
        w->entries = json_array();
        rpc->state = w;
        rpc->on_gone = walk_free;
        if (!w->entries || buf_addc(&w->path, path) < 0 || buf_addc(&w->shown, shown) < 0)
                return NULL;
        return w;
}

void fs_rpc_list_dir(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        AUTO_USER struct user u = {0};
        AUTO_FREE char *path = NULL;
        char real[PATH_MAX];
        const char *given;
        struct walk *w;
        uint32_t depth;
        int r;

        if (field_text(rpc->in, "path", &given, &f) < 0 || field_u32(rpc->in, "depth", &depth, &f) < 0 ||
            rpc_user_path(rpc, given, &u, &path, &f) < 0 || (r = resolve(path, real, &f)) < 0) {
                rpc_fail(rpc, &f);
                return;
        }
        w = walk_create(rpc, r > 0 ? real : path, path, depth);
        r = w ? push_level(w) : -ENOMEM;
        if (!w)
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
        else if (r < 0)
                fail(w, r);
        else
                turn(&w->task);
}
