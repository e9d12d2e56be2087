#include "envd/build/inflate.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <zlib.h>
#include <zstd.h>

#define OUT_BYTES (1u << 20)
#define GZIP_ONLY (16 + MAX_WBITS) /* as inflateInit2 wants to be told */
#define WINDOW_LOG_MAX 27          /* 128 MiB, as zstd's own program */

enum inflate_end { INFLATE_OK, INFLATE_DAMAGED, INFLATE_CUT_OFF, INFLATE_NO_MEMORY, INFLATE_UNWANTED };

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_ZSTD };

static enum packing packing_of(struct str first)
{
        if (first.n >= 2 && memcmp(first.p, "\x1f\x8b", 2) == 0)
                return PACKING_GZIP;
        if (first.n >= 4 && memcmp(first.p, "\x28\xb5\x2f\xfd", 4) == 0)
                return PACKING_ZSTD;
        return PACKING_NONE;
}

/* ---- the process ---- */

static bool write_out(int fd, const char *p, size_t n)
{
        while (n) {
                ssize_t done = write(fd, p, n);

                if (done < 0 && errno == EINTR)
                        continue;
                if (done < 0)
                        return false;
                p += done;
                n -= (size_t)done;
        }
        return true;
}

struct gzip_state {
        z_stream z;
        bool is_done; /* at the end of a member: another may follow */
};

/* All of the piece, through `out`. */
static enum inflate_end gunzip_piece(struct gzip_state *g, struct str in, char *out, int fd)
{
        g->z.next_in = (unsigned char *)(uintptr_t)in.p;
        g->z.avail_in = (unsigned)in.n;
        while (g->z.avail_in || (!g->is_done && g->z.avail_out == 0)) {
                int r;

                if (g->is_done) {
                        if (g->z.next_in[0] == 0) { /* padding behind the last member */
                                g->z.next_in++;
                                g->z.avail_in--;
                                continue;
                        }
                        if (inflateReset(&g->z) != Z_OK)
                                return INFLATE_DAMAGED;
                        g->is_done = false;
                }
                g->z.next_out = (unsigned char *)out;
                g->z.avail_out = OUT_BYTES;
                r = inflate(&g->z, Z_NO_FLUSH);
                if (r == Z_MEM_ERROR)
                        return INFLATE_NO_MEMORY;
                if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
                        return INFLATE_DAMAGED;
                if (!write_out(fd, out, OUT_BYTES - g->z.avail_out))
                        return INFLATE_UNWANTED;
                g->is_done = r == Z_STREAM_END;
                if (g->is_done && g->z.avail_in == 0)
                        break;
        }
        return INFLATE_OK;
}

static enum inflate_end gunzip_all(struct byte_source *from, struct str in, char *out, int fd)
{
        struct gzip_state g = {.z.avail_out = OUT_BYTES};
        enum inflate_end end = INFLATE_OK;
        int r = 1;

        if (inflateInit2(&g.z, GZIP_ONLY) != Z_OK)
                return INFLATE_NO_MEMORY;
        while (r > 0 && end == INFLATE_OK) {
                end = gunzip_piece(&g, in, out, fd);
                if (end == INFLATE_OK)
                        r = byte_source_next(from, &in);
        }
        if (end == INFLATE_OK && (r < 0 || !g.is_done))
                end = INFLATE_CUT_OFF;
        return end;
}

static enum inflate_end unzstd_all(struct byte_source *from, struct str in, char *out, int fd)
{
        ZSTD_DCtx *z = ZSTD_createDCtx();
        size_t left = 1;
        int r = 1;

        if (!z || ZSTD_isError(ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
                return INFLATE_NO_MEMORY;
        for (; r > 0; r = byte_source_next(from, &in)) {
                ZSTD_inBuffer from_buf = {in.p, in.n, 0};
                bool is_full = false;

                while (from_buf.pos < from_buf.size || is_full) {
                        ZSTD_outBuffer to = {out, OUT_BYTES, 0};

                        left = ZSTD_decompressStream(z, &to, &from_buf);
                        if (ZSTD_isError(left))
                                return INFLATE_DAMAGED;
                        if (!write_out(fd, out, to.pos))
                                return INFLATE_UNWANTED;
                        is_full = to.pos == to.size;
                }
        }
        return r < 0 || left ? INFLATE_CUT_OFF : INFLATE_OK;
}

static _Noreturn void inflate_run(struct byte_source *from, struct str first, enum packing packing, int fd)
{
        char *out = malloc(OUT_BYTES);
        enum inflate_end end = INFLATE_NO_MEMORY;

        (void)signal(SIGPIPE, SIG_IGN);
        if (out && packing == PACKING_GZIP)
                end = gunzip_all(from, first, out, fd);
        else if (out)
                end = unzstd_all(from, first, out, fd);
        _exit((int)end);
}

/* ---- whoever reads ---- */

static int inflate_start(struct inflate *z, struct str first, enum packing packing)
{
        int fds[2], r;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        (void)fcntl(fds[0], F_SETPIPE_SZ, OUT_BYTES); /* smaller where a limit says so */
        z->pipe = fds[0];
        z->pid = fork();
        r = z->pid < 0 ? -errno : 0;
        if (z->pid == 0) {
                (void)close(fds[0]);
                inflate_run(z->from, first, packing, fds[1]);
        }
        (void)close(fds[1]);
        if (r < 0)
                z->pid = 0;
        return r < 0 ? r : byte_source_pipe(&z->plain, z->pipe);
}

int inflate_open(struct inflate *z, struct byte_source *from, struct err *err)
{
        enum packing packing;
        struct str first = {0};
        int r;

        *z = (struct inflate){.from = from, .pipe = -1};
        r = byte_source_next(from, &first);
        if (r < 0)
                return err_set(err, ERR_INVALID, "the archive was cut off");
        packing = packing_of(first);
        if (packing == PACKING_NONE) {
                byte_source_return(from, first);
                return 0;
        }
        r = inflate_start(z, first, packing);
        return r < 0 ? err_sys(err, r, "start decompressing") : 0;
}

int inflate_next(struct inflate *z, struct str *ret)
{
        return byte_source_next(z->pipe >= 0 ? &z->plain : z->from, ret);
}

int inflate_finish(struct inflate *z, struct err *err)
{
        pid_t pid = z->pid;
        int status = 0;

        if (!pid)
                return 0;
        z->pid = 0;
        if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
                return err_set(err, ERR_INTERNAL, "the process that decompresses died");
        switch (WEXITSTATUS(status)) {
        case INFLATE_OK: return 0;
        case INFLATE_DAMAGED: return err_set(err, ERR_INVALID, "the compressed archive is damaged");
        case INFLATE_CUT_OFF: return err_set(err, ERR_INVALID, "the compressed archive was cut off");
        default: return err_set(err, ERR_LIMIT, "out of memory");
        }
}

void inflate_done(struct inflate *z)
{
        close_fd(&z->pipe);
        if (z->pid) {
                (void)kill(z->pid, SIGKILL);
                (void)waitpid(z->pid, NULL, 0);
        }
        z->pid = 0;
        if (z->plain.mem)
                byte_source_done(&z->plain);
}
