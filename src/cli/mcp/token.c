#include "cli/mcp/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/conf.h"

#define TOKEN_CHARS 40
#define TOKEN_BYTES_MAX 512u

static int make_dir(const char *path)
{
        return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* A file that is there stays: two programs that start at once agree on one token. */
static int make_token(const char *path, struct err *err)
{
        char token[TOKEN_CHARS + 2], beside[4096], random[9];
        AUTO_CLOSE int fd = -1;
        int r = 0;

        random_id(token, TOKEN_CHARS);
        random_id(random, 8);
        token[TOKEN_CHARS] = '\n';
        if (snprintf(beside, sizeof(beside), "%s.%s", path, random) >= (int)sizeof(beside))
                return err_set(err, ERR_INVALID, "the name of the token file is too long");
        fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, token, TOKEN_CHARS + 1) != TOKEN_CHARS + 1 ||
            (link(beside, path) < 0 && errno != EEXIST))
                r = err_sys(err, errno ? -errno : -EIO, "write '%s'", path);
        (void)unlink(beside);
        return r;
}

int token_file_of(const char *given, char **ret, struct err *err)
{
        AUTO_FREE char *config = given ? NULL : cli_config_dir(), *dir = NULL, *path = NULL;
        int r;

        if (given) {
                *ret = strdup(given);
                return *ret ? 0 : err_set(err, ERR_LIMIT, "out of memory");
        }
        if (!config)
                return err_set(err, ERR_INVALID, "HOME is not set: name a file with --token-file");
        if (asprintf(&dir, "%s/sandglass", config) < 0 || asprintf(&path, "%s/mcp-token", dir) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = make_dir(config);
        if (r == 0)
                r = make_dir(dir);
        if (r < 0)
                return err_sys(err, r, "make '%s'", dir);
        if (access(path, F_OK) < 0 && (r = make_token(path, err)) < 0)
                return r;
        *ret = TAKE_PTR(path);
        return 0;
}

int token_read(const char *given, char **ret, struct err *err)
{
        AUTO_FREE char *path = NULL;
        AUTO_BUF struct buf text = BUF_INIT(TOKEN_BYTES_MAX);
        AUTO_CLOSE int fd = -1;
        struct str token;
        ssize_t n;
        int r = token_file_of(given, &path, err);

        if (r < 0)
                return r;
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -errno : buf_fill(&text, fd, TOKEN_BYTES_MAX);
        if (n < 0)
                return err_sys(err, (int)n, "read '%s'", path);
        token = (struct str){n ? (const char *)buf_at(&text) : "", (size_t)n};
        while (token.n && (token.p[token.n - 1] == '\n' || token.p[token.n - 1] == '\r'))
                token.n--;
        *ret = token.n && !str_has_nul(token) ? str_dup(token) : NULL;
        return *ret ? 0 : err_set(err, ERR_INVALID, "'%s' has no token", path);
}
