/* This machine: a directory, and programs as children of this process (local_program.h). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/block.h"
#include "client/modes/local_program.h"
#include "client/modes/place.h"
#include "sys/fs.h"

#define DIRECTORY_MODE 0755
#define FILE_MODE 0644

struct local_place {
        struct place place;
        int dir; /* owned: the workspace */
};

static struct local_place *local_of(struct place *place)
{
        return CONTAINER_OF(place, struct local_place, place);
}

static int path_error(struct sg_error *err, int r, const char *what, const char *path)
{
        switch (r) {
        case -ENOENT: return error_set(err, SG_NOT_FOUND, "there is no '%.150s' in the workspace", path);
        case -ELOOP:
        case -EXDEV: return error_set(err, SG_INVALID, "'%.150s' leads through a symbolic link", path);
        case -ENOTDIR: return error_set(err, SG_INVALID, "'%.150s': a part of the path is no directory", path);
        case -EISDIR: return error_set(err, SG_INVALID, "'%.150s' is a directory", path);
        case -EACCES:
        case -EPERM: return error_set(err, SG_DENIED, "%s '%.150s': %s", what, path, strerror(-r));
        case -ENOSPC:
        case -EDQUOT: return error_set(err, SG_NO_SPACE, "%s '%.150s': %s", what, path, strerror(-r));
        default: return error_sys(err, r, "%s '%.150s'", what, path);
        }
}

static int local_run(struct place *place, const struct sg_program *program, const struct environment *env,
                     struct program_output *output, struct limit *limit, struct sg_error *err)
{
        struct local_place *l = local_of(place);
        AUTO_CLOSE int dir = program->cwd ? sys_open_dir(l->dir, program->cwd) : fcntl(l->dir, F_DUPFD_CLOEXEC, 3);
        AUTO_FREE char **strings = environment_strings(env);

        if (dir < 0)
                return path_error(err, program->cwd ? dir : -errno, "open", program->cwd ? program->cwd : ".");
        if (!strings)
                return error_no_memory(err);
        return local_program_run(program, dir, strings, output, limit, err);
}

/* The directory of `path`, which is made if it is missing; *ret_name: what is in it. */
static int open_parent(struct local_place *l, const char *path, const char **ret_name, struct sg_error *err)
{
        AUTO_CLOSE int dir = fcntl(l->dir, F_DUPFD_CLOEXEC, 3);
        const char *slash;

        if (dir < 0)
                return error_sys(err, -errno, "open the workspace");
        while ((slash = strchr(path, '/'))) {
                AUTO_FREE char *name = str_dup((struct str){path, (size_t)(slash - path)});
                int next = name ? sys_make_dir(dir, name, DIRECTORY_MODE) : -ENOMEM;

                if (next == 0)
                        next = sys_open_dir(dir, name);
                if (next < 0)
                        return path_error(err, next, "make the directory", name ? name : path);
                (void)close(dir);
                dir = next;
                path = slash + 1;
        }
        *ret_name = path;
        return TAKE_FD(dir);
}

static int local_write(struct place *place, const char *path, struct str bytes, struct limit *limit,
                       struct sg_error *err)
{
        AUTO_CLOSE int dir = -1;
        const char *name = NULL;
        struct stat st;
        mode_t mode = FILE_MODE;
        int r;

        (void)limit;
        dir = open_parent(local_of(place), path, &name, err);
        if (dir < 0)
                return dir;
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISLNK(st.st_mode)) {
                if (!S_ISREG(st.st_mode))
                        return error_set(err, SG_INVALID, "'%.150s' is no file", path);
                mode = st.st_mode & 07777;
        }
        r = sys_replace_at(dir, name, bytes.p, bytes.n, mode);
        return r < 0 ? path_error(err, r, "write", path) : 0;
}

static int local_read(struct place *place, const char *path, size_t max, struct limit *limit, char **ret,
                      size_t *ret_len, struct sg_error *err)
{
        AUTO(block_free_p) char *bytes = NULL;
        AUTO_CLOSE int fd = -1;
        struct stat st;
        size_t len = 0;
        ssize_t n = 1;

        (void)limit;
        fd = sys_open_beneath(local_of(place)->dir, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
        if (fd < 0)
                return path_error(err, fd, "open", path);
        if (fstat(fd, &st) < 0)
                return error_sys(err, -errno, "look at '%.150s'", path);
        if (!S_ISREG(st.st_mode))
                return error_set(err, SG_INVALID, "'%.150s' is no file", path);
        if ((uint64_t)st.st_size > max)
                return error_set(err, SG_TOO_LARGE, "'%.150s' has more than %zu bytes", path, max);
        bytes = block_create((size_t)st.st_size + 1);
        if (!bytes)
                return error_no_memory(err);
        while (len < (size_t)st.st_size && n > 0) { /* as long as it was when it was opened */
                n = read(fd, bytes + len, (size_t)st.st_size - len);
                if (n < 0 && errno == EINTR)
                        n = 1;
                else if (n < 0)
                        return error_sys(err, -errno, "read '%.150s'", path);
                else
                        len += (size_t)n;
        }
        *ret = TAKE_PTR(bytes);
        *ret_len = len;
        return 0;
}

static void local_free(struct place *place)
{
        struct local_place *l = local_of(place);

        close_fd(&l->dir);
        free(place->workspace);
        free(l);
}

static const struct place_ops local_ops = {
        .run = local_run, .write = local_write, .read = local_read, .free = local_free};

/* Each directory on the way that is missing. */
static int make_directories(const char *path)
{
        AUTO_FREE char *part = strdup(path);

        if (!part)
                return -ENOMEM;
        for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                if (mkdir(part, DIRECTORY_MODE) < 0 && errno != EEXIST)
                        return -errno;
                *slash = '/';
        }
        return mkdir(part, DIRECTORY_MODE) < 0 && errno != EEXIST ? -errno : 0;
}

int local_place_create(const char *workspace, struct place **ret, struct sg_error *err)
{
        struct local_place *l;
        int r;

        if (!workspace[0])
                return error_set(err, SG_INVALID, "the workspace has no name");
        r = make_directories(workspace);
        if (r < 0)
                return path_error(err, r, "make the workspace", workspace);
        l = calloc(1, sizeof(*l));
        if (!l)
                return error_no_memory(err);
        *l = (struct local_place){.place.ops = &local_ops, .dir = open(workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        r = l->dir < 0 ? -errno : 0;
        if (r == 0 && !(l->place.workspace = realpath(workspace, NULL)))
                r = -errno;
        if (r < 0) {
                local_free(&l->place);
                return path_error(err, r, "open the workspace", workspace);
        }
        *ret = &l->place;
        return 0;
}
