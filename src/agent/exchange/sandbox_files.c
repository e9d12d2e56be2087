#include "agent/exchange/sandbox_files.h"

#include <stdio.h>
#include <string.h>

#include "agent/exchange/ask.h"
#include "agent/exchange/exchange.h"
#include "base/clock.h"
#include "base/err.h"
#include "wire/tar/tar.h"

#define PATH_BYTES_MAX 1024
#define DIRECTORY_MODE 0700

void sandbox_files_init(struct sandbox_files *f)
{
        *f = (struct sandbox_files){0};
        f->tar = BUF_SECRET(SANDBOX_FILES_MAX);
}

void sandbox_files_done(struct sandbox_files *f)
{
        buf_done(&f->tar);
}

static bool path_is_valid(struct str path)
{
        struct str part;
        bool more = true;

        if (path.n == 0 || path.n >= PATH_BYTES_MAX || str_has_nul(path))
                return false;
        while (more) {
                more = str_cut(&path, '/', &part);
                if (part.n == 0 || str_is(part, ".") || str_is(part, ".."))
                        return false;
        }
        return true;
}

static int add_entry(struct sandbox_files *f, enum tar_type type, const char *name, unsigned mode, struct str content)
{
        static const char zeros[512];
        const struct tar_entry e = {
                .type = type, .name = name, .mode = mode, .mtime_s = clock_real_ns() / 1000000000, .size = content.n};
        int r = tar_write_entry(&f->tar, &e);

        if (r == 0)
                r = buf_add(&f->tar, content.p, content.n);
        return r < 0 ? r : buf_add(&f->tar, zeros, tar_padding(content.n));
}

int sandbox_files_add(struct sandbox_files *f, struct str path, unsigned mode, struct str content, struct err *err)
{
        char name[PATH_BYTES_MAX];
        int r = 0;

        if (!path_is_valid(path))
                return err_set(err, ERR_INVALID, "'%.*s' is no path of a file", (int)(path.n < 100 ? path.n : 100),
                               path.p);
        memcpy(name, path.p, path.n);
        name[path.n] = 0;
        for (char *slash = strchr(name, '/'); r == 0 && slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                r = add_entry(f, TAR_DIRECTORY, name, DIRECTORY_MODE, STR(""));
                *slash = '/';
        }
        if (r == 0)
                r = add_entry(f, TAR_FILE, name, mode, content);
        f->count++;
        return r < 0 ? err_sys(err, r, "too much to write into a sandbox") : 0;
}

void sandbox_files_write(struct exchange *x, struct sandbox_files *f, const char *dest,
                         void (*on_answer)(struct exchange *x, const struct ask_answer *a),
                         void (*on_failure)(struct exchange *x, const struct err *why))
{
        static const char zeros[TAR_END_BYTES];
        char target[64];
        struct err err = {0};

        (void)snprintf(target, sizeof(target), "/sandglass/copy?src=.&dest=%s", dest);
        if (buf_add(&f->tar, zeros, sizeof(zeros)) < 0) {
                (void)err_set(&err, ERR_LIMIT, "too much to write into a sandbox");
                on_failure(x, &err);
                return;
        }
        ask(x, &(struct ask_options){.to = ASK_DAEMON,
                                     .method = "POST",
                                     .target = target,
                                     .bytes = {(const char *)buf_at(&f->tar), f->tar.len},
                                     .bytes_type = "application/x-tar",
                                     .is_secret = true,
                                     .on_answer = on_answer,
                                     .on_failure = on_failure});
}
