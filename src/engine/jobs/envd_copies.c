#include "engine/jobs/envd_copies.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/host/devices.h"
#include "engine/host/mount_stage.h"
#include "sys/fs.h"
#include "wire/sha256.h"

#define BINARY_BYTES_MAX (64 << 20)

int envd_copies_hash_fd(int fd, char out[RECORD_HASH_MAX])
{
        static uint8_t piece[65536];
        uint8_t digest[SHA256_LEN];
        struct sha256 sum;
        off_t at = 0;
        ssize_t n;

        sha256_init(&sum);
        while ((n = pread(fd, piece, sizeof(piece), at)) > 0) {
                sha256_add(&sum, piece, (size_t)n);
                at += n;
                if (at > BINARY_BYTES_MAX) /* what a sandbox put in its place may have any size */
                        return -EFBIG;
        }
        if (n < 0)
                return -errno;
        sha256_end(&sum, digest);
        hex_encode(digest, sizeof(digest), out);
        return 0;
}

static int open_running(int proc_dir, pid_t pid)
{
        char path[32];
        int fd;

        (void)snprintf(path, sizeof(path), "%d/exe", pid);
        fd = openat(proc_dir, path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int envd_copies_hash(int proc_dir, pid_t pid, char out[RECORD_HASH_MAX], struct err *err)
{
        AUTO_CLOSE int fd = open_running(proc_dir, pid);
        int r = fd < 0 ? fd : envd_copies_hash_fd(fd, out);

        return r < 0 ? err_sys(err, r, "read the envd of process %d", pid) : 0;
}

static int copy_to(int from, int dir, const char *name, char out[RECORD_HASH_MAX])
{
        AUTO_CLOSE int to = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0500);
        struct stat st;
        off_t at = 0;

        if (to < 0 || fstat(from, &st) < 0)
                return -errno;
        if (st.st_size > BINARY_BYTES_MAX)
                return -EFBIG;
        while (at < st.st_size) {
                ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));

                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
        }
        return fsync(to) < 0 ? -errno : envd_copies_hash_fd(to, out);
}

/* Others will be restored with this copy, so the program that a sandbox runs now is not believed to be its envd: root inside
 * can have its init start another. */
int envd_copies_keep(const struct job_conf *c, const char *hash, pid_t pid, struct err *err)
{
        AUTO_CLOSE int from = -1;
        char name[32] = ".new-", is[RECORD_HASH_MAX] = "";
        int r;

        if (faccessat(c->envd_dir, hash, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return 0;
        from = strcmp(hash, c->envd) == 0 ? fcntl(c->envd_binary, F_DUPFD_CLOEXEC, 0) : open_running(c->proc_dir, pid);
        random_id(name + strlen(name), 12);
        r = from < 0 ? from : copy_to(from, c->envd_dir, name, is);
        if (r == 0 && strcmp(is, hash) != 0) {
                (void)unlinkat(c->envd_dir, name, 0);
                return err_set(err, ERR_CONFLICT,
                               "pid 1 is not the envd it was started with; pause with memory:false keeps the files");
        }
        if (r == 0 && (renameat(c->envd_dir, name, c->envd_dir, hash) < 0 || fsync(c->envd_dir) < 0))
                r = -errno;
        if (r < 0)
                (void)unlinkat(c->envd_dir, name, 0);
        return r < 0 ? err_sys(err, r, "keep a copy of envd") : 0;
}

int envd_copies_dev(const struct job_conf *c, const char *hash, uint32_t uid_base, int *ret_mount, struct err *err)
{
        AUTO_CLOSE int binary = -1;
        struct devices kept;
        int r;

        if (strcmp(hash, c->envd) == 0 && c->devices.files >= 0)
                return devices_mount(&c->devices, uid_base, ret_mount, err);
        binary = sys_open_beneath(c->envd_dir, hash, O_RDONLY, 0);
        if (binary < 0)
                return err_set(err, ERR_INVALID, "checkpoint damaged: its envd (%.12s) is not kept any more", hash);
        r = devices_open(&kept, binary, STAGE_DEVICES_KEPT, err);
        if (r < 0)
                return r;
        r = devices_mount(&kept, uid_base, ret_mount, err);
        devices_close(&kept);
        return r;
}
