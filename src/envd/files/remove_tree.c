/* remove_tree.c - Remove: a file or a whole tree, in slices, so that other requests get their turn.  Goes on when
 * the client has left: half a tree is of no use to anyone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "envd/files/filesystem_rpc.h"
#include "envd/rpc/field.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/rpc.h"

#define NAMES_PER_TURN 512
#define LEVELS_MAX 64 /* directories held open at once; deeper directories are moved up first */
#define MOVED_ID_LEN 16

struct removal {
        struct rpc *rpc; /* NULL: the client has left */
        struct loop *loop;
        struct task task;
        char *path; /* owned */
        DIR *levels[LEVELS_MAX];
        char *names[LEVELS_MAX]; /* of levels[i] in its parent, owned; the first is unused */
        size_t level_count;
};

static void removal_free(struct removal *rm)
{
        loop_unpost(&rm->task);
        while (rm->level_count) {
                (void)closedir(rm->levels[--rm->level_count]);
                free(rm->names[rm->level_count]);
        }
        free(rm->path);
        free(rm);
}

static void removal_client_gone(struct rpc *rpc)
{
        struct removal *rm = rpc->state;

        rm->rpc = NULL;
}

static int removal_push_level(struct removal *rm, int parent, const char *name)
{
        AUTO_CLOSE int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        AUTO_FREE char *copy = NULL;
        DIR *dir;

        if (fd < 0)
                return -errno;
        copy = strdup(name);
        dir = copy ? fdopendir(fd) : NULL;
        if (!dir)
                return -ENOMEM;
        (void)TAKE_FD(fd);
        rm->levels[rm->level_count] = dir;
        rm->names[rm->level_count++] = TAKE_PTR(copy);
        return 0;
}

/* Move a directory that lies too deep into the first one, under a new name.  The first directory is read again when
 * it turns out not to be empty. */
static int removal_move_up(const struct removal *rm, int parent, const char *name)
{
        char moved[sizeof(".removed-") + MOVED_ID_LEN] = ".removed-";

        random_id(moved + strlen(moved), MOVED_ID_LEN);
        return renameat(parent, name, dirfd(rm->levels[0]), moved) < 0 ? -errno : 0;
}

/* Remove one name; a directory that is not empty is entered instead. */
static int removal_remove_name(struct removal *rm, int parent, const char *name)
{
        if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -errno;
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
                return 0;
        if (errno != ENOTEMPTY && errno != EEXIST)
                return errno == ENOTDIR ? -EPERM : -errno; /* no directory: the error of unlink */
        return rm->level_count < LEVELS_MAX ? removal_push_level(rm, parent, name) : removal_move_up(rm, parent, name);
}

static int removal_parent_fd(const struct removal *rm)
{
        return rm->level_count > 1 ? dirfd(rm->levels[rm->level_count - 2]) : AT_FDCWD;
}

/* The deepest directory has been read to its end: remove it. */
static int removal_pop_level(struct removal *rm)
{
        AUTO_FREE char *name = rm->names[rm->level_count - 1];
        int parent = removal_parent_fd(rm), r = 0;
        DIR *dir = rm->levels[rm->level_count - 1];

        if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
                r = -errno;
        rm->level_count--;
        (void)closedir(dir);
        if (r == -ENOTEMPTY) { /* files were added meanwhile: read the directory again */
                r = removal_push_level(rm, parent, name);
                return r < 0 ? r : 1;
        }
        return r < 0 ? r : rm->level_count > 0;
}

/* 1 there is more; 0 done; negative errno. */
static int removal_step(struct removal *rm)
{
        DIR *dir = rm->levels[rm->level_count - 1];
        const struct dirent *d;
        int r;

        errno = 0;
        d = readdir(dir);
        if (!d)
                return errno ? -errno : removal_pop_level(rm);
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
                return 1;
        r = removal_remove_name(rm, dirfd(dir), d->d_name);
        return r < 0 ? r : 1;
}

static void removal_turn(struct task *t)
{
        struct removal *rm = CONTAINER_OF(t, struct removal, task);
        int r = rm->level_count > 0;

        for (int i = 0; r > 0 && i < NAMES_PER_TURN; i++)
                r = removal_step(rm);
        if (r > 0) {
                loop_post(rm->loop, &rm->task);
                return;
        }
        if (rm->rpc) {
                struct rpc *rpc = rm->rpc;

                rpc->on_gone = NULL;
                if (r < 0)
                        rpc_failf(rpc, CONNECT_INTERNAL, "error removing file or directory: unlinkat %s: %s", rm->path,
                                  errno_text(-r));
                else
                        rpc_reply(rpc, json_object());
        }
        removal_free(rm);
}

void filesystem_rpc_remove(struct rpc *rpc)
{
        AUTO_FAULT struct fault f = {0};
        AUTO_USER struct user u = {0};
        AUTO_FREE char *path = NULL;
        struct removal *rm;
        const char *given;
        size_t n;
        int r;

        if (field_text(rpc->in, "path", &given, &f) < 0 || rpc_user_path(rpc, given, &u, &path, &f) < 0) {
                rpc_fail(rpc, &f);
                return;
        }
        for (n = strlen(path); n > 1 && path[n - 1] == '/';) /* "dir/" names the directory, "link/" the link */
                path[--n] = 0;
        rm = calloc(1, sizeof(*rm));
        if (!rm) {
                rpc_failf(rpc, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
                return;
        }
        *rm = (struct removal){
                .rpc = rpc, .loop = rpc->context->loop, .task.run = removal_turn, .path = TAKE_PTR(path)};
        rpc->state = rm;
        rpc->on_gone = removal_client_gone;
        r = removal_remove_name(rm, AT_FDCWD, rm->path);
        if (r < 0 && r != -ENOTDIR) {
                rpc->on_gone = NULL;
                rpc_failf(rpc, CONNECT_INTERNAL, "error removing file or directory: unlinkat %s: %s", rm->path,
                          errno_text(-r));
                removal_free(rm);
                return;
        }
        removal_turn(&rm->task);
}
