#include "cli/code/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "wire/json/json_text.h"
#include "wire/base64.h"

#define NUMBER_MAX 1000000u

static const struct {
        enum run_field field;
        const char *ending;
        bool is_base64;
} kinds[] = {
        {RUN_PNG, "png", true},  {RUN_JPEG, "jpeg", true},  {RUN_PDF, "pdf", true},
        {RUN_SVG, "svg", false}, {RUN_HTML, "html", false},
};

int save_dir_open(const char *path, struct save_dir *ret, struct err *err)
{
        *ret = (struct save_dir){.path = path, .fd = -1};
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
                return err_sys(err, -errno, "make the directory '%s'", path);
        ret->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (ret->fd < 0)
                return err_sys(err, -errno, "open the directory '%s'", path);
        if (faccessat(ret->fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
                int r = -errno;

                save_dir_close(ret);
                return err_sys(err, r, "write into the directory '%s'", path);
        }
        return 0;
}

void save_dir_close(struct save_dir *d)
{
        close_fd(&d->fd);
}

static void drop_spaces(struct buf *b)
{
        uint8_t *p = buf_at(b);
        size_t n = 0;

        for (size_t i = 0; i < b->len; i++)
                if (!memchr(" \n\r\t", p[i], 4))
                        p[n++] = p[i];
        b->len = n;
}

int save_field_bytes(const struct run_event *result, enum run_field field, struct buf *out)
{
        AUTO_BUF struct buf text = BUF_INIT(RUN_LINE_MAX);
        struct str plain;
        bool is_base64 = false;
        int r;

        for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
                is_base64 |= kinds[i].field == field && kinds[i].is_base64;
        if (!is_base64)
                return json_text_unquote(result->fields[field], out);
        if (json_text_plain(result->fields[field], &plain))
                return base64_decode(plain, out);
        r = json_text_unquote(result->fields[field], &text);
        drop_spaces(&text);
        return r < 0 ? r : base64_decode(buf_text(&text), out);
}

/* A new file with the next name that is free.  -> its fd, and its name. */
static int make_file(struct save_dir *d, const char *ending, char name[48], struct err *err)
{
        while (d->last < NUMBER_MAX) {
                int fd;

                (void)snprintf(name, 48, "result-%u.%s", ++d->last, ending);
                fd = openat(d->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
                if (fd >= 0)
                        return fd;
                if (errno != EEXIST)
                        return err_sys(err, -errno, "write '%s/%s'", d->path, name);
        }
        return err_set(err, ERR_LIMIT, "'%s' has too many files", d->path);
}

static int write_file(int fd, struct buf *bytes)
{
        while (bytes->len) {
                ssize_t n = buf_drain(bytes, fd);

                if (n < 0 && n != -EINTR)
                        return (int)n;
        }
        return 0;
}

static int save_bytes(struct save_dir *d, const char *ending, struct buf *bytes,
                      void (*on_saved)(const char *path, void *arg), void *arg, struct err *err)
{
        AUTO_FREE char *path = NULL;
        AUTO_CLOSE int fd = -1;
        char name[48];
        int r;

        fd = make_file(d, ending, name, err);
        if (fd < 0)
                return fd;
        r = write_file(fd, bytes);
        if (r < 0) {
                (void)unlinkat(d->fd, name, 0);
                return err_sys(err, r, "write '%s/%s'", d->path, name);
        }
        if (asprintf(&path, "%s%s%s", d->path, str_ends(str_of(d->path), "/") ? "" : "/", name) >= 0)
                on_saved(path, arg);
        return 0;
}

int save_result(struct save_dir *d, const struct run_event *result, void (*on_saved)(const char *path, void *arg),
                void *arg, struct err *err)
{
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                AUTO_BUF struct buf bytes = BUF_INIT(RUN_LINE_MAX);
                int r;

                if (!result->fields[kinds[i].field].n)
                        continue;
                r = save_field_bytes(result, kinds[i].field, &bytes);
                if (r == -EINVAL)
                        return err_set(err, ERR_INTERNAL, "a result's %s is not valid base64", kinds[i].ending);
                if (r < 0)
                        return err_sys(err, r, "save a result");
                r = save_bytes(d, kinds[i].ending, &bytes, on_saved, arg, err);
                if (r < 0)
                        return r;
        }
        return 0;
}
