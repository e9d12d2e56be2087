#include "engine/records/job_note.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "sys/fs.h"

#define NAME "job.json"
#define TEXT_MAX (64u << 10)

json_t *job_note_encode(const struct job_note *n)
{
        json_t *obj = json_pack("{s:s,s:s,s:o,s:s}", "checkpoint", n->checkpoint, "layer", n->layer, "net",
                                plan_net_encode(&n->net), "boot_id", n->boot_id);

        if (obj && kind_facts_add(obj, &n->facts) < 0) {
                json_decref(obj);
                obj = NULL;
        }
        return obj;
}

int job_note_write(int dir, const struct job_note *n, struct err *err)
{
        json_t *note = job_note_encode(n);
        AUTO_FREE char *text = note ? json_dumps(note, JSON_COMPACT) : NULL;
        int r;

        json_decref(note);
        if (!text)
                return err_sys(err, -ENOMEM, "write " NAME);
        r = sys_replace_at(dir, NAME, text, strlen(text), 0600);
        return r < 0 ? err_sys(err, r, "write " NAME) : 0;
}

/* "": none. */
static int decode_id(const json_t *obj, const char *field, bool (*is_valid)(struct str), char *out, struct err *err)
{
        const json_t *v = json_object_get(obj, field);
        struct str id = {json_string_value(v), json_string_length(v)};

        if (!json_is_string(v) || (id.n > 0 && !is_valid(id)))
                return err_set(err, ERR_INVALID, "%s: not an id", field);
        memcpy(out, id.p, id.n + 1);
        return 0;
}

int job_note_decode(const json_t *obj, struct job_note *ret, struct err *err)
{
        const json_t *boot = json_object_get(obj, "boot_id");
        struct job_note n = {0};
        int r;

        if (!json_is_string(boot) || json_string_length(boot) >= sizeof(n.boot_id))
                return err_set(err, ERR_INVALID, "boot_id: not a boot id");
        memcpy(n.boot_id, json_string_value(boot), json_string_length(boot) + 1);
        if ((r = kind_facts_decode(obj, &n.facts, err)) < 0 ||
            (r = decode_id(obj, "checkpoint", checkpoint_id_is_valid, n.checkpoint, err)) < 0 ||
            (r = decode_id(obj, "layer", sealed_id_is_valid, n.layer, err)) < 0 ||
            (r = plan_net_decode(json_object_get(obj, "net"), &n.net, err)) < 0)
                return r;
        *ret = n;
        return 0;
}

int job_note_read(int dir, struct job_note *ret, struct err *err)
{
        AUTO_FREE char *text = malloc(TEXT_MAX);
        json_t *obj;
        ssize_t len;
        int r;

        len = text ? sys_read_at(dir, NAME, text, TEXT_MAX) : -ENOMEM;
        if (len < 0)
                return err_sys(err, (int)len, NAME);
        obj = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        r = job_note_decode(obj, ret, err);
        json_decref(obj);
        return r < 0 ? err_wrap(err, NAME) : 0;
}

int job_note_remove(int dir)
{
        return unlinkat(dir, NAME, 0) < 0 && errno != ENOENT ? -errno : 0;
}

static int lock(int sandboxes_dir, const char *id, int how)
{
        AUTO_CLOSE int dir = sys_open_dir(sandboxes_dir, id);

        if (dir < 0)
                return dir;
        return flock(dir, how) < 0 ? -errno : TAKE_FD(dir);
}

int job_lock(int sandboxes_dir, const char *id)
{
        return lock(sandboxes_dir, id, LOCK_EX | LOCK_NB);
}

int job_lock_wait(int sandboxes_dir, const char *id)
{
        return lock(sandboxes_dir, id, LOCK_EX);
}
