#include "engine/records/job_note.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/host/instance.h"
#include "sys/fs.h"

#define NAME "job.json"
#define TEXT_MAX (64u << 10)

json_t *job_note_encode(const struct job_note *n)
{
        return json_pack("{s:i,s:s,s:s,s:o,s:s}", "slot", (int)n->slot, "checkpoint", n->checkpoint, "layer", n->layer,
                         "net", plan_net_encode(&n->net), "boot_id", n->boot_id);
}

int job_note_put(int dir, const json_t *note, struct err *err)
{
        AUTO_FREE char *text = json_dumps(note, JSON_COMPACT);
        int r;

        if (!text)
                return err_sys(err, -ENOMEM, "write " NAME);
        r = sys_replace_at(dir, NAME, text, strlen(text), 0600);
        return r < 0 ? err_sys(err, r, "write " NAME) : 0;
}

int job_note_write(int dir, const struct job_note *n, struct err *err)
{
        json_t *note = job_note_encode(n);
        int r = job_note_put(dir, note, err);

        json_decref(note);
        return r;
}

static int decode(const json_t *obj, struct job_note *n, struct err *err)
{
        const json_t *slot = json_object_get(obj, "slot"), *c = json_object_get(obj, "checkpoint");
        const json_t *boot = json_object_get(obj, "boot_id"), *l = json_object_get(obj, "layer");
        struct str id = {json_string_value(c), json_string_length(c)};
        struct str layer = {l ? json_string_value(l) : "", json_string_length(l)}; /* none in one of an older version */

        if (!json_is_integer(slot) || json_integer_value(slot) < 0 || json_integer_value(slot) >= SLOTS_MAX ||
            !json_is_string(c) || (id.n > 0 && !checkpoint_id_is_valid(id)) || !json_is_string(boot) ||
            json_string_length(boot) >= sizeof(n->boot_id) || !layer.p || (layer.n > 0 && !sealed_id_is_valid(layer)))
                return err_set(err, ERR_INVALID, NAME ": not what was written");
        n->slot = (unsigned)json_integer_value(slot);
        memcpy(n->checkpoint, id.p, id.n + 1);
        memcpy(n->layer, layer.p, layer.n + 1);
        memcpy(n->boot_id, json_string_value(boot), json_string_length(boot) + 1);
        return plan_net_decode(json_object_get(obj, "net"), &n->net, err);
}

int job_note_read(int dir, struct job_note *ret, struct err *err)
{
        AUTO_FREE char *text = malloc(TEXT_MAX);
        struct job_note n = {0};
        json_t *obj;
        ssize_t len;
        int r;

        len = text ? sys_read_at(dir, NAME, text, TEXT_MAX) : -ENOMEM;
        if (len < 0)
                return err_sys(err, (int)len, NAME);
        obj = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        r = decode(obj, &n, err);
        json_decref(obj);
        if (r == 0)
                *ret = n;
        return r;
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
