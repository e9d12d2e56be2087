#include "cli/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

static int from_file(const char *data_dir, struct envfile *ret, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(ENVFILE_MAX);
        AUTO_FREE char *path = NULL;
        AUTO_CLOSE int fd = -1;
        ssize_t n;
        int r;

        if (asprintf(&path, "%s/env", data_dir) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
                return err_set(err, ERR_UNAVAILABLE,
                               "no server at '%s' (no file env there): start `sandglass serve`, or name its directory "
                               "with --data, or set E2B_API_URL and E2B_API_KEY",
                               data_dir);
        if (fd < 0 && errno == EACCES)
                return err_set(err, ERR_DENIED,
                               "'%s' is readable by root only: use sudo, or set E2B_API_URL and E2B_API_KEY", path);
        if (fd < 0)
                return err_sys(err, -errno, "open '%s'", path);
        do {
                n = buf_fill(&text, fd, buf_room(&text));
        } while (n > 0);
        r = n < 0 ? (int)n : envfile_parse((struct str){(const char *)buf_at(&text), text.len}, ret);
        if (r == 0 && (!ret->api_url || !ret->api_key)) {
                envfile_done(ret);
                r = -EINVAL;
        }
        return r < 0 ? err_sys(err, r, "read '%s'", path) : 0;
}

/* NULL also for an empty one, which is how some shells take a variable back. */
static const char *variable(const char *name)
{
        const char *text = getenv(name);

        return text && text[0] ? text : NULL;
}

static int from_environment(struct envfile *ret, struct err *err)
{
        const char *url = variable("E2B_API_URL"), *key = variable("E2B_API_KEY"),
                   *sandbox = variable("E2B_SANDBOX_URL");

        if (!key)
                return err_set(err, ERR_INVALID, "E2B_API_URL is set, but E2B_API_KEY is not");
        *ret = (struct envfile){
                .api_url = strdup(url), .api_key = strdup(key), .sandbox_url = strdup(sandbox ? sandbox : url)};
        if (ret->api_url && ret->api_key && ret->sandbox_url)
                return 0;
        envfile_done(ret);
        return err_set(err, ERR_LIMIT, "out of memory");
}

int cli_conf(const char *data_dir, struct envfile *ret, struct err *err)
{
        if (!data_dir && variable("E2B_API_URL"))
                return from_environment(ret, err);
        return from_file(data_dir ? data_dir : CLI_DEFAULT_DATA, ret, err);
}

struct cli_user cli_user(void)
{
        const char *sudo = getenv("SUDO_UID");
        struct cli_user user = {.uid = getuid(), .home = getenv("HOME")};
        uint32_t uid;

        if (sudo && user.uid == 0 && parse_u32(str_of(sudo), 1, UINT32_MAX - 1, &uid) == 0) {
                user.uid = uid;
                user.is_sudo = true;
        }
        return user;
}
