#include "puller/blobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/map.h"

#define TMP_PREFIX ".tmp-"
#define PIECE (256u << 10)

struct blobs {
        int dir, sums; /* owned: blobs/, blobs/sha256/ */
        pthread_mutex_t lock;
        struct map claims; /* digest to itself; under `lock` */
};

static const char *hex_of(const char *digest)
{
        return digest + sizeof("sha256:") - 1;
}

static void sweep(int dir, const char *prefix, time_t oldest)
{
        int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        const struct dirent *entry;
        struct stat st;

        if (!d) {
                if (fd >= 0)
                        (void)close(fd);
                return;
        }
        while ((entry = readdir(d)))
                if (str_starts(str_of(entry->d_name), prefix) &&
                    fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
                    st.st_mtime < oldest)
                        (void)unlinkat(dir, entry->d_name, 0);
        (void)closedir(d);
}

int blobs_create(const char *path, uint32_t kept_s, struct blobs **ret, struct err *err)
{
        struct blobs *b = calloc(1, sizeof(*b));
        time_t oldest = time(NULL) - (time_t)kept_s;

        if (!b)
                return err_sys(err, -ENOMEM, "blobs");
        b->sums = -1;
        (void)pthread_mutex_init(&b->lock, NULL);
        b->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (b->dir < 0 || (mkdirat(b->dir, "sha256", 0700) < 0 && errno != EEXIST)) {
                int r = -errno;

                b = blobs_free(b);
                return err_sys(err, r, "directory blobs");
        }
        b->sums = openat(b->dir, "sha256", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (b->sums < 0) {
                int r = -errno;

                b = blobs_free(b);
                return err_sys(err, r, "directory blobs/sha256");
        }
        sweep(b->dir, TMP_PREFIX, oldest);
        sweep(b->sums, "", oldest);
        *ret = b;
        return 0;
}

struct blobs *blobs_free(struct blobs *b)
{
        if (!b)
                return NULL;
        close_fd(&b->dir);
        close_fd(&b->sums);
        map_done(&b->claims);
        (void)pthread_mutex_destroy(&b->lock);
        free(b);
        return NULL;
}

bool blobs_has(struct blobs *b, const char *digest)
{
        static const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};

        return utimensat(b->sums, hex_of(digest), now, AT_SYMLINK_NOFOLLOW) == 0;
}

int blobs_open(struct blobs *b, const char *digest, int *ret_fd, struct err *err)
{
        int fd = openat(b->sums, hex_of(digest), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 && errno == ENOENT)
                return err_set(err, ERR_NOT_FOUND, "no blob '%s'", digest);
        if (fd < 0)
                return err_sys(err, -errno, "open blob '%s'", digest);
        *ret_fd = fd;
        return 0;
}

bool blobs_try_claim(struct blobs *b, const char *digest)
{
        bool is_mine;

        (void)pthread_mutex_lock(&b->lock);
        is_mine = !map_get(&b->claims, str_of(digest)) && map_put(&b->claims, str_of(digest), b, NULL) == 0;
        (void)pthread_mutex_unlock(&b->lock);
        return is_mine;
}

void blobs_release(struct blobs *b, const char *digest)
{
        (void)pthread_mutex_lock(&b->lock);
        (void)map_remove(&b->claims, str_of(digest));
        (void)pthread_mutex_unlock(&b->lock);
}

static void tmp_name(const char *digest, char out[80])
{
        (void)snprintf(out, 80, TMP_PREFIX "%s", hex_of(digest));
}

void blobs_remove(struct blobs *b, const char *digest)
{
        char name[80];

        if (!blobs_try_claim(b, digest))
                return;
        tmp_name(digest, name);
        (void)unlinkat(b->dir, name, 0);
        (void)unlinkat(b->sums, hex_of(digest), 0);
        blobs_release(b, digest);
}

int blobs_check_room(struct blobs *b, uint64_t bytes, struct err *err)
{
        struct statvfs fs;

        if (fstatvfs(b->dir, &fs) < 0)
                return err_sys(err, -errno, "directory blobs");
        if ((uint64_t)fs.f_bavail * fs.f_frsize < bytes)
                return err_set(err, ERR_NO_SPACE, "the image needs %llu MB, and the disk has %llu MB left",
                               (unsigned long long)(bytes >> 20),
                               (unsigned long long)((uint64_t)fs.f_bavail * fs.f_frsize >> 20));
        return 0;
}

/* ---- one file ---- */

static int open_file(struct blob_file *f, struct blobs *b, int flags, struct err *err)
{
        f->blobs = b;
        f->bytes = 0;
        sha256_init(&f->sum);
        f->fd = openat(b->dir, f->name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
        return f->fd < 0 ? err_sys(err, -errno, "make a file for a layer") : 0;
}

int blob_file_begin(struct blob_file *f, struct blobs *b, struct err *err)
{
        char id[21];

        random_id(id, sizeof(id) - 1);
        (void)snprintf(f->name, sizeof(f->name), TMP_PREFIX "%s", id);
        return open_file(f, b, O_EXCL, err);
}

int blob_file_restart(struct blob_file *f, struct err *err)
{
        f->bytes = 0;
        sha256_init(&f->sum);
        if (ftruncate(f->fd, 0) < 0 || lseek(f->fd, 0, SEEK_SET) < 0)
                return err_sys(err, -errno, "begin the download again");
        return 0;
}

/* What is there goes into the sum; the file's offset is behind it. */
static int sum_up(struct blob_file *f)
{
        AUTO_FREE uint8_t *piece = malloc(PIECE);
        ssize_t n;

        if (!piece)
                return -ENOMEM;
        while ((n = read(f->fd, piece, PIECE)) > 0) {
                sha256_add(&f->sum, piece, (size_t)n);
                f->bytes += (uint64_t)n;
        }
        return n < 0 ? -errno : 0;
}

int blob_file_resume(struct blob_file *f, struct blobs *b, const char *digest, uint64_t bytes, struct err *err)
{
        struct stat st;
        int r;

        tmp_name(digest, f->name);
        r = open_file(f, b, 0, err);
        if (r < 0)
                return r;
        if (fstat(f->fd, &st) == 0 && st.st_size == 0)
                return 0;
        if ((uint64_t)st.st_size > bytes || sum_up(f) < 0)
                r = blob_file_restart(f, err);
        if (r < 0)
                blob_file_close(f, false);
        return r;
}

int blob_file_write(struct blob_file *f, const void *p, size_t n, struct err *err)
{
        const uint8_t *at = p;
        size_t left = n;

        while (left > 0) {
                ssize_t done = write(f->fd, at, left);

                if (done < 0 && errno == EINTR)
                        continue;
                if (done <= 0) /* what was written is behind the sum: the file is not gone on with */
                        return err_sys(err, done < 0 ? -errno : -EIO, "write a layer");
                at += done;
                left -= (size_t)done;
        }
        sha256_add(&f->sum, p, n);
        f->bytes += n;
        return 0;
}

int blob_file_finish(struct blob_file *f, const char *digest, char *ret_digest, bool *ret_was_there, struct err *err)
{
        char real[IMAGE_DIGEST_MAX] = "sha256:";
        uint8_t sum[SHA256_LEN];

        sha256_end(&f->sum, sum);
        hex_encode(sum, sizeof(sum), real + strlen(real));
        if (digest && strcmp(real, digest) != 0) {
                blob_file_close(f, false);
                return err_set(err, ERR_INVALID, "'%.19s...' does not match its digest", digest);
        }
        if (ret_was_there)
                *ret_was_there = faccessat(f->blobs->sums, hex_of(real), F_OK, 0) == 0;
        if (fdatasync(f->fd) < 0 || renameat(f->blobs->dir, f->name, f->blobs->sums, hex_of(real)) < 0) {
                int r = -errno;

                blob_file_close(f, false);
                return err_sys(err, r, "put a layer in place");
        }
        close_fd(&f->fd);
        if (ret_digest)
                memcpy(ret_digest, real, sizeof(real));
        return 0;
}

void blob_file_close(struct blob_file *f, bool keep)
{
        if (f->fd < 0)
                return;
        if (!keep)
                (void)unlinkat(f->blobs->dir, f->name, 0);
        close_fd(&f->fd);
}
