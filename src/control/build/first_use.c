#include "control/build/first_use.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "control/access/keys.h"
#include "control/build/builds_run.h"
#include "control/catalogue/builds.h"
#include "control/catalogue/uploads.h"
#include "dockerfile/ready_folder.h"
#include "model/build/build_request.h"
#include "model/conf.h"

#define DISK_MB_DEFAULT 10240
#define PIECE 65536

void first_use_init(struct first_use *fu, struct builds_run *builds, struct uploads *uploads)
{
        *fu = (struct first_use){.builds = builds, .uploads = uploads, .dir = ready_folders_dir()};
        fu->other_names = fu->dir ? ready_folder_other_names(fu->dir) : NULL;
        list_init(&fu->waiters);
}

void first_use_done(struct first_use *fu)
{
        while (fu->waiters.next && list_pop_front(&fu->waiters))
                ;
        free(fu->dir);
        fu->dir = NULL;
        json_decref(fu->other_names);
        fu->other_names = NULL;
}

bool first_use_knows(const struct first_use *fu, const struct template_ref *ref)
{
        return fu->dir && !ref->ns[0] && template_ref_is_newest(ref) && ready_folder_exists(fu->dir, ref->name);
}

void first_use_names(const struct first_use *fu, struct buf *out)
{
        if (fu->dir)
                (void)ready_folder_names(fu->dir, out);
}

void first_use_cancel(struct first_use_waiter *w)
{
        list_remove(&w->node);
}

void first_use_build_over(struct first_use *fu, const char *build_id)
{
        struct list told, *node;

        list_init(&told);
        LIST_EACH (at, &fu->waiters)
                if (strcmp(LIST_ENTRY(at, struct first_use_waiter, node)->build, build_id) == 0) {
                        list_remove(at);
                        list_push_back(&told, at);
                }
        while ((node = list_pop_front(&told))) {
                struct first_use_waiter *w = LIST_ENTRY(node, struct first_use_waiter, node);

                w->on(w);
        }
}

/* ---- the files of a folder, as if a client had uploaded them ---- */

static int store_archive(struct first_use *fu, int64_t team, const char *hash, int fd, struct err *err)
{
        struct upload up = {.fd = -1, .dir = -1};
        char piece[PIECE];
        ssize_t n = 0;
        int r = upload_begin(fu->uploads, team, hash, &up, err);

        while (r == 0 && (n = read(fd, piece, sizeof(piece))) > 0)
                r = upload_add(&up, piece, (uint64_t)n, err);
        if (r == 0 && n < 0)
                r = err_sys(err, -errno, "read an archive");
        if (r == 0)
                r = upload_end(&up, err);
        upload_drop(&up);
        return r;
}

static int store_copy(struct first_use *fu, int64_t team, const struct ready_folder *f, struct dockerfile_copy *copy,
                      struct err *err)
{
        AUTO_CONTEXT_FILES struct context_files files = {0};
        AUTO_PROBLEMS struct problems problems = {0};
        AUTO_CLOSE int fd = -1;
        int r = context_find(&f->context, copy, &files, &problems, err);

        if (r == 0 && problems_has_errors(&problems))
                return err_set(err, ERR_INVALID, "line %u: %s", problems.count ? problems.at[0].line : 0,
                               problems.count ? problems.at[0].text : "out of memory");
        if (r < 0 || uploads_has(fu->uploads, team, files.hash))
                return r;
        r = context_archive(&f->context, &files, true, &fd, err);
        return r < 0 ? r : store_archive(fu, team, files.hash, fd, err);
}

static const char *architecture(void)
{
        static struct utsname name;

        return uname(&name) == 0 && strcmp(name.machine, "aarch64") == 0 ? "arm64" : "amd64";
}

/* ---- its rows ---- */

static int make_template(const struct first_use *fu, int64_t team, const char *name, struct template_row **ret,
                         struct err *err)
{
        struct template_rows *rows = fu->builds->o.rows;
        int r = 0;

        *ret = template_rows_by_bare_alias(rows, name);
        if (*ret)
                return 0;
        *ret = template_rows_by_alias(rows, team, name);
        if (!*ret)
                r = template_rows_add(rows, team, name, ret, err);
        return r < 0 ? r : template_row_publish(rows, *ret, true, true, err);
}

static int make_build(const struct first_use *fu, struct template_row *t, const struct ready_folder *f,
                      struct build_entry **ret, struct err *err)
{
        const struct conf *conf = fu->builds->o.conf;
        struct template_rows *rows = fu->builds->o.rows;
        AUTO(build_request_done) struct build_request request = {0};
        AUTO(build_done)
        struct build b = {
                .tags = json_pack("[s]", "default"),
                .cpu_count = f->toml.cpu_count ? f->toml.cpu_count : conf->default_cpus,
                .memory_mb = f->toml.memory_mb ? f->toml.memory_mb : conf->default_memory_mb,
                .disk_mb = DISK_MB_DEFAULT,
        };
        int r = b.tags ? build_request_decode(f->build.request, &request, err) : err_sys(err, -ENOMEM, "build");

        if (r == 0)
                r = builds_add(rows, t, &b, ret, err);
        return r < 0 ? r : build_begin(rows, *ret, &request, err);
}

static int begin_folder(struct first_use *fu, const char *name, struct build_entry **ret, struct err *err)
{
        AUTO_READY_FOLDER struct ready_folder f = {.context.dir = -1};
        const struct team *team = keys_first_team(fu->builds->o.keys);
        struct template_row *t = NULL;
        int r = team ? ready_folder_load(fu->dir, name, architecture(), &f, err)
                     : err_set(err, ERR_UNAVAILABLE, "there is no team yet");

        for (size_t i = 0; r == 0 && i < f.build.copy_count; i++)
                r = store_copy(fu, team->no, &f, &f.build.copies[i], err);
        if (r == 0)
                r = make_template(fu, team->no, name, &t, err);
        return r < 0 ? r : make_build(fu, t, &f, ret, err);
}

int first_use_begin(struct first_use *fu, const char *asked, struct first_use_waiter *w, struct err *err)
{
        const char *meant = json_string_value(json_object_get(fu->other_names, asked)), *name = meant ? meant : asked;
        struct template_row *t = template_rows_by_bare_alias(fu->builds->o.rows, name);
        struct build_entry *e = t ? builds_newest(t) : NULL;
        int r;

        if (!e || e->build.status != BUILD_BUILDING) {
                r = begin_folder(fu, name, &e, err);
                if (r < 0)
                        return err_wrap(err, "template '%s'", name);
                log_info("build.first_use", "template=%s build=%s", name, e->build.id);
                builds_start(fu->builds, e->build.id);
        }
        memcpy(w->build, e->build.id, sizeof(w->build));
        list_push_back(&fu->waiters, &w->node);
        return 0;
}
