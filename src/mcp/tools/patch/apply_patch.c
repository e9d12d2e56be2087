/* apply_patch.c - the tool apply_patch.
 *
 * All sections of the patch are applied in memory first, each on what those before it have left.  Nothing is written before the last one
 * fits.  Then new contents are written, each file at once, and files are deleted last. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/tools/patch/patch.h"
#include "mcp/tools/path.h"
#include "mcp/tools/sandbox_tools.h"

#define PATCHED_BYTES_MAX (64u << 20) /* of all files of a patch */
#define TARGETS_MAX (2 * PATCH_FILES_MAX)

struct target {              /* a file that the patch names, as it will be */
        char path[PATH_MAX]; /* as the patch has it */
        char key[PATH_MAX];  /* the same for all paths that lead to the file */
        bool was_there, is_there, is_changed, is_read;
        mode_t mode; /* of the file that it was renamed or copied from; 0: none */
        enum patch_mode wanted;
        struct target *moved_from; /* borrowed */
        bool is_moved;             /* another one has its content now */
        struct buf content;
};

struct patching {
        const struct mcp *mcp;
        struct target *targets[TARGETS_MAX]; /* owned */
        size_t count, bytes;
};

static struct str text_of(const struct buf *b)
{
        return (struct str){b->len ? (const char *)buf_at(b) : "", b->len};
}

/* ---- files by name ---- */

/* Without "." and empty parts. */
static void clean(const char *path, char ret[PATH_MAX])
{
        size_t n = 0;

        while (*path && n + 1 < PATH_MAX) {
                size_t part;

                path += strspn(path, "/");
                part = strcspn(path, "/");
                if (part && !(part == 1 && path[0] == '.') && n + part + 2 < PATH_MAX) {
                        ret[n++] = '/';
                        memcpy(ret + n, path, part);
                        n += part;
                }
                path += part;
        }
        ret[n] = '\0';
}

static void key_of(const char *path, char ret[PATH_MAX])
{
        char lexical[PATH_MAX], dir[PATH_MAX], *slash;

        clean(path, lexical);
        if (realpath(lexical, ret))
                return;
        memcpy(dir, lexical, sizeof(dir));
        slash = strrchr(dir, '/');
        if (slash)
                *slash = '\0';
        if (!slash || !realpath(dir[0] ? dir : "/", ret) || strlen(ret) + strlen(lexical + (slash - dir)) >= PATH_MAX) {
                memcpy(ret, lexical, PATH_MAX);
                return;
        }
        if (strcmp(ret, "/") == 0)
                ret[0] = '\0';
        memcpy(ret + strlen(ret), lexical + (slash - dir), strlen(lexical + (slash - dir)) + 1);
}

static int target_of(struct patching *ps, struct str name, struct target **ret, struct err *err)
{
        AUTO_FREE char *path = str_dup(name);
        AUTO_FREE struct target *t = calloc(1, sizeof(*t));
        int r;

        if (!path || !t)
                return err_sys(err, -ENOMEM, "the patch");
        r = path_of(ps->mcp, path, t->path, err);
        if (r < 0)
                return r;
        key_of(t->path, t->key);
        for (size_t i = 0; i < ps->count; i++)
                if (strcmp(ps->targets[i]->key, t->key) == 0) {
                        *ret = ps->targets[i];
                        return 0;
                }
        t->was_there = t->is_there = access(t->path, F_OK) == 0;
        buf_init(&t->content, FILE_BYTES_MAX);
        *ret = ps->targets[ps->count++] = TAKE_PTR(t);
        return 0;
}

static int target_read(struct patching *ps, struct target *t, struct err *err)
{
        struct stat st;
        int r = 0;

        if (t->was_there && !t->is_there)
                return err_set(err, ERR_CONFLICT, "an earlier part of this patch has deleted or renamed it");
        if (!t->is_read && !t->is_changed) {
                r = file_read(t->path, &t->content, err);
                t->is_read = true;
                t->mode = r == 0 && stat(t->path, &st) == 0 ? st.st_mode & 07777 : 0;
                ps->bytes += t->content.len;
        }
        return r;
}

/* ---- sections ---- */

static int target_set(struct patching *ps, struct target *t, struct buf *content, struct err *err)
{
        struct buf old = t->content;

        ps->bytes += content->len;
        if (ps->bytes > PATCHED_BYTES_MAX)
                return err_set(err, ERR_LIMIT, "the files of the patch are larger than %u MiB: apply it in parts",
                               PATCHED_BYTES_MAX >> 20);
        t->content = *content;
        t->is_there = t->is_changed = true;
        *content = old;
        return 0;
}

static int apply_section(struct patching *ps, const struct patch_file *f, struct err *err)
{
        AUTO_BUF struct buf out = BUF_INIT(FILE_BYTES_MAX);
        struct target *from = NULL, *to = NULL;
        int r = f->from.n ? target_of(ps, f->from, &from, err) : 0;

        if (r == 0 && f->to.n)
                r = target_of(ps, f->to, &to, err);
        if (r == 0 && from)
                r = target_read(ps, from, err);
        if (r == 0 && to && to != from && to->is_there)
                r = err_set(err, ERR_CONFLICT, "%s exists already", to->path);
        if (r == 0)
                r = patch_apply(f, from ? text_of(&from->content) : STR(""), &out, err);
        if (r == 0 && !to && out.len)
                r = err_set(err, ERR_CONFLICT, "the patch deletes the file, but the file has more than the patch says");
        if (r == 0 && to)
                r = target_set(ps, to, &out, err);
        if (r < 0)
                return err_wrap(err, "%.*s", STR_ARG(f->to.n ? f->to : f->from));
        if (to && f->mode != PATCH_MODE_KEPT)
                to->wanted = f->mode;
        if (to && from && to != from) {
                to->mode = from->mode;
                to->wanted = f->mode != PATCH_MODE_KEPT ? f->mode : from->wanted;
                to->moved_from = f->is_copy ? NULL : from;
        }
        if (from && from != to && !f->is_copy) {
                from->is_there = false;
                from->is_moved = to != NULL;
        }
        return 0;
}

/* ---- writing ---- */

static int set_mode(const struct target *t, struct err *err)
{
        struct stat st;
        mode_t mode;

        if (stat(t->path, &st) < 0)
                return err_sys(err, -errno, "%s", t->path);
        mode = t->was_there || !t->mode ? st.st_mode & 07777 : t->mode;
        if (t->wanted == PATCH_MODE_PROGRAM)
                mode |= (mode & 0444) >> 2;
        if (t->wanted == PATCH_MODE_PLAIN)
                mode &= ~(mode_t)0111;
        return mode != (st.st_mode & 07777) && chmod(t->path, mode) < 0 ? err_sys(err, -errno, "%s", t->path) : 0;
}

static int write_target(const struct target *t, struct buf *done, struct err *err)
{
        bool is_new;
        int r = file_replace(t->path, text_of(&t->content), &is_new, err);

        if (r == 0)
                r = set_mode(t, err);
        if (r < 0)
                return r;
        if (t->moved_from)
                (void)buf_addf(done, "renamed %s to %s\n", t->moved_from->path, t->path);
        else
                (void)buf_addf(done, "%s %s\n", t->was_there ? "changed" : "created", t->path);
        return 0;
}

static int delete_target(const struct target *t, struct buf *done, struct err *err)
{
        if (unlink(t->path) < 0)
                return err_sys(err, -errno, "delete %s", t->path);
        if (!t->is_moved)
                (void)buf_addf(done, "deleted %s\n", t->path);
        return 0;
}

static int patch_files(struct patching *ps, const struct patch *patch, struct buf *done, struct err *err)
{
        int r = 0;

        for (size_t i = 0; i < patch->count && r == 0; i++)
                r = apply_section(ps, &patch->files[i], err);
        if (r < 0)
                return err_wrap(err, "nothing was changed");
        for (size_t i = 0; i < ps->count && r == 0; i++)
                if (ps->targets[i]->is_there && ps->targets[i]->is_changed)
                        r = write_target(ps->targets[i], done, err);
        for (size_t i = 0; i < ps->count && r == 0; i++)
                if (ps->targets[i]->was_there && !ps->targets[i]->is_there)
                        r = delete_target(ps->targets[i], done, err);
        return r;
}

static void apply_patch(struct call *c, json_t *args)
{
        const json_t *text = json_object_get(args, "patch");
        AUTO_FREE struct patch *patch = malloc(sizeof(*patch));
        AUTO_FREE struct patching *ps = calloc(1, sizeof(*ps));
        AUTO_BUF struct buf done = BUF_INIT(4u << 20);
        struct err err = {0};
        int r = patch && ps ? patch_parse((struct str){json_string_value(text), json_string_length(text)}, patch, &err)
                            : err_sys(&err, -ENOMEM, "the patch");

        if (r == 0) {
                ps->mcp = c->mcp;
                r = patch_files(ps, patch, &done, &err);
        }
        if (r < 0)
                tool_failed(c, "%s%s%.*s", err.msg, done.len ? "\nBefore that:\n" : "", STR_ARG(text_of(&done)));
        else
                tool_text(c, text_of(&done), NULL);
        for (size_t i = 0; ps && i < ps->count; i++) {
                buf_done(&ps->targets[i]->content);
                free(ps->targets[i]);
        }
}

const struct tool tool_apply_patch = {
        .name = "apply_patch",
        .title = "Apply a patch",
        .description =
                "Apply a unified diff (diff -u, git diff) to files of the workspace: change, create, delete, "
                "rename, copy, modes. If one hunk does not fit, nothing is changed. Not for binary files and links.",
        .hints = TOOL_DESTROYS,
        .schema = "{\"type\":\"object\",\"properties\":{\"patch\":{\"type\":\"string\",\"minLength\":1,\"description\":"
                  "\"The text of the patch.\"}},"
                  "\"required\":[\"patch\"],\"additionalProperties\":false}",
        .run = apply_patch,
};
