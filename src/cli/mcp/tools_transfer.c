/* tools_transfer.c - tools that copy files between this machine and a sandbox, below the directory that the user has named. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "cli/mcp/platform.h"
#include "cli/mcp/platform_tools.h"
#include "mcp/protocol/mcp.h"
#include "sys/fs.h"

#define TRANSFER_MS 3600000u
#define DOWNLOAD_MB 1024

static bool has_files(const struct mcp *m)
{
        const struct platform *p = m->user;

        return p->files_fd >= 0;
}

/* A path that leads out, also by a link, is refused by the kernel. */
static void refuse(struct work *w, const char *path, int r)
{
        if (r == -ENOENT || r == -ENOTDIR)
                work_failed(w, "there is no file %s on this machine, below the directory that the user has named",
                            path);
        else if (r == -EXDEV || r == -ELOOP)
                work_failed(w,
                            "%s is not below the directory that the user has named: give a relative path without links",
                            path);
        else
                work_failed(w, "%s: %s", path, strerror(-r));
}

static void upload(struct work *w)
{
        const char *local = arg_text(w->args, "local_path", ""), *path = arg_text(w->args, "path", "");
        const struct sg_file_options opt = {.user = arg_text(w->args, "user", NULL)};
        AUTO_CLOSE int fd = sys_open_beneath(w->platform->files_fd, local, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
        struct sg_sandbox *box;
        struct sg_error err;
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0) {
                refuse(w, local, fd < 0 ? fd : -errno);
                return;
        }
        if (!S_ISREG(st.st_mode)) {
                work_failed(w, "%s is not a regular file", local);
                return;
        }
        box = work_open(w);
        if (!box)
                return;
        w->wait.timeout_ms = TRANSFER_MS;
        if (sg_file_upload(box, path, fd, &opt, &w->wait, &err) < 0)
                work_error(w, &err);
        else
                work_textf(w, NULL, "Copied %s to %s in the sandbox: %lld bytes, %.3f s.", local, path,
                           (long long)st.st_size, work_seconds(w));
        sg_sandbox_free(box);
}

#define SCHEMA_LOCAL                                                                                                   \
        "\"local_path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096,\"description\":\"On this machine, "   \
        "relative to the directory that the user has named for files.\"},"                                             \
        "\"path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096,\"description\":\"In the sandbox.\"}"

const struct platform_tool platform_upload_file = {
        .tool = {.name = "upload_file",
                 .title = "Copy a file into a sandbox",
                 .description = "Copy a file of this machine into a sandbox.",
                 .hints = TOOL_DESTROYS | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_LOCAL "," SCHEMA_USER
                           "},\"required\":[\"sandbox_id\",\"local_path\",\"path\"],\"additionalProperties\":false}",
                 .is_there = has_files,
                 .run = work_start},
        .work = upload,
        .is_long = true,
};

/* The directory that the file is in, and its name there. */
static int open_parent(int root, const char *path, const char **name)
{
        const char *slash = strrchr(path, '/');
        AUTO_FREE char *dir = slash ? str_dup((struct str){path, (size_t)(slash - path)}) : strdup(".");

        *name = slash ? slash + 1 : path;
        if (!dir)
                return -ENOMEM;
        if (path[0] == '/')
                return -EXDEV;
        if (!(*name)[0] || strcmp(*name, ".") == 0 || strcmp(*name, "..") == 0)
                return -EISDIR;
        return sys_open_beneath(root, dir, O_RDONLY | O_DIRECTORY, 0);
}

struct growth { /* of a file that is being copied here */
        const struct work *work;
        int fd;
        uint64_t bytes_max;
        bool is_too_large;
};

/* A sandbox may send for ever, whatever size it has told. */
static void watch_growth(void *arg)
{
        struct growth *g = arg;
        struct stat st;

        if (fstat(g->fd, &st) < 0 || (uint64_t)st.st_size <= g->bytes_max)
                return;
        g->is_too_large = true;
        sg_cancel_now(g->work->wait.cancel);
}

static void refuse_size(struct work *w)
{
        work_failed(w, "%s is larger than %lld MiB: nothing was kept here. Set max_mb to allow more.",
                    arg_text(w->args, "path", ""), (long long)arg_number(w->args, "max_mb", DOWNLOAD_MB));
}

static bool is_larger(struct work *w, struct sg_sandbox *box, const struct sg_file_options *opt, uint64_t bytes_max)
{
        struct sg_file *file = NULL;
        bool is = sg_file_stat(box, arg_text(w->args, "path", ""), opt, &w->wait, &file, NULL) == 0 &&
                  (uint64_t)file->size > bytes_max;

        sg_free(file);
        return is;
}

/* All of the file or nothing: it takes its name when all bytes are there. */
static void fetch(struct work *w, struct sg_sandbox *box, int dir, const char *name)
{
        const char *path = arg_text(w->args, "path", "");
        const struct sg_file_options opt = {.user = arg_text(w->args, "user", NULL)};
        struct growth g = {.work = w, .bytes_max = (uint64_t)arg_number(w->args, "max_mb", DOWNLOAD_MB) << 20};
        char beside[NAME_MAX + 1], random[9];
        AUTO_CLOSE int fd = -1;
        struct sg_error err;
        struct stat st;
        int r;

        if (is_larger(w, box, &opt, g.bytes_max)) {
                refuse_size(w);
                return;
        }
        random_id(random, 8);
        if (snprintf(beside, sizeof(beside), ".%.200s.%s.tmp", name, random) < 0)
                return;
        fd = openat(dir, beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0) {
                refuse(w, name, -errno);
                return;
        }
        g.fd = fd;
        w->wait.timeout_ms = TRANSFER_MS;
        w->wait.on_tick = watch_growth;
        w->wait.tick_arg = &g;
        r = sg_file_download(box, path, fd, &opt, &w->wait, &err);
        w->wait.on_tick = NULL;
        watch_growth(&g);
        if (g.is_too_large) {
                refuse_size(w);
        } else if (r < 0) {
                work_error(w, &err);
        } else if (fstat(fd, &st) < 0 || renameat(dir, beside, dir, name) < 0) {
                refuse(w, name, -errno);
        } else {
                work_textf(w, NULL, "Copied %s of the sandbox to %s: %lld bytes, %.3f s.", path,
                           arg_text(w->args, "local_path", ""), (long long)st.st_size, work_seconds(w));
                return;
        }
        (void)unlinkat(dir, beside, 0);
}

static void download(struct work *w)
{
        const char *local = arg_text(w->args, "local_path", ""), *name;
        AUTO_CLOSE int dir = open_parent(w->platform->files_fd, local, &name);
        struct sg_sandbox *box;

        if (dir < 0) {
                refuse(w, local, dir);
                return;
        }
        box = work_open(w);
        if (box)
                fetch(w, box, dir, name);
        sg_sandbox_free(box);
}

const struct platform_tool platform_download_file = {
        .tool = {.name = "download_file",
                 .title = "Copy a file out of a sandbox",
                 .description = "Copy a file of a sandbox to this machine. A file that is there is replaced.",
                 .hints = TOOL_DESTROYS | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_LOCAL "," SCHEMA_USER
                           ",\"max_mb\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1048576,\"description\":\"A "
                           "larger "
                           "file is not copied. In MiB. Default: "
                           "1024.\"}},\"required\":[\"sandbox_id\",\"local_path\",\"path\"],\"additionalProperties\":"
                           "false}",
                 .is_there = has_files,
                 .run = work_start},
        .work = download,
        .is_long = true,
};
