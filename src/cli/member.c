#include "cli/member.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "model/envfile.h"

#define ANSWER_S 20
#define GROUPS_MAX 1024
#define NAME_ROOM 64

static bool is_among(const gid_t *all, int n, gid_t gid)
{
        for (int i = 0; i < n; i++)
                if (all[i] == gid)
                        return true;
        return false;
}

/* As the system lists it now, which a session that began earlier does not know. */
static bool is_listed_member(const struct passwd *pw, gid_t gid)
{
        gid_t all[GROUPS_MAX];
        int n = GROUPS_MAX;

        return pw && getgrouplist(pw->pw_name, pw->pw_gid, all, &n) >= 0 && is_among(all, n, gid);
}

/* The socket refused us: which group would be let in? */
static int explain_refusal(const char *path, struct err *err)
{
        char group[NAME_ROOM], user[NAME_ROOM];
        const struct passwd *pw = getpwuid(geteuid());
        const struct group *gr;
        struct stat st;

        if (stat(path, &st) < 0)
                return err_sys(err, -errno, "look at '%s'", path);
        (void)snprintf(user, sizeof(user), "%u", geteuid());
        if (pw)
                (void)snprintf(user, sizeof(user), "%s", pw->pw_name);
        (void)snprintf(group, sizeof(group), "%u", st.st_gid);
        gr = getgrgid(st.st_gid);
        if (gr)
                (void)snprintf(group, sizeof(group), "%s", gr->gr_name);
        if (is_listed_member(pw, st.st_gid))
                return err_set(err, ERR_DENIED,
                               "you are a member of the group %s, but this session began earlier: log in again, or run "
                               "`newgrp %s`",
                               group, group);
        return err_set(
                err, ERR_DENIED,
                "you are neither root nor in the server's group %s. Ask its operator: `adduser %s %s` (then log in "
                "again), or a key of `sandglass key create`",
                group, user, group);
}

static int member_connect(const char *path, int *ret_fd, struct err *err)
{
        AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const struct timeval patience = {.tv_sec = ANSWER_S};
        struct sockaddr_un at = {.sun_family = AF_UNIX};

        if (strlen(path) >= sizeof(at.sun_path))
                return err_set(err, ERR_INVALID, "--data: the path is too long");
        memcpy(at.sun_path, path, strlen(path) + 1);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
                return err_sys(err, -errno, "ask the server for a key");
        if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0) {
                *ret_fd = TAKE_FD(fd);
                return 0;
        }
        switch (errno) {
        case EACCES:
        case EPERM: return explain_refusal(path, err);
        case ENOENT:
                return err_set(
                        err, ERR_DENIED,
                        "only root can use this server: it has no group for other users. Use sudo, or ask for a key "
                        "(`sandglass key create`) and set E2B_API_URL and E2B_API_KEY");
        case ECONNREFUSED:
                return err_set(err, ERR_UNAVAILABLE, "no server answers at %s: is `sandglass serve` running?", path);
        default: return err_sys(err, -errno, "connect to '%s'", path);
        }
}

/* The server's one line about why there is no key. */
static int explain_answer(const struct buf *answer, struct err *err)
{
        struct str text = {(const char *)buf_at(answer), answer->len}, line;

        (void)str_cut(&text, '\n', &line);
        if (!str_starts(line, "# ") || !str_is_utf8(line))
                return err_set(err, ERR_UNAVAILABLE, "the server gave no key: its log may say why");
        return err_set(err, ERR_DENIED, "%.*s", (int)line.n - 2, line.p + 2);
}

int member_exports(const char *data_dir, struct envfile *ret, struct err *err)
{
        AUTO_BUF struct buf answer = BUF_INIT(ENVFILE_MAX + 1);
        AUTO_FREE char *path = NULL;
        AUTO_CLOSE int fd = -1;
        ssize_t n;
        int r;

        if (asprintf(&path, "%s/run/users.sock", data_dir) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        r = member_connect(path, &fd, err);
        if (r < 0)
                return r;
        do {
                n = buf_fill(&answer, fd, buf_room(&answer));
        } while (n > 0);
        if (n < 0)
                return err_sys(err, (int)n, "hear from the server at '%s'", path);
        r = envfile_parse((struct str){(const char *)buf_at(&answer), answer.len}, ret);
        if (r < 0)
                return err_sys(err, r, "read the answer of '%s'", path);
        if (ret->api_url && ret->api_key)
                return 0;
        envfile_done(ret);
        return explain_answer(&answer, err);
}
