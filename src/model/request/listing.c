#include "model/request/listing.h"

#include <stdlib.h>
#include <string.h>

void listing_done(struct listing *l)
{
        json_decref(l->metadata);
        l->metadata = NULL;
}

bool listing_has_metadata(const json_t *wanted, const json_t *have)
{
        const char *key;
        json_t *v;

        json_object_foreach ((json_t *)wanted, key, v) {
                const json_t *mine = json_object_get(have, key);

                if (!mine || !json_equal(mine, v))
                        return false;
        }
        return true;
}

bool listing_matches(const struct listing *l, const struct sandbox *s)
{
        if (!sandbox_is_visible(s) || !(sandbox_is_shown_running(s) ? l->wants_running : l->wants_paused))
                return false;
        if (l->has_started_after && s->started_ns < l->started_after_ns)
                return false;
        if (l->has_template && strcmp(s->template_id, l->template.name) != 0 &&
            (!s->alias || strcmp(s->alias, l->template.name) != 0))
                return false;
        return listing_has_metadata(l->metadata, s->metadata);
}

/* Newest first; of those started together the smaller id first. */
static int order(int64_t a_started, const char *a_id, int64_t b_started, const char *b_id)
{
        if (a_started != b_started)
                return a_started > b_started ? -1 : 1;
        return strcmp(a_id, b_id);
}

static int newest_first(const void *a, const void *b)
{
        const struct sandbox *x = *(const struct sandbox *const *)a, *y = *(const struct sandbox *const *)b;

        return order(x->started_ns, x->id, y->started_ns, y->id);
}

static int oldest_first(const void *a, const void *b)
{
        return newest_first(b, a);
}

static bool is_after(const struct sandbox *s, const struct listing *l)
{
        int o = order(s->started_ns, s->id, l->after.started_ns, l->after.id);

        return l->is_ascending ? o < 0 : o > 0;
}

void listing_page(const struct listing *l, const struct sandbox **all, size_t n, size_t *ret_first, size_t *ret_count)
{
        size_t first = 0;

        if (n)
                qsort(all, n, sizeof(*all), l->is_ascending ? oldest_first : newest_first);
        while (l->after.is_set && first < n && !is_after(all[first], l))
                first++;
        *ret_first = first;
        *ret_count = n - first < l->limit ? n - first : l->limit;
}
