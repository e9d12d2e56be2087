#include "engine/records/lost_note.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "model/ids.h"
#include "sys/fs.h"

#define NOTE_SUFFIX ".json"
#define NOTE_NAME_MAX 40 /* the longest id, and the suffix */
#define TEXT_MAX 1024u
#define NS_PER_S INT64_C(1000000000)
#define NS_PER_DAY (86400 * NS_PER_S)

static const struct {
        const char *name;
        bool (*is_one)(struct str id);
} kinds[LOST_KINDS] = {
        [LOST_SANDBOX] = {"sandbox", sandbox_id_is_valid},
        [LOST_CHECKPOINT] = {"checkpoint", checkpoint_id_is_valid},
        [LOST_LAYER] = {"layer", sealed_id_is_valid},
};

const char *lost_kind_name(enum lost_kind kind)
{
        return kinds[kind].name;
}

bool lost_kind_of(const char *name, enum lost_kind *ret)
{
        for (int k = 0; k < LOST_KINDS; k++)
                if (kinds[k].is_one(str_of(name))) {
                        *ret = (enum lost_kind)k;
                        return true;
                }
        return false;
}

static void name_note(const char *name, char out[NOTE_NAME_MAX])
{
        (void)snprintf(out, NOTE_NAME_MAX, "%.*s" NOTE_SUFFIX, (int)(NOTE_NAME_MAX - sizeof(NOTE_SUFFIX)), name);
}

int lost_note_write(int lost, const char *name, const struct lost_note *n)
{
        json_t *obj =
                json_pack("{s:I,s:s,s:s,s:I,s:I,s:I,s:s}", "lost_ns", (json_int_t)n->lost_ns, "was", n->was, "why",
                          n->why, "kept_ns", (json_int_t)n->kept_ns, "seen_ns", (json_int_t)n->seen.real_ns,
                          "seen_boot_ns", (json_int_t)n->seen.boot_ns, "boot_id", n->seen.boot_id);
        AUTO_FREE char *text = json_dumps(obj, JSON_COMPACT);
        char note[NOTE_NAME_MAX];

        json_decref(obj);
        if (!text)
                return -ENOMEM;
        name_note(name, note);
        return sys_replace_at(lost, note, text, strlen(text), 0600);
}

static void take_text(const json_t *obj, const char *key, char *out, size_t size)
{
        const char *text = json_string_value(json_object_get(obj, key));

        (void)snprintf(out, size, "%s", text ? text : "");
}

void lost_note_read(int lost, const char *name, struct lost_note *ret)
{
        char note[NOTE_NAME_MAX], text[TEXT_MAX];
        struct stat st;
        json_t *obj;

        name_note(name, note);
        *ret = (struct lost_note){0};
        obj = sys_read_at(lost, note, text, sizeof(text)) < 0 ? NULL : json_loads(text, 0, NULL);
        ret->lost_ns = json_integer_value(json_object_get(obj, "lost_ns"));
        take_text(obj, "was", ret->was, sizeof(ret->was));
        take_text(obj, "why", ret->why, sizeof(ret->why));
        ret->kept_ns = json_integer_value(json_object_get(obj, "kept_ns"));
        ret->seen.real_ns = json_integer_value(json_object_get(obj, "seen_ns"));
        ret->seen.boot_ns = json_integer_value(json_object_get(obj, "seen_boot_ns"));
        take_text(obj, "boot_id", ret->seen.boot_id, sizeof(ret->seen.boot_id));
        json_decref(obj);
        if (ret->lost_ns <= 0 && fstatat(lost, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                ret->lost_ns = st.st_ctim.tv_sec * NS_PER_S;
}

void lost_clock_now(struct lost_clock *ret)
{
        *ret = (struct lost_clock){.real_ns = clock_real_ns(), .boot_ns = clock_boot_ns()};
        if (sys_boot_id(ret->boot_id) < 0)
                ret->boot_id[0] = '\0';
}

void lost_note_look(struct lost_note *n, const struct lost_clock *now)
{
        bool is_same_boot = now->boot_id[0] && strcmp(n->seen.boot_id, now->boot_id) == 0;
        int64_t passed_ns = is_same_boot ? now->boot_ns - n->seen.boot_ns : now->real_ns - n->seen.real_ns;

        if (!is_same_boot && passed_ns > NS_PER_DAY)
                passed_ns = NS_PER_DAY;
        if (n->seen.boot_ns > 0 && passed_ns > 0)
                n->kept_ns += passed_ns;
        n->seen = *now;
}

void lost_note_remove(int lost, const char *name)
{
        char note[NOTE_NAME_MAX];

        name_note(name, note);
        (void)unlinkat(lost, note, 0); /* one that stays is taken away at the next start */
}

int lost_count(int data, struct lost_count *ret)
{
        AUTO_CLOSE int lost = sys_open_dir(data, LOST_DIR);
        AUTO_DIR DIR *d = lost < 0 ? NULL : sys_list(lost);
        const struct dirent *e;
        enum lost_kind kind;

        *ret = (struct lost_count){0};
        if (!d)
                return lost == -ENOENT ? 0 : lost < 0 ? lost : -errno;
        while ((e = sys_list_next(d)))
                if (lost_kind_of(e->d_name, &kind))
                        ret->of[kind]++;
        return 0;
}
