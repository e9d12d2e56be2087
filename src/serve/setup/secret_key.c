#include "serve/setup/secret_key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "io/secret_box.h"
#include "model/conf.h"
#include "sys/fs.h"

#define NAME "secret-key"
#define FILE_MAX 4096

static int secret_key_write(int dir, struct err *err)
{
        char line[SECRET_KEY_LINE_MAX];
        int r;

        secret_key_make(line);
        r = sys_replace_durably_at(dir, NAME, line, strlen(line), 0600);
        explicit_bzero(line, sizeof(line));
        if (r == 0)
                log_info("secret_key.made", "keep a copy of it apart from copies of the store");
        else if (sys_is_full(r))
                log_warn("secret_key.make", "error=%s, going on without credentials until a later start", strerror(-r));
        else
                return err_sys(err, r, "write %s", NAME);
        return 0;
}

static int secret_key_check(int fd, struct err *err)
{
        char text[FILE_MAX];
        struct secret_keys keys;
        struct stat st;
        ssize_t n;
        int r;

        if (fstat(fd, &st) < 0)
                return err_sys(err, -errno, "look at %s", NAME);
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
                return err_set(err, ERR_INVALID, "%s: must be a file that belongs to root", NAME);
        if (st.st_mode & 077) {
                log_warn("secret_key.mode",
                         "mode=%04o, others could read it: changed to 0600; take a new key "
                         "(docs/credentials.md)",
                         st.st_mode & 07777);
                if (fchmod(fd, 0600) < 0)
                        return err_sys(err, -errno, "change the mode of %s", NAME);
        }
        n = pread(fd, text, sizeof(text), 0);
        r = n < 0                        ? -errno
            : n == (ssize_t)sizeof(text) ? -EBADMSG
                                         : secret_keys_parse((struct str){text, (size_t)n}, &keys);
        explicit_bzero(text, sizeof(text));
        secret_keys_done(&keys);
        if (r == -EBADMSG)
                return err_set(
                        err, ERR_INVALID,
                        "the file %s in the data directory is damaged (it must have lines of %d hexadecimal digits): "
                        "put it back from a copy; or move it away, and set all credentials again",
                        NAME, 2 * SECRET_KEY_LEN);
        return r < 0 ? err_sys(err, r, "read %s", NAME) : 0;
}

int secret_key_open(const struct conf *c, int *ret_fd, struct err *err)
{
        AUTO_FREE char *path = conf_path(c, NAME);
        int fd;

        if (!path)
                return err_set(err, ERR_LIMIT, "out of memory");
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0 && errno != ENOENT)
                return err_sys(err, -errno, "open '%s'", path);
        *ret_fd = fd;
        return 0;
}

int secret_key_ensure(const struct conf *c, struct err *err)
{
        AUTO_CLOSE int dir = open(c->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
        int r;

        if (dir < 0)
                return err_sys(err, -errno, "open '%s'", c->data_dir);
        r = secret_key_open(c, &fd, err);
        if (r < 0)
                return r;
        return fd < 0 ? secret_key_write(dir, err) : secret_key_check(fd, err);
}
