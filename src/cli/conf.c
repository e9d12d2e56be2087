#include "cli/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/member.h"

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
                return member_exports(data_dir, ret, err);
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
const char *cli_variable(const char *name)
{
        const char *text = getenv(name);

        return text && text[0] ? text : NULL;
}

/* https://<part>.<domain>, the addresses that clients derive from a domain. */
static char *url_of_domain(const char *part, const char *domain)
{
        char *url;

        return domain && asprintf(&url, "https://%s.%s", part, domain) > 0 ? url : NULL;
}

/* As the clients do it: a URL that is not set follows from the domain. */
static int from_environment(struct envfile *ret, struct err *err)
{
        const char *url = cli_variable("E2B_API_URL"), *key = cli_variable("E2B_API_KEY"),
                   *domain = cli_variable("E2B_DOMAIN"), *sandbox = cli_variable("E2B_SANDBOX_URL");
        AUTO_FREE char *api_of_domain = url_of_domain("api", domain);
        bool is_by_domain = api_of_domain && (!url || strcmp(url, api_of_domain) == 0);

        if (!key)
                return err_set(err, ERR_INVALID, "E2B_API_URL is set, but E2B_API_KEY is not");
        *ret = (struct envfile){.api_url = url ? strdup(url) : TAKE_PTR(api_of_domain),
                                .api_key = strdup(key),
                                .sandbox_url = sandbox        ? strdup(sandbox)
                                               : is_by_domain ? url_of_domain("sandbox", domain)
                                               : url          ? strdup(url)
                                                              : NULL};
        if (ret->api_url && ret->api_key && ret->sandbox_url)
                return 0;
        envfile_done(ret);
        return err_set(err, ERR_LIMIT, "out of memory");
}

int cli_conf(const char *data_dir, struct envfile *ret, struct err *err)
{
        if (!data_dir && (cli_variable("E2B_API_URL") || (cli_variable("E2B_DOMAIN") && cli_variable("E2B_API_KEY"))))
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

char *cli_config_dir(void)
{
        const char *own = cli_variable("XDG_CONFIG_HOME"), *home = cli_variable("HOME");
        char *dir;

        if (own && own[0] == '/')
                return strdup(own);
        return home && home[0] == '/' && asprintf(&dir, "%s/.config", home) > 0 ? dir : NULL;
}

const char *cli_remote_domain(void)
{
        return cli_variable("E2B_DOMAIN");
}

const char *cli_remote_key(void)
{
        return cli_variable("E2B_API_KEY");
}
