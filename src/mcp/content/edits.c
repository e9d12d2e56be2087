#include "mcp/content/edits.h"

#include <string.h>

#include "base/err.h"
#include "base/str.h"

static struct str text_of(const struct buf *b)
{
        return (struct str){b->len ? (const char *)buf_at(b) : "", b->len};
}

static size_t count_of(struct str text, struct str what)
{
        size_t count = 0;

        while (text.n >= what.n) {
                const char *at = memmem(text.p, text.n, what.p, what.n);

                if (!at)
                        break;
                count++;
                text.n -= (size_t)(at - text.p) + what.n;
                text.p = at + what.n;
        }
        return count;
}

static int replace_all(struct str text, struct str old, struct str new, struct buf *out)
{
        const char *at;
        int r = 0;

        while (r == 0 && (at = memmem(text.p, text.n, old.p, old.n))) {
                r = buf_add(out, text.p, (size_t)(at - text.p));
                if (r == 0)
                        r = buf_add(out, new.p, new.n);
                text.n -= (size_t)(at - text.p) + old.n;
                text.p = at + old.n;
        }
        return r < 0 ? r : buf_add(out, text.p, text.n);
}

/* One edit of the text in *now; number counts from 1. */
static int apply_edit(const json_t *edit, size_t number, struct buf *now, size_t *changes, struct err *err)
{
        const json_t *o = json_object_get(edit, "old_text"), *n = json_object_get(edit, "new_text");
        struct str old = {json_string_value(o), json_string_length(o)},
                   new = {json_string_value(n), json_string_length(n)};
        AUTO_BUF struct buf next = BUF_INIT(now->max);
        size_t count = count_of(text_of(now), old);
        struct buf swap;
        int r;

        if (count == 0)
                return err_set(err, ERR_INVALID, "edit %zu: old_text does not occur in the file. Nothing was changed.",
                               number);
        if (count > 1 && !json_is_true(json_object_get(edit, "replace_all")))
                return err_set(err, ERR_INVALID,
                               "edit %zu: old_text occurs %zu times: add lines around it, or set replace_all. Nothing "
                               "was changed.",
                               number, count);
        r = replace_all(text_of(now), old, new, &next);
        if (r < 0)
                return err_set(err, ERR_TOO_LARGE,
                               "edit %zu: the file would be larger than %zu bytes. Nothing was changed.", number,
                               now->max);
        *changes += count;
        swap = *now;
        *now = next;
        next = swap;
        return 0;
}

int edits_apply(const json_t *edits, struct buf *now, size_t *changes, struct err *err)
{
        json_t *edit;
        size_t i;
        int r = 0;

        if (json_array_size(edits) > 1 && json_array_size(edits) * now->len > EDITS_WORK_MAX)
                return err_set(err, ERR_LIMIT,
                               "%zu edits are too many for a file of %zu bytes. Nothing was changed: send fewer at a "
                               "time.",
                               json_array_size(edits), now->len);
        json_array_foreach (edits, i, edit) {
                if (r == 0)
                        r = apply_edit(edit, i + 1, now, changes, err);
        }
        return r;
}
