#include "engine/lost.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/adopt.h"
#include "engine/errand.h"
#include "engine/guest.h"
#include "engine/origin.h"
#include "engine/rest.h"
#include "engine/shelf.h"
#include "engine/work_note.h"
#include "sys/fs.h"

#define LOOK_MS (3600u * 1000u)
#define NS_PER_DAY (INT64_C(86400) * 1000000000)

static bool is_there(int dir, const char *name)
{
        return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ------------------------------------------------------------- moving aside */

int lost_keep(struct engine *e, int dir, const char *name, const struct lost_note *note)
{
        int r = lost_note_write(e->lost_dir, name, note);

        if (r < 0) /* a full disk: moving needs no room */
                log_warn("lost.unnoted", "name=%s error=\"%s\"", name, strerror(-r));
        if (renameat2(dir, name, e->lost_dir, name, RENAME_NOREPLACE) == 0) {
                log_warn("lost.kept", "name=%s was=\"%s\" why=\"%s\", in %s/", name, note->was, note->why, LOST_DIR);
                return 0;
        }
        r = -errno;
        if (r == -ENOENT)
                lost_note_remove(e->lost_dir, name);
        else
                log_error("lost.left", "name=%s error=\"%s\"", name, strerror(-r));
        return r == -ENOENT ? 0 : r;
}

static void fill_note(struct lost_note *n, const json_t *msg, const char *was)
{
        const char *why = json_string_value(json_object_get(msg, "why"));

        *n = (struct lost_note){.lost_ns = clock_real_ns()};
        (void)snprintf(n->was, sizeof(n->was), "%s", was);
        (void)snprintf(n->why, sizeof(n->why), "%.*s", (int)sizeof(n->why) - 1, why ? why : "");
}

static int get_name(const json_t *v, enum lost_kind *ret_kind, struct err *err)
{
        const char *name = json_string_value(v);

        if (!name || strlen(name) != json_string_length(v) || !lost_kind_of(name, ret_kind))
                return err_set(err, ERR_INVALID, "not an id");
        return 0;
}

static int check_names(const json_t *list, bool (*is_valid)(struct str), struct err *err)
{
        const json_t *v;
        size_t i;

        if (list && !json_is_array(list))
                return err_set(err, ERR_INVALID, "checkpoints, layers: not lists of ids");
        json_array_foreach (list, i, v)
                if (!json_is_string(v) || !is_valid((struct str){json_string_value(v), json_string_length(v)}))
                        return err_set(err, ERR_INVALID, "checkpoints, layers: not lists of ids");
        return 0;
}

static int check_lists(const json_t *msg, struct err *err)
{
        int r = check_names(json_object_get(msg, "checkpoints"), checkpoint_id_is_valid, err);

        return r < 0 ? r : check_names(json_object_get(msg, "layers"), sealed_id_is_valid, err);
}

static void lose_names(struct engine *e, const json_t *msg, const char *key, int dir)
{
        struct lost_note note;
        json_t *v;
        size_t i;

        fill_note(&note, msg, "complete");
        json_array_foreach (json_object_get(msg, key), i, v)
                if (is_there(dir, json_string_value(v)))
                        (void)lost_keep(e, dir, json_string_value(v), &note);
}

/* Its processes are ended first, or a worker that is at it comes to its end. */
static int lose_sandbox(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *id = json_object_get(msg, "id");
        enum lost_kind kind;
        struct guest *s;

        if (get_name(id, &kind, err) < 0 || kind != LOST_SANDBOX)
                return err_set(err, ERR_INVALID, "id: not a sandbox id");
        s = guest_find(e, json_string_value(id));
        if (!s)
                return err_set(err, ERR_NOT_FOUND, "no such sandbox");
        if (s->state != GUEST_ENDING && !s->is_doomed && !s->lost) {
                s->lost = calloc(1, sizeof(*s->lost));
                if (!s->lost)
                        return err_sys(err, -ENOMEM, "lose sandbox");
                fill_note(s->lost, msg,
                          s->state == GUEST_RUNNING ? "running"
                          : s->still.checkpoint[0]  ? "paused"
                                                    : "at rest");
        }
        guest_kill(s, a);
        return 0;
}

int lost_op_lose(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        int r;

        if (json_object_get(msg, "id"))
                return lose_sandbox(e, msg, a, err);
        r = check_lists(msg, err);
        if (r < 0)
                return r;
        lose_names(e, msg, "checkpoints", e->checkpoints_dir);
        lose_names(e, msg, "layers", e->sealed_dir);
        ask_ok(a, NULL, -1);
        return 0;
}

/* ------------------------------------------------------------- looking */

/* What control needs to know about one of them before it asks for it back. */
static int describe_one(struct engine *e, const char *name, enum lost_kind kind, struct ask *a, struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(e->lost_dir, name);
        const char *checkpoint = kind == LOST_CHECKPOINT ? name : NULL;
        struct still still = {0};
        struct err none = {0};
        json_t *origin;

        if (dir < 0)
                return err_set(err, ERR_NOT_FOUND, "'%s' is not among what was lost", name);
        if (kind == LOST_LAYER)
                return err_set(err, ERR_INVALID, "'%s' is a layer: it comes back with the sandbox that needs it", name);
        origin = origin_read(dir, err);
        if (!origin)
                return err_set(err, ERR_CONFLICT, "what '%s' was is not noted with it (%.100s): it cannot be restored",
                               name, err->msg);
        if (kind == LOST_SANDBOX && still_read(dir, name, &still, &none) == 0 && still.checkpoint[0] &&
            (shelf_has(e, still.checkpoint) || is_there(e->lost_dir, still.checkpoint)))
                checkpoint = still.checkpoint;
        ask_ok(a,
               json_pack("{s:s,s:o,s:s*,s:s*}", "kind", lost_kind_name(kind), "origin", origin, "checkpoint",
                         checkpoint, "sealed", still.sealed[0] ? still.sealed : NULL),
               -1);
        return 0;
}

int lost_op_list(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *after = json_object_get(msg, "after"), *id = json_object_get(msg, "id");
        enum lost_kind kind;

        if (id)
                return get_name(id, &kind, err) < 0 ? -EINVAL : describe_one(e, json_string_value(id), kind, a, err);
        if (after && get_name(after, &kind, err) < 0)
                return -EINVAL;
        errand_run(e, json_pack("{s:s,s:s*}", "op", "lost", "after", json_string_value(after)), NULL, true, a);
        return 0;
}

/* ------------------------------------------------------------- bringing back */

/* In its place, or lost: can it be had? */
static int find_names(const struct engine *e, const json_t *list, int home, struct err *err)
{
        json_t *v;
        size_t i;

        json_array_foreach (list, i, v) {
                const char *name = json_string_value(v);

                if (!is_there(home, name) && !is_there(e->lost_dir, name))
                        return err_set(err, ERR_CONFLICT, "'%s' belongs to it, and is neither here nor lost", name);
        }
        return 0;
}

static int bring_back(const struct engine *e, const char *name, int home, struct err *err)
{
        if (renameat2(e->lost_dir, name, home, name, RENAME_NOREPLACE) < 0)
                return err_sys(err, -errno, "bring back '%s'", name);
        lost_note_remove(e->lost_dir, name);
        log_info("lost.restored", "name=%s", name);
        return 0;
}

static int bring_back_names(const struct engine *e, const json_t *list, int home, struct err *err)
{
        json_t *v;
        size_t i;
        int r = 0;

        json_array_foreach (list, i, v)
                if (r == 0 && !is_there(home, json_string_value(v)))
                        r = bring_back(e, json_string_value(v), home, err);
        return r;
}

/* Before it is moved: one whose processes were ended is at rest with its files; and so is one of which nothing more can be
 * learned, since somebody wants it back. */
static int lay_down(const struct engine *e, const char *id, struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(e->lost_dir, id);
        const struct still files_only = {0};
        struct err why = {0};
        struct still now;

        if (dir < 0)
                return err_set(err, ERR_NOT_FOUND, "'%s' is not among what was lost", id);
        (void)work_note_remove(dir); /* nobody is at what lies there */
        if (still_read(dir, id, &now, &why) == 0)
                return 0;
        if (why.kind != ERR_NOT_FOUND && why.kind != ERR_INVALID) { /* a disk that fails may pass */
                *err = why;
                return -EIO;
        }
        return still_write(dir, id, &files_only, true, err);
}

static int restore_sandbox(struct engine *e, const char *id, struct err *err)
{
        int r;

        if (guest_find(e, id) || is_there(e->sandboxes_dir, id))
                return err_set(err, ERR_CONFLICT, "sandbox %s exists", id);
        r = lay_down(e, id, err);
        if (r == 0)
                r = bring_back(e, id, e->sandboxes_dir, err);
        return r < 0 ? r : adopt_one(e, id, err);
}

int lost_op_restore(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *checkpoints = json_object_get(msg, "checkpoints"), *layers = json_object_get(msg, "layers");
        const json_t *id = json_object_get(msg, "id");
        enum lost_kind kind;
        int r = check_lists(msg, err);

        if (r < 0)
                return r;
        if (id && (get_name(id, &kind, err) < 0 || kind != LOST_SANDBOX))
                return err_set(err, ERR_INVALID, "id: not a sandbox id");
        if ((r = find_names(e, checkpoints, e->checkpoints_dir, err)) < 0 ||
            (r = find_names(e, layers, e->sealed_dir, err)) < 0 ||
            (r = bring_back_names(e, layers, e->sealed_dir, err)) < 0 ||
            (r = bring_back_names(e, checkpoints, e->checkpoints_dir, err)) < 0)
                return r;
        if (id)
                r = restore_sandbox(e, json_string_value(id), err);
        if (r == 0)
                ask_ok(a, NULL, -1);
        return r;
}

/* ------------------------------------------------------------- removing */

static int remove_one(struct engine *e, const char *name)
{
        int r = rest_drop(e, e->lost_dir, name);

        if (r == 0)
                lost_note_remove(e->lost_dir, name);
        return r;
}

int lost_op_remove(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *id = json_object_get(msg, "id");
        enum lost_kind kind;
        int r;

        if (get_name(id, &kind, err) < 0)
                return -EINVAL;
        if (!is_there(e->lost_dir, json_string_value(id)))
                return err_set(err, ERR_NOT_FOUND, "'%s' is not among what was lost", json_string_value(id));
        r = remove_one(e, json_string_value(id));
        if (r < 0)
                return err_sys(err, r, "remove '%s'", json_string_value(id));
        log_info("lost.removed", "name=%s", json_string_value(id));
        ask_ok(a, NULL, -1);
        return 0;
}

static bool is_overdue(const struct engine *e, const char *name, int64_t now_ns)
{
        struct lost_note n;

        lost_note_read(e->lost_dir, name, &n);
        return n.lost_ns > 0 && now_ns - n.lost_ns > e->conf->lost_days * NS_PER_DAY;
}

/* "<name>.json", and nothing of that name. */
static bool is_stale_note(const struct engine *e, const char *file)
{
        const char *dot = strchr(file, '.');
        char name[SEALED_ID_MAX];
        enum lost_kind kind;

        if (!dot || strcmp(dot, ".json") != 0 || (size_t)(dot - file) >= sizeof(name))
                return false;
        (void)snprintf(name, sizeof(name), "%.*s", (int)(dot - file), file);
        return lost_kind_of(name, &kind) && !is_there(e->lost_dir, name);
}

static void look(struct engine *e)
{
        AUTO_DIR DIR *d = sys_list(e->lost_dir);
        int64_t now_ns = clock_real_ns();
        const struct dirent *entry;
        enum lost_kind kind;

        while (d && (entry = sys_list_next(d))) {
                if (is_stale_note(e, entry->d_name)) {
                        (void)unlinkat(e->lost_dir, entry->d_name, 0);
                } else if (e->conf->lost_days && lost_kind_of(entry->d_name, &kind) &&
                           is_overdue(e, entry->d_name, now_ns) && remove_one(e, entry->d_name) == 0) {
                        log_warn("lost.expired", "name=%s lay there for more than %u days", entry->d_name,
                                 e->conf->lost_days);
                }
        }
}

static void on_look(struct timer *t)
{
        struct engine *e = CONTAINER_OF(t, struct engine, lost_timer);

        look(e);
        timer_set(e->loop, t, LOOK_MS);
}

void lost_start(struct engine *e)
{
        e->lost_timer.on = on_look;
        on_look(&e->lost_timer);
}
