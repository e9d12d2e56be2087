#include "control/catalogue/images.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "control/catalogue/refs.h"
#include "store/store.h"
#include "store/templates.h"

static void image_row_free(struct images *is, struct image_row *row)
{
        list_remove(&row->node);
        free(row->name);
        free(row->digest);
        free(row->source);
        json_decref(row->layers);
        json_decref(row->config);
        free(row);
        is->count--;
}

static struct image_row *image_row_add(struct images *is, const struct store_image *from)
{
        struct image_row *row = calloc(1, sizeof(*row));

        if (!row)
                return NULL;
        list_push_back(&is->all, &row->node);
        is->count++;
        row->name = strdup(from->name);
        row->digest = strdup(from->digest);
        row->source = strdup(from->source);
        row->layers = json_deep_copy(from->layers);
        row->config = json_deep_copy(from->config);
        row->bytes = from->bytes;
        row->created_ns = from->created_ns;
        if (row->name && row->digest && row->source && row->layers && row->config)
                return row;
        image_row_free(is, row);
        return NULL;
}

static int images_load(const struct store_image *from, void *arg)
{
        struct images *is = arg;
        int r = refs_load_row(is->refs, "", from->layers);

        return r < 0 ? r : image_row_add(is, from) ? 0 : -ENOMEM;
}

int images_init(struct images *is, struct store *store, struct refs *refs, struct err *err)
{
        *is = (struct images){.store = store, .refs = refs};
        list_init(&is->all);
        return store_image_each(store, images_load, is, err);
}

void images_done(struct images *is)
{
        while (is->all.next && is->all.next != &is->all)
                image_row_free(is, LIST_ENTRY(is->all.next, struct image_row, node));
}

struct image_row *images_find(const struct images *is, const char *name)
{
        LIST_EACH (node, &is->all) {
                struct image_row *row = LIST_ENTRY(node, struct image_row, node);

                if (strcmp(row->name, name) == 0)
                        return row;
        }
        return NULL;
}

int images_put(struct images *is, const struct image_row *row, struct err *err)
{
        const struct store_image s = {
                .name = row->name,
                .digest = row->digest,
                .layers = row->layers,
                .config = row->config,
                .bytes = row->bytes,
                .created_ns = row->created_ns,
                .source = row->source,
        };
        struct image_row *old = images_find(is, row->name), *added = image_row_add(is, &s);
        struct refs_change change = {0};
        int r;

        if (!added || refs_take(is->refs, &change, "", added->layers) < 0 ||
            (old && refs_leave(is->refs, &change, "", old->layers) < 0)) {
                refs_cancel(is->refs, &change);
                r = err_sys(err, -ENOMEM, "image");
        } else {
                r = refs_begin(is->refs, &change, false, err);
                if (r == 0)
                        r = store_image_put(is->store, &s, err);
                r = refs_end(is->refs, &change, r, false, err);
        }
        if (r < 0 && added)
                image_row_free(is, added);
        if (r == 0 && old)
                image_row_free(is, old);
        return r;
}

int images_remove(struct images *is, const char *name, struct err *err)
{
        struct image_row *row = images_find(is, name);
        struct refs_change change = {0};
        int r;

        if (!row)
                return err_set(err, ERR_NOT_FOUND, "image '%.150s' not found", name);
        if (refs_leave(is->refs, &change, "", row->layers) < 0) {
                refs_cancel(is->refs, &change);
                return err_sys(err, -ENOMEM, "image");
        }
        r = refs_begin(is->refs, &change, false, err);
        if (r == 0)
                r = store_image_remove(is->store, name, err);
        r = refs_end(is->refs, &change, r, false, err);
        if (r == 0)
                image_row_free(is, row);
        return r;
}
