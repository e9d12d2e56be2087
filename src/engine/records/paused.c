#include "engine/records/paused.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>

#include "base/err.h"
#include "sys/fs.h"

#define NAME PAUSED_FILE
#define WAS                                                                                                            \
        "paused.old" /* it was resumed: its block is kept for when it is to be paused after all, and the disk is full */
#define TEXT_MAX 1024u

static int write_where_it_was(int dir, const char *text, bool is_durable)
{
        int r = faccessat(dir, NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? -ENOSPC : 0;

        if (r == 0)
                r = sys_overwrite_at(dir, WAS, text, strlen(text), ' ');
        if (r == 0 && renameat(dir, WAS, dir, NAME) < 0)
                r = -errno;
        if (r == 0 && is_durable && fsync(dir) < 0)
                r = -errno;
        return r == -ENOENT ? -ENOSPC : r;
}

int paused_write(int dir, const char *id, const struct paused *s, bool is_durable, struct err *err)
{
        AUTO_FREE char *text = NULL;
        json_t *obj = json_pack("{s:s,s:s,s:s?,s:s?,s:s*}", "id", id, "kind", engine_kind_name(s->kind), "checkpoint",
                                s->checkpoint[0] ? s->checkpoint : NULL, "sealed", s->sealed[0] ? s->sealed : NULL,
                                "boot_id", s->boot_id[0] ? s->boot_id : NULL);
        int r;

        text = json_dumps(obj, JSON_COMPACT);
        json_decref(obj);
        if (!text)
                return err_sys(err, -ENOMEM, "write " NAME);
        r = is_durable ? sys_replace_durably_at(dir, NAME, text, strlen(text), 0600)
                       : sys_replace_at(dir, NAME, text, strlen(text), 0600);
        if (sys_is_full(r))
                r = write_where_it_was(dir, text, is_durable);
        return r < 0 ? err_sys(err, r, "write " NAME) : 0;
}

static bool take_id(const json_t *obj, const char *key, bool (*is_valid)(struct str), char *out)
{
        const json_t *v = json_object_get(obj, key);
        struct str id = {json_string_value(v), json_string_length(v)};

        if (json_is_null(v))
                return true;
        if (!json_is_string(v) || !is_valid(id))
                return false;
        memcpy(out, id.p, id.n + 1);
        return true;
}

static bool take_boot(const json_t *obj, char out[SYS_BOOT_ID_MAX])
{
        const json_t *v = json_object_get(obj, "boot_id");
        size_t n = json_string_length(v);

        if (!v)
                return true;
        if (!json_is_string(v) || n >= SYS_BOOT_ID_MAX)
                return false;
        memcpy(out, json_string_value(v), n + 1);
        return true;
}

int paused_read(int dir, const char *id, struct paused *ret, struct err *err)
{
        char text[TEXT_MAX];
        ssize_t n = sys_read_at(dir, NAME, text, sizeof(text));
        struct paused s = {0};
        const char *whose;
        bool is_good;
        json_t *obj;

        if (n == -ENOENT)
                return err_set(err, ERR_NOT_FOUND, "there is no " NAME);
        if (n < 0)
                return err_sys(err, (int)n, NAME);
        obj = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        whose = json_string_value(json_object_get(obj, "id"));
        is_good = whose && strcmp(whose, id) == 0 &&
                  engine_kind_find(json_string_value(json_object_get(obj, "kind")), &s.kind) &&
                  take_id(obj, "checkpoint", checkpoint_id_is_valid, s.checkpoint) &&
                  take_id(obj, "sealed", sealed_id_is_valid, s.sealed) && take_boot(obj, s.boot_id);
        json_decref(obj);
        if (!is_good)
                return err_set(err, ERR_INVALID, NAME ": not what was written");
        *ret = s;
        return 0;
}

int paused_remove(int dir)
{
        return renameat(dir, NAME, dir, WAS) < 0 && errno != ENOENT ? -errno : 0;
}
