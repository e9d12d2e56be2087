/* list_dir.c - ListDir: a walk in pre-order, each directory sorted by name, in slices, so that other requests get
 * their turn. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "envd/files/filesystem_rpc.h"
#include "envd/rpc/field.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/rpc.h"

#define ENTRIES_PER_TURN 256
#define ENTRIES_MAX 100000

struct listing_level { /* one directory on the way down */
        char **names;  /* owned, sorted */
        size_t count, at;
        size_t path_len, shown_len; /* of its own path in dir_listing.path and .shown */
};

struct dir_listing {
        struct rpc *rpc; /* this struct is its state */
        struct task task;
        struct users users;
        struct file_entry_options opt;
        struct buf path, shown;       /* path of the current entry; the same as it is reported */
        struct listing_level *levels; /* owned */
        size_t level_count, level_room;
        uint32_t depth;
        json_t *entries;
};

static void listing_level_done(struct listing_level *l)
{
        for (size_t i = 0; i < l->count; i++)
                free(l->names[i]);
        free(l->names);
}

static void dir_listing_free(struct rpc *rpc)
{
        struct dir_listing *dl = rpc->state;

        loop_unpost(&dl->task);
        users_done(&dl->users);
        buf_done(&dl->path);
        buf_done(&dl->shown);
        while (dl->level_count)
                listing_level_done(&dl->levels[--dl->level_count]);
        free(dl->levels);
        json_decref(dl->entries);
        free(dl);
}

static int compare_names(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static int listing_add_name(struct listing_level *l, size_t *room, const char *name)
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

static int listing_read_names(DIR *dir, struct listing_level *l)
{
        const struct dirent *d;
        size_t room = 0;

        while ((errno = 0, d = readdir(dir))) {
                if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
                        continue;
                if (l->count == ENTRIES_MAX)
                        return -EOVERFLOW;
                if (listing_add_name(l, &room, d->d_name) < 0)
                        return -ENOMEM;
        }
        if (errno)
                return -errno;
        if (l->count)
                qsort(l->names, l->count, sizeof(*l->names), compare_names);
        return 0;
}

/* Enter the directory at dl->path. */
static int listing_push_level(struct dir_listing *dl)
{
        struct listing_level l = {.path_len = dl->path.len, .shown_len = dl->shown.len}, *grown;
        const char *path = buf_cstr(&dl->path);
        DIR *dir;
        int r;

        if (dl->level_count == dl->level_room) {
                dl->level_room = dl->level_room ? dl->level_room * 2 : 8;
                grown = realloc(dl->levels, dl->level_room * sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                dl->levels = grown;
        }
        dir = path ? opendir(path) : NULL;
        if (!dir)
                return path ? -errno : -ENOMEM;
        r = listing_read_names(dir, &l);
        (void)closedir(dir);
        if (r < 0) {
                listing_level_done(&l);
                return r;
        }
        dl->levels[dl->level_count++] = l;
        return 0;
}

static void path_cut(struct buf *b, size_t len)
{
        b->len = len;
}

static int path_append(struct buf *b, const char *name)
{
        bool has_slash = b->len && buf_at(b)[b->len - 1] == '/';

        return has_slash || buf_addc(b, "/") == 0 ? buf_addc(b, name) : -ENAMETOOLONG;
}

/* The next entry of the deepest directory.  1 there is more; 0 done; negative errno. */
static int listing_step(struct dir_listing *dl)
{
        struct listing_level *l = &dl->levels[dl->level_count - 1];
        bool is_dir = false;
        json_t *entry;
        int r;

        path_cut(&dl->path, l->path_len);
        path_cut(&dl->shown, l->shown_len);
        if (l->at == l->count) {
                listing_level_done(l);
                return --dl->level_count > 0;
        }
        if (path_append(&dl->path, l->names[l->at]) < 0 || path_append(&dl->shown, l->names[l->at]) < 0)
                return -ENAMETOOLONG;
        l->at++;
        if (!buf_cstr(&dl->path) || !buf_cstr(&dl->shown))
                return -ENOMEM;
        r = file_entry_read((char *)buf_at(&dl->path), (char *)buf_at(&dl->shown), &dl->opt, &entry, &is_dir);
        if (r < 0)
                return r == -ENOENT ? 1 : r; /* gone meanwhile */
        if (json_array_append_new(dl->entries, entry) < 0)
                return -ENOMEM;
        if (json_array_size(dl->entries) > ENTRIES_MAX)
                return -EOVERFLOW;
        if (is_dir && dl->level_count < dl->depth) {
                r = listing_push_level(dl);
                if (r < 0 && r != -ENOENT)
                        return r;
        }
        return 1;
}

static void listing_fail(struct dir_listing *dl, int r)
{
        const char *where = buf_cstr(&dl->shown);

        if (r == -EOVERFLOW)
                rpc_failf(dl->rpc, CONNECT_RESOURCE_EXHAUSTED, "more than %d entries", ENTRIES_MAX);
        else
                rpc_failf(dl->rpc, CONNECT_INTERNAL, "error reading directory %s: %s", where ? where : "",
                          errno_text(-r));
}

static void listing_turn(struct task *t)
{
        struct dir_listing *dl = CONTAINER_OF(t, struct dir_listing, task);
        json_t *out;
        int r = 1;

        for (int i = 0; r > 0 && i < ENTRIES_PER_TURN; i++)
                r = listing_step(dl);
        if (r > 0) {
                loop_post(dl->rpc->context->loop, &dl->task);
                return;
        }
        if (r < 0) {
                listing_fail(dl, r);
                return;
        }
        out = json_object();
        if (json_array_size(dl->entries))
                (void)json_object_set(out, "entries", dl->entries);
        rpc_reply(dl->rpc, out);
}

/* Check that path is a directory.  1: path is a link, and real is where it leads; 0: path is the directory itself;
 * -1 with *f set. */
static int listing_resolve(const char *path, char real[PATH_MAX], struct fault *f)
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

static struct dir_listing *dir_listing_create(struct rpc *rpc, const char *path, const char *shown, uint32_t depth)
{
        struct dir_listing *dl = calloc(1, sizeof(*dl));

        if (!dl)
                return NULL;
        *dl = (struct dir_listing){.rpc = rpc, .task.run = listing_turn, .depth = depth ? depth : 1};
        buf_init(&dl->path, 2 * PATH_MAX);
        buf_init(&dl->shown, 2 * PATH_MAX);
        users_init(&dl->users);
        dl->opt = filesystem_entry_options(rpc, &dl->users);
        dl->entries = json_array();
        rpc->state = dl;
        rpc->on_gone = dir_listing_free;
        if (!dl->entries || buf_addc(&dl->path, path) < 0 || buf_addc(&dl->shown, shown) < 0)
                return NULL;
        return dl;
}

void filesystem_rpc_list_dir(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        AUTO_USER struct user u = {0};
        AUTO_FREE char *path = NULL;
        char real[PATH_MAX];
        const char *given;
        struct dir_listing *dl;
        uint32_t depth;
        int r;

        if (field_text(rpc->in, "path", &given, &f) < 0 || field_u32(rpc->in, "depth", &depth, &f) < 0 ||
            rpc_user_path(rpc, given, &u, &path, &f) < 0 || (r = listing_resolve(path, real, &f)) < 0) {
                rpc_fail(rpc, &f);
                return;
        }
        dl = dir_listing_create(rpc, r > 0 ? real : path, path, depth);
        r = dl ? listing_push_level(dl) : -ENOMEM;
        if (!dl)
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
        else if (r < 0)
                listing_fail(dl, r);
        else
                listing_turn(&dl->task);
}
