#include "envd/build/copy_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "envd/rpc/users.h"
#include "wire/tar/tar.h"
#include "wire/url.h"

bool copy_cut_pattern(char *src)
{
        char *at = strpbrk(src, "*?[");

        if (!at)
                return false;
        while (at > src && at[-1] != '/')
                at--;
        *at = '\0';
        return true;
}

void copy_clean_path(char *path)
{
        char *out = path, *at = path;

        while (*at) {
                size_t n = strcspn(at, "/");

                if (n == 2 && at[0] == '.' && at[1] == '.') {
                        while (out > path && *--out != '/')
                                ;
                } else if (n && !(n == 1 && at[0] == '.')) {
                        *out++ = '/';
                        memmove(out, at, n);
                        out += n;
                }
                at += n;
                while (*at == '/')
                        at++;
        }
        if (out == path)
                *out++ = '/';
        *out = '\0';
}

/* ---- source and destination ---- */

/* A path in another stage is absolute; its archive has it under its last part. */
static void cut_absolute(char *src, bool had_pattern)
{
        size_t n = strlen(src);
        char *slash;

        if (src[0] != '/')
                return;
        while (n > 1 && src[n - 1] == '/')
                src[--n] = '\0';
        slash = strrchr(src, '/');
        if (had_pattern)
                src[0] = '\0';
        else
                memmove(src, slash + 1, strlen(slash + 1) + 1);
}

static int decode_source(const char *given, struct copy_request *ret, struct err *err)
{
        bool is_absolute;
        int n;

        if (strlen(given) >= sizeof(ret->src))
                return err_set(err, ERR_INVALID, "the source is too long");
        (void)snprintf(ret->src, sizeof(ret->src), "%s", given);
        ret->is_directory = copy_cut_pattern(ret->src);
        cut_absolute(ret->src, ret->is_directory);
        n = tar_name_clean(ret->src, strlen(ret->src), &is_absolute);
        if (n < 0)
                return err_set(err, ERR_INVALID, "the source '%.150s' is not a name below the context", given);
        if (n == 0)
                ret->is_directory = true;
        return 0;
}

static int decode_dest(const char *given, const char *base, struct copy_request *ret, struct err *err)
{
        char path[2 * PATH_MAX];
        size_t n = strlen(given);

        if (n + strlen(base) + 2 > PATH_MAX)
                return err_set(err, ERR_INVALID, "the destination is too long");
        ret->is_into =
                n == 0 || given[n - 1] == '/' || strcmp(given, ".") == 0 || (n > 1 && strcmp(given + n - 2, "/.") == 0);
        (void)snprintf(path, sizeof(path), "%s%s%s", given[0] == '/' ? "" : base, given[0] == '/' ? "" : "/", given);
        copy_clean_path(path);
        (void)snprintf(ret->dest, sizeof(ret->dest), "%.*s", PATH_MAX - 1, path + 1);
        return 0;
}

/* ---- owner and mode ---- */

static int find_uid(const struct users *us, struct str name, uint32_t *ret_uid, gid_t *ret_gid, struct err *err)
{
        AUTO_USER struct user u = {0};

        if (parse_u32(name, 0, 65535, ret_uid) == 0) {
                *ret_gid = *ret_uid;
                return 0;
        }
        if (users_find(us, name, &u) < 0)
                return err_set(err, ERR_INVALID, "invalid user: '%.*s'", (int)(name.n < 64 ? name.n : 64), name.p);
        *ret_uid = u.uid;
        if (users_group_id(us, name, ret_gid) < 0) /* `u` means `u:u`, where there is such a group */
                *ret_gid = u.gid;
        return 0;
}

static int decode_owner(const struct users *us, const char *given, struct copy_request *ret, struct err *err)
{
        struct str group = str_of(given), user;
        bool has_group = str_cut(&group, ':', &user);
        gid_t gid = 0;
        uint32_t number;
        int r = find_uid(us, user, &ret->uid, &gid, err);

        if (r < 0)
                return r;
        if (has_group && group.n) {
                if (parse_u32(group, 0, 65535, &number) == 0)
                        gid = number;
                else if (users_group_id(us, group, &gid) < 0)
                        return err_set(err, ERR_INVALID, "invalid group: '%.*s'", (int)(group.n < 64 ? group.n : 64),
                                       group.p);
        }
        ret->gid = gid;
        return 0;
}

static int decode_mode(const char *given, struct copy_request *ret, struct err *err)
{
        uint32_t mode = 0;

        if (!given[0])
                return 0;
        for (const char *at = given; *at; at++) {
                if (*at < '0' || *at > '7' || mode > 07777)
                        return err_set(err, ERR_INVALID, "invalid mode: '%.32s'", given);
                mode = mode << 3 | (uint32_t)(*at - '0');
        }
        if (mode > 07777)
                return err_set(err, ERR_INVALID, "invalid mode: '%.32s'", given);
        ret->has_mode = true;
        ret->mode = mode;
        return 0;
}

/* ---- the query ---- */

struct copy_query {
        char *src, *dest, *owner, *mode, *user, *workdir; /* owned; NULL: not given */
};

static void copy_query_done(struct copy_query *q)
{
        free(q->src);
        free(q->dest);
        free(q->owner);
        free(q->mode);
        free(q->user);
        free(q->workdir);
}

static int copy_query_read(struct str query, const char *default_user, struct copy_query *ret, struct err *err)
{
        if (url_query_get(query, "src", &ret->src) < 0 || url_query_get(query, "dest", &ret->dest) < 0 ||
            url_query_get(query, "owner", &ret->owner) < 0 || url_query_get(query, "mode", &ret->mode) < 0 ||
            url_query_get(query, "user", &ret->user) < 0 || url_query_get(query, "workdir", &ret->workdir) < 0)
                return err_set(err, ERR_INVALID, "the query is not valid");
        if (!ret->src || !ret->dest)
                return err_set(err, ERR_INVALID, "src and dest are needed");
        if (!ret->user)
                ret->user = strdup(default_user);
        if (!ret->user)
                return err_set(err, ERR_LIMIT, "out of memory");
        return 0;
}

int copy_request_decode(struct str query, const char *default_user, struct copy_request *ret, struct err *err)
{
        AUTO(copy_query_done) struct copy_query q = {0};
        AUTO_USERS struct users us;
        AUTO_USER struct user user = {0};
        int r;

        *ret = (struct copy_request){0};
        users_init(&us);
        r = copy_query_read(query, default_user, &q, err);
        if (r < 0)
                return r;
        r = users_load(&us);
        if (r < 0)
                return err_sys(err, r, "read /etc/passwd");
        if (users_find(&us, str_of(q.user), &user) < 0)
                return err_set(err, ERR_INVALID, "invalid username: '%.64s'", q.user);
        if ((r = decode_source(q.src, ret, err)) < 0 ||
            (r = decode_dest(q.dest, q.workdir && q.workdir[0] == '/' ? q.workdir : user.home, ret, err)) < 0 ||
            (r = decode_owner(&us, q.owner && q.owner[0] ? q.owner : q.user, ret, err)) < 0)
                return r;
        return decode_mode(q.mode ? q.mode : "", ret, err);
}
