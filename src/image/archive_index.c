#include "image/archive_index.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/json_document.h"

static int bad(const char *file, const char *what, struct err *err)
{
        return err_set(err, ERR_INVALID, "%s: %s", file, what);
}

static int take_name(const json_t *value, char **ret, const char *file, const char *field, struct err *err)
{
        const char *text = json_string_value(value);

        if (!text || !text[0] || strlen(text) > ARCHIVE_NAME_MAX)
                return err_set(err, ERR_INVALID, "%s: %s is not the name of a file", file, field);
        *ret = strdup(text);
        return *ret ? 0 : err_sys(err, -ENOMEM, "%s", file);
}

static void image_done(struct archive_image *image)
{
        free(image->name);
        free(image->config);
        for (size_t i = 0; i < image->layer_count; i++)
                free(image->layers[i]);
        free(image->layers);
        *image = (struct archive_image){0};
}

static int take_layers(const json_t *list, struct archive_image *image, struct err *err)
{
        size_t i;
        json_t *item;
        int r;

        if (!json_is_array(list) || json_array_size(list) > IMAGE_LAYERS_MAX)
                return bad("manifest.json", "Layers is not a list of names, or too long", err);
        image->layers = calloc(json_array_size(list) + 1, sizeof(*image->layers));
        if (!image->layers)
                return err_sys(err, -ENOMEM, "manifest.json");
        json_array_foreach ((json_t *)list, i, item) {
                r = take_name(item, &image->layers[i], "manifest.json", "Layers", err);
                if (r < 0)
                        return r;
                image->layer_count = i + 1;
        }
        return 0;
}

/* Without a tag it has no name. */
static int take_tag(const json_t *tags, struct archive_image *image, struct err *err)
{
        const json_t *first = json_array_get(tags, 0);

        if (!first)
                return 0;
        return take_name(first, &image->name, "manifest.json", "RepoTags", err);
}

static int decode_docker_image(const json_t *obj, struct archive_image *image, struct err *err)
{
        int r = take_name(json_object_get(obj, "Config"), &image->config, "manifest.json", "Config", err);

        if (r == 0)
                r = take_layers(json_object_get(obj, "Layers"), image, err);
        if (r == 0)
                r = take_tag(json_object_get(obj, "RepoTags"), image, err);
        return r;
}

/* skopeo and docker write the whole name into one annotation; "ref.name" may be a tag alone, which names no image. */
static int decode_oci_image(const json_t *obj, struct archive_image *image, struct err *err)
{
        const json_t *notes = json_object_get(obj, "annotations");
        const char *digest = json_string_value(json_object_get(obj, "digest"));
        const char *whole = json_string_value(json_object_get(notes, "io.containerd.image.name"));
        const char *name = json_string_value(json_object_get(notes, "org.opencontainers.image.ref.name"));

        if (!image_digest_is_valid(str_of(digest)))
                return bad("index.json", "a manifest has no sha256 digest", err);
        memcpy(image->digest, digest, strlen(digest) + 1);
        if (!whole && name && strpbrk(name, "/:"))
                whole = name;
        if (!whole || !whole[0] || strlen(whole) > ARCHIVE_NAME_MAX)
                return 0;
        image->name = strdup(whole);
        return image->name ? 0 : err_sys(err, -ENOMEM, "index.json");
}

static int decode_list(const json_t *list, const char *file,
                       int (*decode)(const json_t *obj, struct archive_image *image, struct err *err),
                       struct archive_index *ret, struct err *err)
{
        struct archive_index a = {0};
        size_t i;
        json_t *obj;
        int r = 0;

        if (json_array_size(list) == 0)
                return bad(file, "names no image", err);
        if (json_array_size(list) > ARCHIVE_IMAGES_MAX)
                return bad(file, "names too many images", err);
        a.images = calloc(json_array_size(list), sizeof(*a.images));
        if (!a.images)
                return err_sys(err, -ENOMEM, "%s", file);
        json_array_foreach ((json_t *)list, i, obj) {
                a.image_count = i + 1;
                r = decode(obj, &a.images[i], err);
                if (r < 0)
                        break;
        }
        if (r < 0) {
                archive_index_done(&a);
                return r;
        }
        *ret = a;
        return 0;
}

int archive_index_decode_docker(struct str text, struct archive_index *ret, struct err *err)
{
        json_t *list = NULL;
        int r;

        r = json_document_parse_array(text, ARCHIVE_INDEX_BYTES_MAX, "manifest.json", &list, err);
        if (r == 0)
                r = decode_list(list, "manifest.json", decode_docker_image, ret, err);
        json_decref(list);
        return r;
}

int archive_index_decode_oci(struct str text, struct archive_index *ret, struct err *err)
{
        json_t *obj = NULL;
        int r;

        r = json_document_parse(text, ARCHIVE_INDEX_BYTES_MAX, "index.json", &obj, err);
        if (r == 0)
                r = decode_list(json_object_get(obj, "manifests"), "index.json", decode_oci_image, ret, err);
        json_decref(obj);
        return r;
}

void archive_index_done(struct archive_index *a)
{
        for (size_t i = 0; i < a->image_count; i++)
                image_done(&a->images[i]);
        free(a->images);
        *a = (struct archive_index){0};
}
