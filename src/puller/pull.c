#include "puller/pull.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "image/image_config.h"
#include "image/image_manifest.h"
#include "puller/blobs.h"
#include "puller/registry.h"

#define INDEX_DEPTH_MAX 3 /* an index may name an index */
#define SHOWN_MAX 80      /* characters of a name in an error: the reason must fit, too */

/* The first words say what it means for the image. */
static int explain(const struct pull *p, struct err *err)
{
        const char *cut = strlen(p->asked) > SHOWN_MAX ? "..." : "";

        switch (err->kind) {
        case ERR_NOT_FOUND: return err_wrap(err, "image '%.*s%s' not found", SHOWN_MAX, p->asked, cut);
        case ERR_DENIED: return err_wrap(err, "image '%.*s%s' cannot be pulled", SHOWN_MAX, p->asked, cut);
        default: return err_wrap(err, "image '%.*s%s'", SHOWN_MAX, p->asked, cut);
        }
}

/* Follow indexes down to the manifest for this machine. */
static int find_manifest(struct registry *r, struct image_manifest *ret, char digest[IMAGE_DIGEST_MAX], struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(IMAGE_MANIFEST_BYTES_MAX);
        char version[IMAGE_TAG_MAX];
        int e;

        memcpy(version, image_ref_version(&r->ref), strlen(image_ref_version(&r->ref)) + 1);
        for (int depth = 0; depth < INDEX_DEPTH_MAX; depth++) {
                e = registry_get_manifest(r, version, &text, digest, err);
                if (e == 0)
                        e = image_manifest_decode((struct str){(const char *)buf_at(&text), text.len},
                                                  image_architecture(), ret, err);
                if (e < 0 || !ret->is_index)
                        return e;
                memcpy(version, ret->config.digest, sizeof(ret->config.digest));
                image_manifest_done(ret);
        }
        return err_set(err, ERR_INVALID, "manifest: an index names an index names an index");
}

static json_t *show_name(const struct pull *p, const char *digest)
{
        char name[IMAGE_NAME_MAX];

        image_ref_name(&p->ref, name);
        return json_pack("{s:s,s:s}", "name", name, "digest", digest);
}

static int open_registry(struct pull *p, struct registry *r, struct err *err)
{
        return registry_open(r,
                             &(struct registry_options){.conf = p->conf,
                                                        .limits = p->limits,
                                                        .ref = &p->ref,
                                                        .auth = &p->auth,
                                                        .is_cancelled = &p->is_cancelled},
                             err);
}

int pull_resolve(struct pull *p, json_t **ret, struct err *err)
{
        struct image_manifest m = {0};
        char digest[IMAGE_DIGEST_MAX];
        struct registry r;
        int e;

        e = open_registry(p, &r, err);
        if (e == 0)
                e = find_manifest(&r, &m, digest, err);
        registry_close(&r);
        image_manifest_done(&m);
        if (e < 0)
                return explain(p, err);
        *ret = show_name(p, digest);
        return *ret ? 0 : err_sys(err, -ENOMEM, "answer");
}

json_t *pull_show_layers(const struct image_blob *layers, size_t count, const json_t *diff_ids)
{
        json_t *list = json_array();

        for (size_t i = 0; list && i < count; i++)
                if (json_array_append_new(list, json_pack("{s:s,s:O,s:I}", "digest", layers[i].digest, "diff_id",
                                                          json_array_get(diff_ids, i), "bytes",
                                                          (json_int_t)layers[i].bytes)) < 0) {
                        json_decref(list);
                        list = NULL;
                }
        return list;
}

static int get_config(struct registry *r, const struct image_manifest *m, struct image_config *ret, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(IMAGE_CONFIG_BYTES_MAX);
        int e = registry_get_document(r, &m->config, &text, err);

        return e < 0 ? e
                     : image_config_decode((struct str){(const char *)buf_at(&text), text.len}, image_architecture(),
                                           m->layer_count, ret, err);
}

static uint64_t missing_bytes(struct blobs *b, const struct image_manifest *m)
{
        uint64_t bytes = 0;

        for (size_t i = 0; i < m->layer_count; i++)
                if (!blobs_has(b, m->layers[i].digest))
                        bytes += m->layers[i].bytes;
        return bytes;
}

static int pull_parts(struct pull *p, struct registry *r, json_t **ret, struct err *err)
{
        struct image_manifest m = {0};
        struct image_config c = {0};
        char digest[IMAGE_DIGEST_MAX];
        json_t *layers;
        int e;

        e = find_manifest(r, &m, digest, err);
        if (e == 0)
                e = get_config(r, &m, &c, err);
        if (e == 0)
                e = blobs_check_room(p->blobs, missing_bytes(p->blobs, &m), err);
        if (e == 0) {
                p->total = m.layer_bytes;
                e = registry_get_blobs(r, p->blobs, m.layers, m.layer_count, &p->done, err);
        }
        if (e == 0) {
                layers = pull_show_layers(m.layers, m.layer_count, c.diff_ids);
                *ret = show_name(p, digest);
                if (!layers || !*ret || json_object_set(*ret, "config", c.runtime) < 0 ||
                    json_object_set(*ret, "layers", layers) < 0) {
                        json_decref(*ret);
                        e = err_sys(err, -ENOMEM, "answer");
                }
                json_decref(layers);
        }
        image_manifest_done(&m);
        image_config_done(&c);
        return e;
}

int pull_image(struct pull *p, json_t **ret, struct err *err)
{
        struct registry r;
        int e;

        e = open_registry(p, &r, err);
        if (e == 0)
                e = pull_parts(p, &r, ret, err);
        registry_close(&r);
        return e < 0 ? explain(p, err) : 0;
}
