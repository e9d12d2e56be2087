#include "engine/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/checkpoint/checkpoint_manifest.h"
#include "engine/criu/criu_rpc.h"
#include "engine/checkpoint/image_sums.h"
#include "sys/fs.h"
#include "wire/crc32c.h"

#define PIECE (1u << 20)
#define WINDOW (8u << 20)      /* of a file, mapped at a time */
#define LARGE_BYTES (1u << 20) /* files from this size on are "large" */

struct checkpoint {
        int images; /* owned: its directory */
        struct manifest manifest;
};

static bool is_userns(const char *name)
{
        return str_starts(str_of(name), "userns-") && str_ends(str_of(name), ".img");
}

/* ------------------------------------------------------------- sums */

static int sum_file(int fd, uint64_t *ret_size, uint32_t *ret_crc)
{
        AUTO_FREE uint8_t *piece = malloc(PIECE);
        uint64_t size = 0;
        uint32_t crc = 0;
        ssize_t n;

        if (!piece)
                return -ENOMEM;
        while ((n = read(fd, piece, PIECE)) != 0) {
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                crc = crc32c(crc, piece, (size_t)n);
                size += (uint64_t)n;
        }
        *ret_size = size;
        *ret_crc = crc;
        return 0;
}

/* What was written a moment ago lies in memory: looked at where it is, without a copy.  (Not for verifying: what cannot be
 * read from disk would end the process instead of being told.) */
static int sum_fresh(int fd, const struct image_sums *sums, uint64_t *ret_size, uint32_t *ret_crc)
{
        uint32_t crc = 0;
        struct stat st;
        off_t at;
        size_t n;

        if (fstat(fd, &st) < 0)
                return -errno;
        at = sums ? (off_t)image_sums_of(sums, &st, &crc) : 0;
        for (; at < st.st_size; at += (off_t)n) {
                void *p;

                n = (size_t)(st.st_size - at < (off_t)WINDOW ? st.st_size - at : (off_t)WINDOW);
                p = mmap(NULL, n, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, at);

                if (p == MAP_FAILED)
                        return -errno;
                crc = crc32c(crc, p, n);
                (void)munmap(p, n);
        }
        *ret_size = (uint64_t)st.st_size;
        *ret_crc = crc;
        return 0;
}

static int sum_image(int images, const struct image_sums *sums, struct manifest_file *f, struct err *err)
{
        AUTO_CLOSE int fd = sys_open_beneath(images, f->name, O_RDONLY, 0);
        int r = fd < 0 ? fd : sum_fresh(fd, sums, &f->size, &f->crc);

        return r < 0 ? err_sys(err, r, "sum up image '%s'", f->name) : 0;
}

/* ------------------------------------------------------------- on disk */

static int flush_at(int dir, const char *name, int flags)
{
        AUTO_CLOSE int fd = openat(dir, name, flags | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

        return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* Set the disk to work on all of them, so that the waiting later is short. */
static void begin_flush(int images, const struct manifest *m)
{
        for (size_t i = 0; i < m->count; i++) {
                AUTO_CLOSE int fd = sys_open_beneath(images, m->files[i].name, O_RDONLY, 0);

                if (fd >= 0)
                        (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* fsync does it otherwise */
        }
}

static int flush_images(int images, const struct manifest *m, struct err *err)
{
        int r = 0;

        for (size_t i = 0; i < m->count && r == 0; i++) {
                r = flush_at(images, m->files[i].name, 0);
                if (r < 0)
                        return err_sys(err, r, "flush image '%s'", m->files[i].name);
        }
        return fsync(images) < 0 ? err_sys(err, -errno, "flush the images' directory") : 0;
}

/* The directory itself, and its name in the one above. */
static int flush_dir(int dir, struct err *err)
{
        int r = fsync(dir) < 0 ? -errno : flush_at(dir, "..", O_DIRECTORY);

        return r < 0 ? err_sys(err, r, "flush the checkpoint's directory") : 0;
}

static int collect(int images, struct manifest *m, struct err *err)
{
        AUTO_DIR DIR *d = sys_list(images);
        struct dirent *e;
        struct stat st;
        int r = 0;

        if (!d)
                return err_sys(err, -errno, "read the images' directory");
        while (r == 0 && (e = sys_list_next(d))) {
                if (fstatat(images, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        r = err_sys(err, -errno, "image '%s'", e->d_name);
                else if (!S_ISREG(st.st_mode))
                        r = err_set(err, ERR_INTERNAL, "image '%s' is no file", e->d_name);
                else
                        r = manifest_add(m, e->d_name, err);
        }
        return r;
}

static int write_manifest(int dir, const char *text, bool is_durable, struct err *err)
{
        const char *name = CHECKPOINT_MANIFEST ".new";
        int r = sys_replace_at(dir, name, text, strlen(text), 0600);

        if (r == 0 && is_durable)
                r = flush_at(dir, name, 0);
        if (r == 0 && renameat(dir, name, dir, CHECKPOINT_MANIFEST) < 0)
                r = -errno;
        if (r < 0) {
                (void)unlinkat(dir, name, 0);
                return err_sys(err, r, "write " CHECKPOINT_MANIFEST);
        }
        return is_durable ? flush_dir(dir, err) : 0;
}

int checkpoint_finish(int dir, const struct checkpoint_facts *f, const struct image_sums *sums, bool is_durable,
                      uint64_t *ret_bytes, struct err *err)
{
        AUTO(manifest_done) struct manifest m = {.facts = *f};
        AUTO_CLOSE int images = sys_open_dir(dir, CHECKPOINT_IMAGES);
        AUTO_FREE char *text = NULL;
        int r;

        if (images < 0)
                return err_sys(err, images, "open " CHECKPOINT_IMAGES);
        r = collect(images, &m, err);
        if (r < 0)
                return r;
        if (is_durable)
                begin_flush(images, &m);
        for (size_t i = 0; i < m.count && r == 0; i++)
                r = sum_image(images, sums, &m.files[i], err);
        if (r == 0 && is_durable)
                r = flush_images(images, &m, err);
        if (r == 0)
                r = manifest_encode(&m, &text, err);
        if (r == 0)
                r = write_manifest(dir, text, is_durable, err);
        if (r == 0)
                *ret_bytes = manifest_bytes(&m);
        return r;
}

bool checkpoint_is_complete(int checkpoints_dir, const char *name)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "%.32s/manifest.json", name);
        return faccessat(checkpoints_dir, path, F_OK, 0) == 0 || errno != ENOENT;
}

int checkpoint_flush(int dir, struct err *err)
{
        struct checkpoint *c = NULL;
        int r = checkpoint_open(dir, &c, err);

        if (r < 0)
                return r;
        begin_flush(c->images, &c->manifest);
        r = flush_images(c->images, &c->manifest, err);
        if (r == 0) {
                r = flush_at(dir, CHECKPOINT_MANIFEST, 0);
                r = r < 0 ? err_sys(err, r, "flush " CHECKPOINT_MANIFEST) : flush_dir(dir, err);
        }
        c = checkpoint_free(c);
        return r;
}

/* ------------------------------------------------------------- opened */

static int damaged(const char *name, const char *how, struct err *err)
{
        return err_set(err, ERR_INVALID, "checkpoint damaged: %s %s", name, how);
}

/* Want of memory or of file descriptors passes, and says nothing about the checkpoint. */
static int unreadable(const char *name, int r, struct err *err)
{
        if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
                return err_sys(err, r, "read %s of the checkpoint", name);
        return damaged(name, r == -ENOENT ? "is missing" : strerror(-r), err);
}

int checkpoint_open(int dir, struct checkpoint **ret, struct err *err)
{
        AUTO_FREE char *text = malloc(MANIFEST_BYTES_MAX);
        struct checkpoint *c = calloc(1, sizeof(*c));
        ssize_t n;
        int r;

        if (!text || !c) {
                free(c);
                return err_set(err, ERR_LIMIT, "out of memory");
        }
        c->images = -1;
        n = sys_read_at(dir, CHECKPOINT_MANIFEST, text, MANIFEST_BYTES_MAX);
        if (n == -ENOENT)
                r = err_set(err, ERR_NOT_FOUND, "there is no complete checkpoint");
        else if (n < 0)
                r = unreadable(CHECKPOINT_MANIFEST, (int)n, err);
        else
                r = manifest_decode((struct str){text, (size_t)n}, &c->manifest, err);
        if (r == 0) {
                c->images = sys_open_dir(dir, CHECKPOINT_IMAGES);
                if (c->images < 0)
                        r = unreadable(CHECKPOINT_IMAGES, c->images, err);
        }
        if (r < 0)
                c = checkpoint_free(c);
        else
                *ret = c;
        return r;
}

struct checkpoint *checkpoint_free(struct checkpoint *c)
{
        if (c) {
                manifest_done(&c->manifest);
                close_fd(&c->images);
                free(c);
        }
        return NULL;
}

const struct checkpoint_facts *checkpoint_facts(const struct checkpoint *c)
{
        return &c->manifest.facts;
}

/* ------------------------------------------------------------- is it whole? */

static int check_size(int images, const struct manifest_file *f, struct err *err)
{
        struct stat st;

        if (fstatat(images, f->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return unreadable(f->name, -errno, err);
        if (!S_ISREG(st.st_mode))
                return damaged(f->name, "is no file", err);
        return (uint64_t)st.st_size == f->size ? 0 : damaged(f->name, "has another size", err);
}

static int check_sum(int images, const struct manifest_file *f, struct err *err)
{
        struct manifest_file now = *f;
        AUTO_CLOSE int fd = sys_open_beneath(images, f->name, O_RDONLY, 0);
        int r = fd < 0 ? fd : sum_file(fd, &now.size, &now.crc);

        if (r < 0)
                return unreadable(f->name, r, err);
        return now.size == f->size && now.crc == f->crc ? 0 : damaged(f->name, "has another checksum", err);
}

/* CRIU reads what it finds: a file that nobody summed up must not be among it. */
static int check_strangers(const struct checkpoint *c, struct err *err)
{
        AUTO(manifest_done) struct manifest found = {0};
        int r = collect(c->images, &found, err);

        if (r < 0)
                return err_wrap(err, "checkpoint damaged"), err->kind = ERR_INVALID, -EINVAL;
        for (size_t i = 0; i < found.count; i++)
                if (!manifest_find(&c->manifest, found.files[i].name))
                        return damaged(found.files[i].name, "does not belong there", err);
        return 0;
}

int checkpoint_verify_small(const struct checkpoint *c, struct err *err)
{
        const struct manifest *m = &c->manifest;
        int r = 0;

        for (size_t i = 0; i < m->count && r == 0; i++)
                r = check_size(c->images, &m->files[i], err);
        for (size_t i = 0; i < m->count && r == 0; i++)
                if (m->files[i].size < LARGE_BYTES)
                        r = check_sum(c->images, &m->files[i], err);
        return r < 0 ? r : check_strangers(c, err);
}

int checkpoint_verify_large(const struct checkpoint *c, struct err *err)
{
        const struct manifest *m = &c->manifest;
        int r = 0;

        for (size_t i = 0; i < m->count && r == 0; i++)
                if (m->files[i].size >= LARGE_BYTES)
                        r = check_sum(c->images, &m->files[i], err);
        return r;
}

/* ------------------------------------------------------------- for another uid range */

static int rewrite_userns(int images, const char *name, int work, uint32_t uid_base, struct err *err)
{
        AUTO_BUF struct buf out = BUF_INIT(CRIU_USERNS_BYTES_MAX);
        char bytes[CRIU_USERNS_BYTES_MAX];
        ssize_t n = sys_read_at(images, name, bytes, sizeof(bytes));
        int r = n < 0 ? (int)n : criu_rpc_userns_rebase((struct str){bytes, (size_t)n}, uid_base, &out);

        if (r < 0)
                return damaged(name, "does not hold the one range of uids it should", err);
        r = sys_replace_at(work, name, buf_at(&out), out.len, 0600);
        return r < 0 ? err_sys(err, r, "write '%s'", name) : 0;
}

int checkpoint_rebase(const struct checkpoint *c, int work, uint32_t uid_base, struct err *err)
{
        bool has_userns = false;
        int r = 0;

        for (size_t i = 0; i < c->manifest.count && r == 0; i++) {
                const char *name = c->manifest.files[i].name;

                if (is_userns(name)) {
                        has_userns = true;
                        r = rewrite_userns(c->images, name, work, uid_base, err);
                } else if (linkat(c->images, name, work, name, 0) < 0) {
                        r = err_sys(err, -errno, "link image '%s'", name);
                }
        }
        return r < 0 || has_userns ? r : damaged("userns-*.img", "is missing", err);
}
