/* job_lost.c - jobs that list what lies in lost/ (lost_note.h), and that bring it back. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/records/lost_note.h"
#include "engine/records/origin.h"
#include "engine/records/paused.h"
#include "engine/records/job_note.h"
#include "engine/jobs/job_files.h"
#include "engine/jobs/job_process.h"
#include "sys/fs.h"

static bool is_there(int dir, const char *name)
{
        return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ------------------------------------------------------------- a page of it */

#define LOST_PAGE_MAX 64u

struct lost_page {
        char names[LOST_PAGE_MAX + 1][SEALED_ID_MAX]; /* the first of them, in order */
        size_t count;
};

/* Keep the names that come first: no more memory is used, however many there are. */
static void lost_page_add(struct lost_page *p, const char *name)
{
        size_t at = p->count;

        while (at > 0 && strcmp(p->names[at - 1], name) > 0)
                at--;
        if (at > LOST_PAGE_MAX)
                return;
        if (p->count <= LOST_PAGE_MAX)
                p->count++;
        memmove(p->names[at + 1], p->names[at], (p->count - at - 1) * sizeof(p->names[0]));
        (void)snprintf(p->names[at], sizeof(p->names[at]), "%.*s", SEALED_ID_MAX - 1, name);
}

static json_t *describe_briefly(int lost, const char *name)
{
        enum lost_kind kind = LOST_SANDBOX;
        char at[CLOCK_TEXT_MAX];
        struct lost_note n;

        (void)lost_kind_of(name, &kind);
        lost_note_read(lost, name, &n);
        clock_format(n.lost_ns, at);
        return json_pack("{s:s,s:s,s:s,s:s,s:s,s:I}", "id", name, "kind", lost_kind_name(kind), "was", n.was, "why",
                         n.why, "lostAt", at, "bytes", (json_int_t)tree_size_of(lost, name).bytes);
}

/* In order of names, those after `after` (NULL: from the first on).  Walks through what is there for its size. */
static json_t *list_page(int lost, const char *after)
{
        AUTO_DIR DIR *d = sys_list(lost);
        AUTO_FREE struct lost_page *p = calloc(1, sizeof(*p));
        json_t *list = json_array();
        const struct dirent *e;
        enum lost_kind kind;

        while (d && p && (e = sys_list_next(d)))
                if (lost_kind_of(e->d_name, &kind) && (!after || strcmp(e->d_name, after) > 0))
                        lost_page_add(p, e->d_name);
        for (size_t i = 0; p && i < p->count && i < LOST_PAGE_MAX; i++)
                (void)json_array_append_new(list, describe_briefly(lost, p->names[i]));
        return json_pack("{s:o,s:b}", "lost", list, "more", p && p->count > LOST_PAGE_MAX);
}

/* ------------------------------------------------------------- one of them */

static bool has_checkpoint(const struct job_conf *c, int lost, const char *name)
{
        char manifest[CHECKPOINT_ID_MAX + 16];

        (void)snprintf(manifest, sizeof(manifest), "%s/manifest.json", name);
        return is_there(c->checkpoints_dir, manifest) || errno != ENOENT || is_there(lost, name);
}

/* What control needs to know about one of them before it asks for it back. */
static int describe_one(const struct job_conf *c, int lost, const char *name, struct job_answer *ret, struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(lost, name);
        const char *checkpoint = NULL;
        struct paused paused = {0};
        struct err none = {0};
        enum lost_kind kind;
        json_t *origin;

        if (dir < 0 || !lost_kind_of(name, &kind))
                return err_set(err, ERR_NOT_FOUND, "'%s' is not among what was lost", name);
        if (kind == LOST_LAYER)
                return err_set(err, ERR_INVALID, "'%s' is a layer: it comes back with the sandbox that needs it", name);
        origin = origin_read(dir, &none);
        if (!origin)
                return err_set(err, ERR_CONFLICT, "what '%s' was is not noted with it (%.100s): it cannot be restored",
                               name, none.msg);
        if (kind == LOST_CHECKPOINT)
                checkpoint = name;
        else if (paused_read(dir, name, &paused, &none) == 0 && paused.checkpoint[0] &&
                 has_checkpoint(c, lost, paused.checkpoint))
                checkpoint = paused.checkpoint;
        ret->report = json_pack("{s:s,s:o,s:s*,s:s*}", "kind", lost_kind_name(kind), "origin", origin, "checkpoint",
                                checkpoint, "sealed", paused.sealed[0] ? paused.sealed : NULL);
        return ret->report ? 0 : err_sys(err, -ENOMEM, "describe '%s'", name);
}

static int open_lost(const struct job_conf *c, int *ret, struct err *err)
{
        int r = sys_open_dir(c->data_dir, LOST_DIR);

        if (r < 0)
                return err_sys(err, r, "open directory '" LOST_DIR "'");
        *ret = r;
        return 0;
}

int job_lost(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        AUTO_CLOSE int lost = -1;
        int r = open_lost(c, &lost, err);

        if (r < 0)
                return r;
        if (job->lost.name)
                return describe_one(c, lost, job->lost.name, ret, err);
        ret->report = list_page(lost, job->lost.after);
        return ret->report ? 0 : err_sys(err, -ENOMEM, "list what was lost");
}

/* ------------------------------------------------------------- bringing back */

/* Is everything that is named in its place, or in lost/? */
static int find_names(int lost, const json_t *list, int home, struct err *err)
{
        json_t *v;
        size_t i;

        json_array_foreach (list, i, v) {
                const char *name = json_string_value(v);

                if (!is_there(home, name) && !is_there(lost, name))
                        return err_set(err, ERR_CONFLICT, "'%s' belongs to it, and is neither here nor lost", name);
        }
        return 0;
}

static int bring_back(int lost, const char *name, int home, struct err *err)
{
        if (renameat2(lost, name, home, name, RENAME_NOREPLACE) < 0)
                return err_sys(err, -errno, "bring back '%s'", name);
        lost_note_remove(lost, name);
        log_info("lost.restored", "name=%s", name);
        return 0;
}

static int bring_back_names(int lost, const json_t *list, int home, struct err *err)
{
        json_t *v;
        size_t i;
        int r = 0;

        json_array_foreach (list, i, v)
                if (r == 0 && !is_there(home, json_string_value(v)))
                        r = bring_back(lost, json_string_value(v), home, err);
        return r;
}

/* The sandbox was to be paused for a moment only, and its images were not flushed: from now on it stays paused, also in another
 * boot.  What was not on disk when the machine stopped is found out at the restore: images have sums. */
static int note_paused_for_good(int dir, const char *id, struct paused *now, struct err *err)
{
        if (syncfs(dir) < 0)
                return err_sys(err, -errno, "flush '%s'", id);
        now->boot_id[0] = '\0';
        return paused_write(dir, id, now, true, err);
}

/* Before its directory is moved back.  A sandbox whose processes were ended is paused with its files only.  So is one whose
 * paused.json is damaged: its user asked for it back as it is. */
static int note_paused(int lost, const char *id, struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(lost, id);
        const struct paused files_only = {0};
        struct err why = {0};
        struct paused now;

        if (dir < 0)
                return err_set(err, ERR_NOT_FOUND, "'%s' is not among what was lost", id);
        (void)job_note_remove(dir); /* no job process works on what lies in lost/ */
        if (paused_read(dir, id, &now, &why) == 0)
                return now.boot_id[0] ? note_paused_for_good(dir, id, &now, err) : 0;
        if (why.kind != ERR_NOT_FOUND && why.kind != ERR_INVALID) { /* the disk may answer the next time */
                *err = why;
                return -EIO;
        }
        return paused_write(dir, id, &files_only, true, err);
}

static int bring_back_sandbox(const struct job_conf *c, int lost, const char *id, struct err *err)
{
        int r;

        if (is_there(c->sandboxes_dir, id) && !is_there(lost, id))
                return 0; /* a job process before us brought it back, and died before its answer */
        if (is_there(c->sandboxes_dir, id))
                return err_set(err, ERR_CONFLICT, "sandbox %s exists", id);
        r = note_paused(lost, id, err);
        return r < 0 ? r : bring_back(lost, id, c->sandboxes_dir, err);
}

int job_lost_restore(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        const struct job_lost_restore *what = &job->lost_restore;
        AUTO_CLOSE int lost = -1;
        int r = open_lost(c, &lost, err);

        (void)ret;
        job_stall_point(c, "restoring");
        if (r < 0 || (r = find_names(lost, what->checkpoints, c->checkpoints_dir, err)) < 0 ||
            (r = find_names(lost, what->layers, c->sealed_dir, err)) < 0 ||
            (r = bring_back_names(lost, what->layers, c->sealed_dir, err)) < 0 ||
            (r = bring_back_names(lost, what->checkpoints, c->checkpoints_dir, err)) < 0)
                return r;
        return what->sandbox ? bring_back_sandbox(c, lost, what->sandbox, err) : 0;
}
