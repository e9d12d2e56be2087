#include "engine/layers/layer_merge_lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/auto.h"
#include "engine/layers/layer_merge_impl.h"

void dir_stack_close(struct dir_stack *s)
{
        while (s->n > 0)
                close_fd(&s->dirs[--s->n].fd);
}

int lookup_init(struct layer_lookup *l, const int *roots)
{
        l->roots = roots;
        l->path = malloc(LOOKUP_PATH_MAX + 1);
        l->next = malloc(LOOKUP_PATH_MAX + 1);
        return l->path && l->next ? 0 : -ENOMEM;
}

void lookup_done(struct layer_lookup *l)
{
        free(l->path);
        free(l->next);
}

/* 1: a directory, opened.  0: nothing is there, or something that ends the search. */
static int find_directory(struct layer_lookup *l, int at, const char *name, int *ret_fd)
{
        struct stat st;
        int fd;

        if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT || errno == ENAMETOOLONG ? 0 : -errno;
        if (!S_ISDIR(st.st_mode)) { /* a whiteout, or any other file */
                l->is_stopped = true;
                return 0;
        }
        fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 1;
}

static bool is_component(const char *s, size_t n)
{
        return n > 0 && n <= NAME_MAX && !(s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')));
}

/* A name, or "/name/name...".  Users of a sandbox cannot set redirects, so anything else is damaged. */
static bool is_redirect(const char *s)
{
        if (s[0] != '/')
                return !strchr(s, '/') && is_component(s, strlen(s));
        while (*s) {
                size_t n = strcspn(s + 1, "/");

                if (!is_component(s + 1, n))
                        return false;
                s += 1 + n;
        }
        return true;
}

/* The new l->path is [the first `prefix` bytes of it +] the redirect + post, which is the end of l->path. */
static int follow_redirect(struct layer_lookup *l, size_t prefix, const char *post)
{
        bool is_absolute = l->redirect[0] == '/';
        size_t n = strlen(l->redirect), m = strlen(post);
        char *old = l->path;

        if (!is_redirect(l->redirect))
                return -EBADMSG;
        if (is_absolute) {
                prefix = 0;
                l->is_stopped = false; /* goes on below an opaque directory on the way */
        }
        if (prefix + n + m > LOOKUP_PATH_MAX)
                return -ENAMETOOLONG;
        memcpy(l->next, l->path, prefix);
        memcpy(l->next + prefix, l->redirect, n);
        memcpy(l->next + prefix + n, post, m + 1);
        l->path = l->next;
        l->next = old;
        return 0;
}

static int follow_marks(struct layer_lookup *l, int fd, size_t prefix, const char *post)
{
        char opaque;
        ssize_t n = fgetxattr(fd, OVERLAY_OPAQUE, &opaque, 1);

        if (n == 1 && opaque == 'y') {
                l->is_stopped = true;
                return 0;
        }
        n = fgetxattr(fd, OVERLAY_REDIRECT, l->redirect, XATTR_SIZE_MAX);
        if (n < 0)
                return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
        if (memchr(l->redirect, '\0', (size_t)n))
                return -EBADMSG;
        l->redirect[n] = '\0';
        return follow_redirect(l, prefix, post);
}

/* Look up the absolute l->path in one layer.  1: found; marks on the way may have changed l->path for the next layer. */
static int walk_from_root(struct layer_lookup *l, int root, int *ret_fd)
{
        AUTO_CLOSE int at = -1;
        size_t rest = strlen(l->path) - 1;

        for (;;) {
                const char *s = l->path + strlen(l->path) - rest;
                size_t n = strcspn(s, "/");
                char name[NAME_MAX + 1];
                int fd, r;

                memcpy(name, s, n); /* fits: is_redirect() has checked it */
                name[n] = '\0';
                r = find_directory(l, at < 0 ? root : at, name, &fd);
                if (r <= 0)
                        return r;
                close_fd(&at);
                at = fd;
                r = follow_marks(l, at, (size_t)(s - l->path), s + n);
                if (r < 0)
                        return r;
                if (rest == n) {
                        *ret_fd = TAKE_FD(at);
                        return 1;
                }
                rest -= n + 1;
        }
}

static void dir_stack_add(struct dir_stack *s, int fd, unsigned layer)
{
        s->dirs[s->n++] = (struct stack_dir){.fd = fd, .layer = (uint8_t)layer};
}

static int look_beside_parent(struct layer_lookup *l, const struct dir_stack *parent, size_t first,
                              struct dir_stack *found)
{
        int r = 0, fd;

        for (size_t i = first; i < parent->n && !l->is_stopped && l->path[0] != '/' && r >= 0; i++) {
                r = find_directory(l, parent->dirs[i].fd, l->path, &fd);
                if (r <= 0)
                        continue;
                dir_stack_add(found, fd, parent->dirs[i].layer);
                r = follow_marks(l, fd, 0, "");
        }
        return r;
}

static int look_from_roots(struct layer_lookup *l, unsigned below, struct dir_stack *found)
{
        int r = 0, fd;

        for (unsigned i = below; i-- > 0 && !l->is_stopped && r >= 0;) {
                r = walk_from_root(l, l->roots[i], &fd);
                if (r > 0)
                        dir_stack_add(found, fd, i);
        }
        return r;
}

int lookup_directory(struct layer_lookup *l, const struct dir_stack *parent, size_t first, const char *name,
                     struct dir_stack *ret, enum lookup_end *ret_end)
{
        struct dir_stack found = {.n = 0};
        size_t n = strlen(name);
        int r;

        l->is_stopped = false;
        memcpy(l->path, name, n + 1);
        r = look_beside_parent(l, parent, first, &found);
        if (r >= 0 && !l->is_stopped && l->path[0] == '/')
                r = look_from_roots(l, found.dirs[found.n - 1].layer, &found);
        if (r >= 0 && found.n == 0)
                r = -ESTALE; /* the layer changed meanwhile */
        if (r < 0) {
                dir_stack_close(&found);
                return r;
        }
        *ret = found;
        *ret_end = l->is_stopped ? LOOKUP_STOPS : l->path[0] == '/' ? LOOKUP_PATH : LOOKUP_NAME;
        return 0;
}
