#include "control/catalogue/uploads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "model/build/build_names.h"

int uploads_init(struct uploads *u, struct loop *loop, const char *dir, struct err *err)
{
        int r;

        *u = (struct uploads){.dir = -1};
        if (mkdir(dir, 0700) < 0 && errno != EEXIST)
                return err_sys(err, -errno, "create '%s'", dir);
        u->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (u->dir < 0)
                return err_sys(err, -errno, "open '%s'", dir);
        r = upload_writer_init(&u->writer, loop);
        return r < 0 ? err_sys(err, r, "uploads") : 0;
}

void uploads_done(struct uploads *u)
{
        upload_writer_done(&u->writer);
        if (u->dir > 0)
                close_fd(&u->dir);
}

/* The fd of the team's directory; negative errno. */
int uploads_team_dir(const struct uploads *u, int64_t team, bool make)
{
        char name[24];
        int fd;

        (void)snprintf(name, sizeof(name), "%lld", (long long)team);
        if (make && mkdirat(u->dir, name, 0700) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(u->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 ? -errno : fd;
}

bool uploads_has(const struct uploads *u, int64_t team, const char *hash)
{
        AUTO_CLOSE int dir = uploads_team_dir(u, team, false);

        return dir >= 0 && build_hash_is_valid(hash) && utimensat(dir, hash, NULL, AT_SYMLINK_NOFOLLOW) == 0;
}

int uploads_open(const struct uploads *u, int64_t team, const char *hash, int *ret_fd, struct err *err)
{
        AUTO_CLOSE int dir = uploads_team_dir(u, team, false);
        int fd;

        if (!build_hash_is_valid(hash))
                return err_set(err, ERR_INVALID, "Invalid files hash");
        fd = dir < 0 ? -1 : openat(dir, hash, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return err_set(err, ERR_NOT_FOUND, "the files with the hash %.16s... were not uploaded", hash);
        (void)futimens(fd, NULL); /* used now */
        *ret_fd = fd;
        return 0;
}

int uploads_fail(struct err *err, int r)
{
        if (r == -ENOSPC || r == -EDQUOT)
                return err_set(err, ERR_NO_SPACE, "upload: the server's disk is full");
        return err_sys(err, r, "upload");
}

int upload_begin(const struct uploads *u, int64_t team, const char *hash, struct upload *ret, struct err *err)
{
        struct upload up = {.fd = -1};

        if (!build_hash_is_valid(hash))
                return err_set(err, ERR_INVALID, "Invalid files hash");
        up.dir = uploads_team_dir(u, team, true);
        if (up.dir < 0)
                return uploads_fail(err, up.dir);
        memcpy(up.hash, hash, sizeof(up.hash));
        memcpy(up.name, UPLOAD_BEGUN, sizeof(UPLOAD_BEGUN));
        random_id(up.name + sizeof(UPLOAD_BEGUN) - 1, 20);
        up.fd = openat(up.dir, up.name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (up.fd < 0) {
                int r = -errno;

                close_fd(&up.dir);
                return uploads_fail(err, r);
        }
        *ret = up;
        return 0;
}

int upload_add(struct upload *up, const void *p, uint64_t n, struct err *err)
{
        const char *at = p;

        while (n > 0) {
                ssize_t w = write(up->fd, at, n);

                if (w < 0 && errno == EINTR)
                        continue;
                if (w <= 0)
                        return uploads_fail(err, w < 0 ? -errno : -EIO);
                at += w;
                n -= (uint64_t)w;
        }
        return 0;
}

void upload_drop(struct upload *up)
{
        if (up->fd < 0 || !up->name[0])
                return;
        (void)unlinkat(up->dir, up->name, 0);
        close_fd(&up->fd);
        close_fd(&up->dir);
        up->name[0] = 0;
}

int upload_end(struct upload *up, struct err *err)
{
        int r = renameat(up->dir, up->name, up->dir, up->hash) < 0 ? -errno : 0;

        if (r < 0) {
                upload_drop(up);
                return uploads_fail(err, r);
        }
        close_fd(&up->fd);
        close_fd(&up->dir);
        up->name[0] = 0;
        return 0;
}

/* ---- collecting ---- */

static void collect_team(int dir, int64_t now_s)
{
        int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;

        if (!d) {
                close_fd(&fd);
                return;
        }
        while ((e = readdir(d))) {
                bool is_begun = str_starts(str_of(e->d_name), UPLOAD_BEGUN);
                struct stat st;

                if ((!is_begun && !build_hash_is_valid(e->d_name)) ||
                    fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                if (now_s - st.st_mtim.tv_sec > (is_begun ? UPLOAD_BEGUN_KEPT_S : UPLOADS_KEPT_S) &&
                    unlinkat(dir, e->d_name, 0) == 0)
                        log_info("upload.removed", "name=%.16s", e->d_name);
        }
        (void)closedir(d);
}

void uploads_collect(const struct uploads *u, int64_t now_s)
{
        int fd = openat(u->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;

        if (!d) {
                close_fd(&fd);
                return;
        }
        while ((e = readdir(d))) {
                AUTO_CLOSE int team = e->d_name[0] == '.' ? -1
                                                          : openat(u->dir, e->d_name,
                                                                   O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

                if (team >= 0)
                        collect_team(team, now_s);
        }
        (void)closedir(d);
}
