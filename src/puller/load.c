/* load.c - the images of an archive: `docker save`, or an OCI layout as a tar archive. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/archive_index.h"
#include "image/image_config.h"
#include "image/image_manifest.h"
#include "puller/blobs.h"
#include "puller/image_archive.h"
#include "puller/pull.h"

#define INDEX_DEPTH_MAX 3

struct load {
        struct blobs *blobs;
        struct image_archive files;
        json_t *images; /* owned: the answer */
};

static struct str str_of_buf(const struct buf *b)
{
        return (struct str){(const char *)buf_at(b), b->len};
}

/* All of a small file. */
static int read_blob(struct load *l, const struct archive_blob *file, const char *what, size_t most, struct buf *ret,
                     struct err *err)
{
        AUTO_CLOSE int fd = -1;
        ssize_t n;
        int r;

        if (!file)
                return err_set(err, ERR_INVALID, "the archive has no %s", what);
        if (file->blob.bytes > most)
                return err_set(err, ERR_INVALID, "%s: is longer than %zu bytes", what, most);
        buf_done(ret);
        buf_init(ret, most + 1);
        r = blobs_open(l->blobs, file->blob.digest, &fd, err);
        if (r < 0)
                return r;
        while ((n = buf_fill(ret, fd, most + 1 - ret->len)) > 0)
                continue;
        return n < 0 && n != -E2BIG ? err_sys(err, (int)n, "read %s", what) : 0;
}

/* The name as registries would know it; null where the archive has none that could be one. */
static json_t *show_name(const char *text)
{
        char name[IMAGE_NAME_MAX];
        struct err ignored = {0};
        struct image_ref ref;

        if (!text || image_ref_parse(str_of(text), &ref, &ignored) < 0)
                return json_null();
        image_ref_name(&ref, name);
        return json_string(name);
}

struct found {              /* one image of the archive */
        const char *name;   /* may be NULL */
        const char *digest; /* of its manifest, or of its configuration where there is no manifest */
        const struct image_blob *layers;
        size_t layer_count;
};

static int add_image(struct load *l, const struct found *f, const struct buf *config, struct err *err)
{
        struct image_config c = {0};
        int r;

        r = image_config_decode(str_of_buf(config), image_architecture(), f->layer_count, &c, err);
        if (r < 0)
                return r;
        if (json_array_append_new(l->images, json_pack("{s:o,s:s,s:O,s:o}", "name", show_name(f->name), "digest",
                                                       f->digest, "config", c.runtime, "layers",
                                                       pull_show_layers(f->layers, f->layer_count, c.diff_ids))) < 0)
                r = err_sys(err, -ENOMEM, "answer");
        image_config_done(&c);
        return r;
}

static int use_layer(struct archive_blob *file, struct image_blob *ret, const char *what, struct err *err)
{
        if (!file)
                return err_set(err, ERR_INVALID, "the archive has not the layer '%.80s'", what);
        file->is_used = true;
        *ret = file->blob;
        return 0;
}

/* ---- docker save ---- */

static int take_docker_image(struct load *l, const struct archive_image *image, struct err *err)
{
        AUTO_BUF struct buf config = BUF_INIT(1);
        struct archive_blob *file = image_archive_find(&l->files, image->config);
        struct image_blob layers[IMAGE_LAYERS_MAX];
        int r;

        r = read_blob(l, file, "configuration", IMAGE_CONFIG_BYTES_MAX, &config, err);
        for (size_t i = 0; r == 0 && i < image->layer_count; i++)
                r = use_layer(image_archive_find(&l->files, image->layers[i]), &layers[i], image->layers[i], err);
        if (r < 0)
                return r;
        return add_image(l,
                         &(struct found){.name = image->name,
                                         .digest = file->blob.digest,
                                         .layers = layers,
                                         .layer_count = image->layer_count},
                         &config, err);
}

/* ---- OCI ---- */

static struct archive_blob *find_digest(struct load *l, const char *digest)
{
        char name[16 + IMAGE_DIGEST_MAX] = "blobs/sha256/";
        struct archive_blob *file;

        memcpy(name + strlen(name), digest + sizeof("sha256:") - 1, strlen(digest) - sizeof("sha256:") + 2);
        file = image_archive_find(&l->files, name);
        return file && strcmp(file->blob.digest, digest) == 0 ? file
                                                              : NULL; /* its bytes, not its name, say what it is */
}

static int take_manifest(struct load *l, const char *name, const char *digest, struct image_manifest *m,
                         struct err *err)
{
        AUTO_BUF struct buf config = BUF_INIT(1);
        struct archive_blob *file = find_digest(l, m->config.digest);
        int r;

        r = read_blob(l, file, "configuration that the manifest names, undamaged", IMAGE_CONFIG_BYTES_MAX, &config,
                      err);
        for (size_t i = 0; r == 0 && i < m->layer_count; i++)
                r = use_layer(find_digest(l, m->layers[i].digest), &m->layers[i], m->layers[i].digest, err);
        if (r < 0)
                return r;
        return add_image(
                l, &(struct found){.name = name, .digest = digest, .layers = m->layers, .layer_count = m->layer_count},
                &config, err);
}

static int take_oci_image(struct load *l, const struct archive_image *image, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(1);
        struct image_manifest m = {0};
        char digest[IMAGE_DIGEST_MAX];
        int r;

        memcpy(digest, image->digest, sizeof(digest));
        for (int depth = 0; depth < INDEX_DEPTH_MAX; depth++) {
                r = read_blob(l, find_digest(l, digest), "manifest that its index names, undamaged",
                              IMAGE_MANIFEST_BYTES_MAX, &text, err);
                if (r == 0)
                        r = image_manifest_decode(str_of_buf(&text), image_architecture(), &m, err);
                if (r < 0)
                        return r;
                if (!m.is_index) {
                        r = take_manifest(l, image->name, digest, &m, err);
                        image_manifest_done(&m);
                        return r;
                }
                memcpy(digest, m.config.digest, sizeof(digest));
                image_manifest_done(&m);
        }
        return err_set(err, ERR_INVALID, "manifest: an index names an index names an index");
}

/* ---- both ---- */

static int take_images(struct load *l, struct err *err)
{
        struct archive_blob *docker = image_archive_find(&l->files, "manifest.json");
        struct archive_blob *oci = image_archive_find(&l->files, "index.json");
        AUTO_BUF struct buf text = BUF_INIT(1);
        struct archive_index index = {0};
        int r;

        if (!docker && !oci)
                return err_set(err, ERR_INVALID,
                               "the archive has neither manifest.json nor index.json: it is no image");
        r = read_blob(l, docker ? docker : oci, docker ? "manifest.json" : "index.json", ARCHIVE_INDEX_BYTES_MAX, &text,
                      err);
        if (r == 0)
                r = docker ? archive_index_decode_docker(str_of_buf(&text), &index, err)
                           : archive_index_decode_oci(str_of_buf(&text), &index, err);
        for (size_t i = 0; r == 0 && i < index.image_count; i++)
                r = docker ? take_docker_image(l, &index.images[i], err) : take_oci_image(l, &index.images[i], err);
        archive_index_done(&index);
        return r;
}

int pull_load(struct pull *p, json_t **ret, struct err *err)
{
        struct load l = {.blobs = p->blobs, .images = json_array()};
        int r;

        r = image_archive_read(&l.files, p->blobs, p->archive, &p->is_cancelled, &p->done, err);
        if (r == 0)
                r = take_images(&l, err);
        if (r < 0) { /* nothing of a damaged archive stays */
                MAP_EACH (slot, &l.files.sums)
                        ((struct archive_blob *)slot->value)->is_used = false;
        }
        image_archive_done(&l.files);
        if (r == 0) {
                *ret = json_pack("{s:O}", "images", l.images);
                if (!*ret)
                        r = err_sys(err, -ENOMEM, "answer");
        }
        json_decref(l.images);
        return r;
}
