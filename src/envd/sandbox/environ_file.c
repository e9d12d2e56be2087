#include "envd/sandbox/environ_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/str.h"
#include "envd/rpc/settings.h"
#include "envd/rpc/users.h"
#include "model/envd_init.h"

#define DIRECTORY "/run/sandglass"
#define NAME "environ"
#define NEW_NAME "environ.new"
#define TEXT_MAX ENVD_INIT_MAX

static int environ_text(const struct settings *s, struct buf *out)
{
        json_t *env = settings_env(s), *value;
        const char *name;
        int r = env ? 0 : -ENOMEM;

        json_object_foreach (env, name, value) {
                if (r == 0)
                        r = buf_addf(out, "%s=%s", name, json_string_value(value));
                if (r == 0)
                        r = buf_add(out, "", 1);
        }
        json_decref(env);
        return r;
}

static bool is_written(int dir, const struct buf *text)
{
        AUTO_CLOSE int fd = openat(dir, NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        AUTO_BUF struct buf old = BUF_INIT(TEXT_MAX);
        ssize_t n = fd < 0 ? -1 : 1;

        while (n > 0)
                n = buf_fill(&old, fd, 4096);
        return n == 0 && old.len == text->len && memcmp(buf_at(&old), buf_at(text), text->len) == 0;
}

static int write_new(int dir, const struct buf *text, const char *owner)
{
        AUTO_USER struct user u = {0};
        AUTO_CLOSE int fd = openat(dir, NEW_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        int r = fd < 0 ? -errno : user_lookup(owner, &u);

        if (r < 0)
                return r;
        if (write(fd, buf_at(text), text->len) != (ssize_t)text->len)
                return -EIO;
        if (fchown(fd, u.uid, u.gid) < 0 || renameat(dir, NEW_NAME, dir, NAME) < 0)
                return -errno;
        return 0;
}

void environ_file_update(const struct settings *s)
{
        AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
        bool has_own = json_object_size(s->vars) > 0;
        AUTO_CLOSE int dir = -1;
        int r = 0;

        if (has_own) {
                (void)mkdir("/run", 0755);
                (void)mkdir(DIRECTORY, 0755);
                r = environ_text(s, &text);
        }
        dir = open(DIRECTORY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (dir < 0 || (has_own && r == 0 && is_written(dir, &text)))
                return;
        (void)unlinkat(dir, NEW_NAME, 0);
        if (!has_own || r < 0 || write_new(dir, &text, s->default_user) < 0) {
                (void)unlinkat(dir, NEW_NAME, 0);
                (void)unlinkat(dir, NAME, 0);
        }
}

void environ_file_remove(void)
{
        (void)unlink(DIRECTORY "/" NAME);
}
