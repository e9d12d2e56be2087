/* cp: files and directories, into a sandbox and out of one. */
#include "cli/sandbox/cp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/sandbox/running.h"
#include "cli/signals.h"

const char cp_usage[] =
        "usage: sandglass cp [-u USER] [--data DIR] SOURCE... SANDBOX:PATH\n"
        "       sandglass cp [-u USER] [--data DIR] SANDBOX:PATH... DEST\n"
        "Copy files and directories into a running sandbox, or out of one.  Relative paths in the sandbox begin "
        "at the\n"
        "user's home.  What is copied into a directory that exists keeps its name.\n"
        "  -u, --user USER   whose files they become or are in the sandbox (default user)\n";

/* The path after "SANDBOX:"; NULL: a path of this machine.  *ret_n: length of the id. */
static const char *remote_path(const char *word, size_t *ret_n)
{
        const char *colon = strchr(word, ':');

        if (!colon || memchr(word, '/', (size_t)(colon - word)))
                return NULL;
        *ret_n = (size_t)(colon - word);
        return sandbox_id_is_valid((struct str){word, *ret_n}) ? colon + 1 : NULL;
}

static const char *base_name(const char *path)
{
        size_t n = strlen(path);

        while (n > 1 && path[n - 1] == '/')
                n--;
        for (size_t i = n; i > 0; i--)
                if (path[i - 1] == '/' && i < n)
                        return path + i;
        return path;
}

/* dir/name, without slashes at its end. */
static char *inside(const char *dir, const char *name)
{
        size_t n = strlen(name);
        char *path;

        while (n > 1 && name[n - 1] == '/')
                n--;
        return asprintf(&path, "%s%s%.*s", dir, dir[0] && !str_ends(str_of(dir), "/") ? "/" : "", (int)n, name) < 0
                       ? NULL
                       : path;
}

/* ---- the sandbox's side ---- */

struct remote_file {
        bool exists, is_dir;
        mode_t mode;
};

static const struct sg_call patient = {.timeout_ms = SG_NO_TIMEOUT};

static int stat_remote(struct copying *c, const char *path, struct remote_file *ret)
{
        const struct sg_file_options options = {.user = c->user};
        struct sg_file *file = NULL;
        struct sg_error why = {0};

        *ret = (struct remote_file){0};
        if (sg_file_stat(c->box, path[0] ? path : ".", &options, &patient, &file, &why) < 0)
                return why.kind == SG_NOT_FOUND && why.http_status == 404 ? 0 : api_error(c->api, &why, c->err);
        *ret = (struct remote_file){
                .exists = true, .is_dir = file->type == SG_FILE_DIRECTORY, .mode = (mode_t)file->mode & 0777};
        sg_free(file);
        return 0;
}

/* ---- into the sandbox ---- */

static int file_up(struct copying *c, const char *from, const struct stat *st, const char *to)
{
        AUTO_CLOSE int fd = open(from, O_RDONLY | O_CLOEXEC);
        const struct sg_file_options options = {.user = c->user};
        struct sg_error why = {0};
        char mode[8];

        if (fd < 0)
                return err_sys(c->err, -errno, "open '%s'", from);
        if (sg_file_upload(c->box, to, fd, &options, &patient, &why) < 0)
                return api_error(c->api, &why, c->err);
        if (!(st->st_mode & 0111))
                return 0;
        (void)snprintf(mode, sizeof(mode), "%o", st->st_mode & 0777);
        return run_in_sandbox(c, (char *const[]){"chmod", "--", mode, (char *)to, NULL});
}

static int copy_up(struct copying *c, const char *from, const char *to, bool must_be_dir)
{
        AUTO_FREE char *target = NULL;
        struct remote_file there;
        struct stat st;
        int r;

        if (stat(from, &st) < 0)
                return err_sys(c->err, -errno, "'%s'", from);
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                return err_set(c->err, ERR_INVALID, "'%s' is neither a file nor a directory", from);
        r = stat_remote(c, to, &there);
        if (r < 0)
                return r;
        if (must_be_dir && there.exists && !there.is_dir)
                return err_set(c->err, ERR_INVALID, "'%s' is no directory", to);
        target = there.is_dir || must_be_dir ? inside(to, base_name(from)) : strdup(to);
        if (!target)
                return err_set(c->err, ERR_LIMIT, "out of memory");
        return S_ISDIR(st.st_mode) ? copy_tree_up(c, from, target) : file_up(c, from, &st, target);
}

/* ---- out of the sandbox ---- */

static int file_down(struct copying *c, const char *from, mode_t mode, const char *to)
{
        AUTO_CLOSE int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode | 0600);
        const struct sg_file_options options = {.user = c->user};
        struct sg_error why = {0};

        if (fd < 0)
                return err_sys(c->err, -errno, "write '%s'", to);
        if (sg_file_download(c->box, from, fd, &options, &patient, &why) < 0)
                return api_error(c->api, &why, c->err);
        if (fchmod(fd, mode) < 0 && errno != EPERM)
                return err_sys(c->err, -errno, "set the mode of '%s'", to);
        return 0;
}

static int copy_down(struct copying *c, const char *from, const char *to, bool must_be_dir)
{
        AUTO_FREE char *target = NULL;
        struct remote_file there;
        struct stat st;
        bool is_dir = stat(to, &st) == 0 && S_ISDIR(st.st_mode);
        int r = stat_remote(c, from, &there);

        if (r < 0)
                return r;
        if (!there.exists)
                return err_set(c->err, ERR_NOT_FOUND, "there is no '%s' in the sandbox", from);
        if (must_be_dir && !is_dir)
                return err_set(c->err, ERR_INVALID, "'%s' is no directory", to);
        target = is_dir ? inside(to, base_name(from)) : strdup(to);
        if (!target)
                return err_set(c->err, ERR_LIMIT, "out of memory");
        return there.is_dir ? copy_tree_down(c, from, target) : file_down(c, from, there.mode, target);
}

/* ---- the command ---- */

struct direction {
        char id[SANDBOX_ID_MAX];
        bool is_up;
};

/* All sources are on one side, and the destination on the other; one sandbox only. */
static int find_direction(const struct cli_options *o, struct direction *ret, struct err *err)
{
        const char *dest = o->args[o->arg_count - 1];
        size_t n = 0, other = 0;

        ret->is_up = remote_path(dest, &n) != NULL;
        if (!ret->is_up && !remote_path(o->args[0], &n))
                return err_set(err, ERR_INVALID, "one side must be SANDBOX:PATH");
        (void)snprintf(ret->id, sizeof(ret->id), "%.*s", (int)n, ret->is_up ? dest : o->args[0]);
        for (int i = 0; i + 1 < o->arg_count; i++) {
                bool is_remote = remote_path(o->args[i], &other) != NULL;

                if (is_remote == ret->is_up || (is_remote && (other != n || memcmp(o->args[i], ret->id, n) != 0)))
                        return err_set(err, ERR_INVALID, "'%s': copies are between this machine and one sandbox",
                                       o->args[i]);
        }
        return 0;
}

static int copy_all(struct cli_api *api, const struct cli_options *o, const struct direction *d, struct err *err)
{
        struct api_sandbox sandbox = {0};
        struct copying c = {.api = api, .sandbox = &sandbox, .user = o->user, .err = err};
        const char *dest = o->args[o->arg_count - 1];
        int r = api_get_running(api, d->id, &sandbox, err), code = 0;
        size_t n;

        if (r == 0)
                r = api_box(api, &sandbox, &c.box, err);
        for (int i = 0; r == 0 && i + 1 < o->arg_count; i++) {
                bool is_many = o->arg_count > 2 || str_ends(str_of(dest), "/");
                int one = d->is_up ? copy_up(&c, o->args[i], remote_path(dest, &n), is_many)
                                   : copy_down(&c, remote_path(o->args[i], &n), dest, is_many);

                if (one < 0)
                        code = cli_fail("cp", err);
        }
        sg_sandbox_free(c.box);
        return r < 0 ? cli_fail("cp", err) : code;
}

int cp_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        struct direction d = {0};
        AUTO_CLOSE int signals = -1;
        struct cli_api api;
        int code;

        if (cli_options_parse(argc, argv, CLI_ANYWHERE | CLI_DATA | CLI_USER, &o, &err) < 0 || o.help ||
            o.arg_count < 2 || find_direction(&o, &d, &err) < 0)
                return cli_usage(&o, cp_usage, &err);
        signals = cli_take_signals();
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("cp", &err);
        code = copy_all(&api, &o, &d, &err);
        api_close(&api);
        return code;
}
