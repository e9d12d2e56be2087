#include "envd/files/filesystem_rpc.h"

#include <errno.h>
#include <stdio.h>

#include "envd/rpc/field.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/paths.h"
#include "envd/rpc/rpc.h"

struct file_entry_options filesystem_entry_options(const struct rpc *rpc, struct users *us)
{
        (void)users_load(us); /* without these files owners are shown as numbers */
        return (struct file_entry_options){.users = us, .is_legacy = rpc_is_legacy(rpc->rq)};
}

/* {"entry": ...} of path. */
static int filesystem_read_entry(const struct rpc *rpc, const char *path, json_t **ret, struct fault *f)
{
        AUTO_USERS struct users us;
        struct file_entry_options opt;
        json_t *entry;
        int r;

        users_init(&us);
        opt = filesystem_entry_options(rpc, &us);
        r = file_entry_read(path, NULL, &opt, &entry, NULL);
        if (r == -ENOENT)
                return fault_sys(f, CONNECT_NOT_FOUND, -r, "file not found: lstat %s", path);
        if (r < 0)
                return fault_sys(f, CONNECT_INTERNAL, -r, "error getting file info: lstat %s", path);
        *ret = json_pack("{s:o}", "entry", entry);
        return 0;
}

/* Run the method, and answer with its result or its fault. */
static void filesystem_serve(struct rpc *rpc, int (*run)(struct rpc *rpc, json_t **ret, struct fault *f))
{
        AUTO_FAULT struct fault f = {0};
        json_t *out = NULL;

        if (run(rpc, &out, &f) < 0)
                rpc_fail(rpc, &f);
        else
                rpc_reply(rpc, out);
}

static int filesystem_stat(struct rpc *rpc, json_t **ret, struct fault *f)
{
        AUTO_USER struct user u = {0};
        AUTO_FREE char *path = NULL;
        const char *given;

        if (field_text(rpc->in, "path", &given, f) < 0 || rpc_user_path(rpc, given, &u, &path, f) < 0)
                return -1;
        return filesystem_read_entry(rpc, path, ret, f);
}

void filesystem_rpc_stat(struct rpc *rpc)
{
        filesystem_serve(rpc, filesystem_stat);
}

static int filesystem_make_dir(struct rpc *rpc, json_t **ret, struct fault *f)
{
        AUTO_USER struct user u = {0};
        AUTO_FREE char *path = NULL;
        const char *given;
        struct stat st;

        if (field_text(rpc->in, "path", &given, f) < 0 || rpc_user_path(rpc, given, &u, &path, f) < 0)
                return -1;
        if (stat(path, &st) == 0) {
                if (S_ISDIR(st.st_mode))
                        return fault_set(f, CONNECT_ALREADY_EXISTS, "directory already exists: %s", path);
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "path already exists but it is not a directory: %s",
                                 path);
        }
        if (errno != ENOENT)
                return fault_sys(f, CONNECT_INTERNAL, errno, "error getting file info: stat %s", path);
        if (dirs_ensure(path, &u, rpc->context->keep_user, f) < 0)
                return -1;
        return filesystem_read_entry(rpc, path, ret, f);
}

void filesystem_rpc_make_dir(struct rpc *rpc)
{
        filesystem_serve(rpc, filesystem_make_dir);
}

static int filesystem_move(struct rpc *rpc, json_t **ret, struct fault *f)
{
        const char *workdir = rpc->context->settings.default_workdir, *from_given, *to_given;
        AUTO_USER struct user u = {0};
        AUTO_FREE char *from = NULL;
        AUTO_FREE char *to = NULL;

        if (field_text(rpc->in, "source", &from_given, f) < 0 || field_text(rpc->in, "destination", &to_given, f) < 0 ||
            rpc_user_path(rpc, from_given, &u, &from, f) < 0 || path_expand(to_given, &u, workdir, &to, f) < 0 ||
            dirs_ensure_parent(to, &u, rpc->context->keep_user, f) < 0)
                return -1;
        if (rename(from, to) < 0) {
                if (errno == ENOENT)
                        return fault_sys(f, CONNECT_NOT_FOUND, errno, "source file not found: rename %s %s", from, to);
                return fault_sys(f, CONNECT_INTERNAL, errno, "error renaming: rename %s %s", from, to);
        }
        return filesystem_read_entry(rpc, to, ret, f);
}

void filesystem_rpc_move(struct rpc *rpc)
{
        filesystem_serve(rpc, filesystem_move);
}
