#include "image/image_manifest.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/json_document.h"

#define BLOB_BYTES_MAX IMAGE_BYTES_MAX
#define SHOWN_TYPE_MAX 100

const char *image_architecture(void)
{
#if defined(__x86_64__)
        return "amd64";
#elif defined(__aarch64__)
        return "arm64";
#elif defined(__riscv)
        return "riscv64";
#else
#error "image_architecture: name this architecture as images do"
#endif
}

static const char *text_of(const json_t *obj, const char *name)
{
        const char *text = json_string_value(json_object_get(obj, name));

        return text ? text : "";
}

static int decode_blob(const json_t *obj, const char *what, uint64_t most, struct image_blob *ret, struct err *err)
{
        const char *digest = text_of(obj, "digest");
        const json_t *size = json_object_get(obj, "size");

        if (!image_digest_is_valid(str_of(digest)))
                return err_set(err, ERR_INVALID, "manifest: %s: its digest is not sha256: and 64 digits", what);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
                return err_set(err, ERR_INVALID, "manifest: %s: its size is not a number", what);
        if ((uint64_t)json_integer_value(size) > most)
                return err_set(err, ERR_INVALID,
                               "manifest: %s: %" JSON_INTEGER_FORMAT " bytes are more than allowed (%llu)", what,
                               json_integer_value(size), (unsigned long long)most);
        memcpy(ret->digest, digest, strlen(digest) + 1);
        ret->bytes = (uint64_t)json_integer_value(size);
        return 0;
}

/* Layers are tar archives, plain or compressed in a way that is known here. */
static bool is_layer_type(const char *type)
{
        static const char *const known[] = {
                "application/vnd.docker.image.rootfs.diff.tar.gzip", "application/vnd.docker.image.rootfs.diff.tar",
                "application/vnd.docker.image.rootfs.diff.tar.zstd", "application/vnd.oci.image.layer.v1.tar",
                "application/vnd.oci.image.layer.v1.tar+gzip",       "application/vnd.oci.image.layer.v1.tar+zstd",
        };

        for (size_t i = 0; i < ARRAY_LEN(known); i++)
                if (strcmp(type, known[i]) == 0)
                        return true;
        return false;
}

static int decode_layers(const json_t *list, struct image_manifest *m, struct err *err)
{
        char what[32];
        size_t i;
        json_t *layer;
        int r;

        if (!json_is_array(list) || json_array_size(list) > IMAGE_LAYERS_MAX)
                return err_set(err, ERR_INVALID, "manifest: has no list of up to %d layers", IMAGE_LAYERS_MAX);
        m->layers = calloc(json_array_size(list) + 1, sizeof(*m->layers));
        if (!m->layers)
                return err_sys(err, -ENOMEM, "manifest");
        json_array_foreach ((json_t *)list, i, layer) {
                (void)snprintf(what, sizeof(what), "layer %zu", i + 1);
                if (!is_layer_type(text_of(layer, "mediaType")))
                        return err_set(err, ERR_INVALID, "manifest: %s is no archive of files, but '%.*s'", what,
                                       SHOWN_TYPE_MAX, text_of(layer, "mediaType"));
                r = decode_blob(layer, what, BLOB_BYTES_MAX, &m->layers[i], err);
                if (r < 0)
                        return r;
                m->layer_count = i + 1;
                m->layer_bytes += m->layers[i].bytes;
                if (m->layer_bytes > IMAGE_BYTES_MAX)
                        return err_set(err, ERR_INVALID, "manifest: the layers have more bytes than allowed (%llu)",
                                       (unsigned long long)IMAGE_BYTES_MAX);
        }
        return 0;
}

static bool is_config_type(const char *type)
{
        return strcmp(type, "application/vnd.docker.container.image.v1+json") == 0 ||
               strcmp(type, "application/vnd.oci.image.config.v1+json") == 0;
}

static int decode_image(const json_t *obj, struct image_manifest *m, struct err *err)
{
        const json_t *config = json_object_get(obj, "config");
        int r;

        if (!is_config_type(text_of(config, "mediaType")))
                return err_set(err, ERR_INVALID, "manifest: is not of a container image, but of '%.*s'", SHOWN_TYPE_MAX,
                               text_of(config, "mediaType"));
        r = decode_blob(config, "configuration", IMAGE_CONFIG_BYTES_MAX, &m->config, err);
        return r < 0 ? r : decode_layers(json_object_get(obj, "layers"), m, err);
}

/* How well an entry of an index fits: 0 not at all; the oldest variant runs everywhere, so it is the best. */
static int fits(const json_t *entry, const char *architecture)
{
        const json_t *platform = json_object_get(entry, "platform");
        const char *variant = text_of(platform, "variant");

        if (strcmp(text_of(platform, "os"), "linux") != 0 ||
            strcmp(text_of(platform, "architecture"), architecture) != 0)
                return 0;
        if (!variant[0] || strcmp(variant, "v1") == 0 || strcmp(variant, "v8") == 0)
                return 2;
        return 1;
}

static int decode_index(const json_t *list, const char *architecture, struct image_manifest *m, struct err *err)
{
        const json_t *best = NULL;
        int best_fit = 0;
        size_t i;
        json_t *entry;

        if (json_array_size(list) > IMAGE_MANIFESTS_MAX)
                return err_set(err, ERR_INVALID, "manifest: names more than %d others", IMAGE_MANIFESTS_MAX);
        json_array_foreach ((json_t *)list, i, entry)
                if (fits(entry, architecture) > best_fit) {
                        best = entry;
                        best_fit = fits(entry, architecture);
                }
        /* Indexes of layouts often say nothing about platforms; the configuration will be compared. */
        if (!best && json_array_size(list) == 1 && !json_object_get(json_array_get(list, 0), "platform"))
                best = json_array_get(list, 0);
        if (!best)
                return err_set(err, ERR_NOT_FOUND, "the image is not made for linux/%s", architecture);
        m->is_index = true;
        return decode_blob(best, "entry for this machine", IMAGE_MANIFEST_BYTES_MAX, &m->config, err);
}

int image_manifest_decode(struct str text, const char *architecture, struct image_manifest *ret, struct err *err)
{
        struct image_manifest m = {0};
        json_t *obj = NULL;
        const json_t *others;
        int r;

        r = json_document_parse(text, IMAGE_MANIFEST_BYTES_MAX, "manifest", &obj, err);
        if (r < 0)
                return r;
        others = json_object_get(obj, "manifests");
        if (json_integer_value(json_object_get(obj, "schemaVersion")) != 2)
                r = err_set(err, ERR_INVALID,
                            "manifest: has not schemaVersion 2; the image must be pushed again by a newer "
                            "program");
        else if (json_is_array(others))
                r = decode_index(others, architecture, &m, err);
        else
                r = decode_image(obj, &m, err);
        json_decref(obj);
        if (r < 0) {
                image_manifest_done(&m);
                return r;
        }
        *ret = m;
        return 0;
}

void image_manifest_done(struct image_manifest *m)
{
        free(m->layers);
        *m = (struct image_manifest){0};
}
