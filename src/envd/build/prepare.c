#include "envd/build/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "envd/build/build_calls.h"
#include "envd/build/build_process.h"
#include "envd/build/configure.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/users.h"

#define BODY_MAX (1u << 20)
#define SUDO_USER "user" /* steps of a build run as this user, and need no password for sudo */

/* ---- users ---- */

static bool name_is_valid(struct str name)
{
        if (name.n == 0 || name.n > 32 || name.p[0] == '-')
                return false;
        for (size_t i = 0; i < name.n; i++) {
                char c = name.p[i];

                if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && !strchr("_.-", c))
                        return false;
        }
        return true;
}

/* "1000" names the user of that uid; one is made with a name of its own when there is none. */
static int prepare_uid(uint32_t uid, char name[PREPARE_NAME_MAX], bool *ret_created, struct err *err)
{
        AUTO_USERS struct users us;
        struct str known;
        char number[16];
        int r;

        users_init(&us);
        r = users_load(&us);
        if (r < 0)
                return err_sys(err, r, "read /etc/passwd");
        known = users_name(&us, uid);
        *ret_created = known.n == 0;
        if (known.n >= PREPARE_NAME_MAX)
                return err_set(err, ERR_INVALID, "the user %u has a name that is too long", uid);
        if (known.n) {
                (void)snprintf(name, PREPARE_NAME_MAX, "%.*s", STR_ARG(known));
                return 0;
        }
        (void)snprintf(name, PREPARE_NAME_MAX, "uid%u", uid);
        (void)snprintf(number, sizeof(number), "%u", uid);
        return user_add(name, number, err);
}

int prepare_user(const char *given, char name[PREPARE_NAME_MAX], bool *ret_created, struct err *err)
{
        AUTO_USER struct user u = {0};
        struct str rest = str_of(given), who;
        uint32_t uid;
        int r;

        (void)str_cut(&rest, ':', &who);
        if (!name_is_valid(who))
                return err_set(err, ERR_INVALID, "invalid username: '%.64s'", given);
        if (parse_u32(who, 0, 65534, &uid) == 0)
                return prepare_uid(uid, name, ret_created, err);
        (void)snprintf(name, PREPARE_NAME_MAX, "%.*s", STR_ARG(who));
        r = user_lookup(name, &u);
        *ret_created = r == -ENOENT;
        if (r == 0)
                return 0;
        return r == -ENOENT ? user_add(name, NULL, err) : err_sys(err, r, "read /etc/passwd");
}

static int find_user(const char *name, struct user *ret, struct err *err)
{
        int r = name ? user_lookup(name, ret) : -ENOENT;

        if (r == -ENOENT)
                return err_set(err, ERR_NOT_FOUND, "invalid username: '%.64s'", name ? name : "");
        return r < 0 ? err_sys(err, r, "read /etc/passwd") : 0;
}

/* ---- directories ---- */

static int make_dir_for(const char *path, const struct user *owner, struct err *err)
{
        if (mkdir(path, 0755) < 0)
                return err_sys(err, -errno, "make '%s'", path);
        if (lchown(path, owner->uid, owner->gid) < 0)
                return err_sys(err, -errno, "give '%s' to %s", path, owner->name);
        return 0;
}

int prepare_workdir(const char *path, const struct user *owner, bool *ret_created, struct err *err)
{
        char at[PATH_MAX];
        struct stat st;
        int r;

        *ret_created = false;
        if (path[0] != '/' || strlen(path) >= sizeof(at))
                return err_set(err, ERR_INVALID, "'%.100s' is no absolute path, or too long", path);
        /* Each beginning of the path, from the top; links on the way are followed as ever. */
        for (size_t n = 1; path[n - 1]; n++) {
                if (path[n] != '/' && path[n] != '\0')
                        continue;
                memcpy(at, path, n);
                at[n] = '\0';
                if (stat(at, &st) == 0) {
                        if (!S_ISDIR(st.st_mode))
                                return err_set(err, ERR_INVALID, "'%.200s' is not a directory", at);
                        continue;
                }
                if (errno != ENOENT)
                        return err_sys(err, -errno, "'%.100s'", at);
                r = make_dir_for(at, owner, err);
                if (r < 0)
                        return r;
                *ret_created = true;
        }
        return 0;
}

/* ---- the call ---- */

static json_t *run_home(const json_t *in, struct err *err)
{
        AUTO_USER struct user u = {0};

        if (find_user(json_string_value(json_object_get(in, "user")), &u, err) < 0)
                return NULL;
        return json_pack("{s:s}", "home", u.home);
}

static json_t *run_user(const json_t *in, struct err *err)
{
        const char *given = json_string_value(json_object_get(in, "name"));
        char name[PREPARE_NAME_MAX];
        AUTO_USER struct user u = {0};
        bool created, changed;

        if (prepare_user(given ? given : "", name, &created, err) < 0 || find_user(name, &u, err) < 0)
                return NULL;
        if (created && strcmp(name, SUDO_USER) == 0 && configure_sudo(name, &changed, err) < 0)
                return NULL;
        return json_pack("{s:b, s:s, s:s}", "created", created, "name", name, "home", u.home);
}

static json_t *run_workdir(const json_t *in, struct err *err)
{
        const char *path = json_string_value(json_object_get(in, "path"));
        AUTO_USER struct user u = {0};
        bool created;

        if (find_user(json_string_value(json_object_get(in, "user")), &u, err) < 0 ||
            prepare_workdir(path ? path : "", &u, &created, err) < 0)
                return NULL;
        return json_pack("{s:b}", "created", created);
}

static json_t *run_configure(const json_t *in, struct err *err)
{
        const char *template_id = json_string_value(json_object_get(in, "template_id"));
        const char *build_id = json_string_value(json_object_get(in, "build_id"));
        bool changed;

        if (!template_id || !build_id || strpbrk(template_id, "\n\r") || strpbrk(build_id, "\n\r")) {
                (void)err_set(err, ERR_INVALID, "'template_id' and 'build_id' are needed");
                return NULL;
        }
        if (configure_template(template_id, build_id, &changed, err) < 0)
                return NULL;
        return json_pack("{s:b}", "changed", changed);
}

static const struct {
        const char *kind;
        json_t *(*run)(const json_t *in, struct err *err); /* the answer, or NULL with *err */
} prepare_kinds[] = {
        {"home", run_home},
        {"user", run_user},
        {"workdir", run_workdir},
        {"configure", run_configure},
};

static json_t *prepare_run(const json_t *in, struct err *err)
{
        const char *kind = json_string_value(json_object_get(in, "kind"));

        for (size_t i = 0; kind && i < ARRAY_LEN(prepare_kinds); i++)
                if (strcmp(kind, prepare_kinds[i].kind) == 0)
                        return prepare_kinds[i].run(in, err);
        (void)err_set(err, ERR_INVALID, "'kind' is unknown");
        return NULL;
}

static void prepare_work(struct build_process *p)
{
        AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
        struct err err = {0};
        json_t *in = NULL, *answer = NULL;
        int r = byte_source_collect(&p->body, &body);

        if (r < 0)
                (void)err_set(&err, ERR_INVALID, "the body is too long, or was cut off");
        else if (!(in = json_loadb(body.len ? (const char *)buf_at(&body) : "", body.len, JSON_REJECT_DUPLICATES,
                                   NULL)))
                (void)err_set(&err, ERR_INVALID, "the body is no JSON");
        else
                answer = prepare_run(in, &err);
        json_decref(in);
        if (answer)
                build_answer(p, 200, answer);
        else
                build_answer_error(p, &err);
}

void build_call_prepare(const struct handler_context *context, struct http_request *rq)
{
        build_process_start(context, rq, prepare_work);
}
