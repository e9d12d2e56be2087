#include "model/template.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "model/json_field.h"
#include "model/template_ref.h"

struct template *template_free(struct template *t)
{
        if (!t)
                return NULL;
        for (size_t i = 0; i < t->layer_count; i++)
                free(t->layers[i]);
        free(t->alias);
        free(t->default_user);
        free(t->default_workdir);
        free(t);
        return NULL;
}

static void template_free_p(struct template **t)
{
        template_free(*t);
}

static bool is_template_id(const char *s)
{
        if (strlen(s) != TEMPLATE_ID_MAX - 1)
                return false;
        return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789") == TEMPLATE_ID_MAX - 1;
}

static int dup_to(const char *s, char **ret, struct err *err)
{
        if (!s)
                return 0;
        *ret = strdup(s);
        return *ret ? 0 : err_sys(err, -ENOMEM, "template");
}

static int decode_names(const json_t *m, struct template *t, struct err *err)
{
        const char *id = NULL, *alias = NULL, *user = NULL, *workdir = NULL;
        struct template_ref ref;
        int r;

        if (json_field_text(m, "templateID", &id, err) < 0 || json_field_text(m, "alias", &alias, err) < 0 ||
            json_field_text(m, "defaultUser", &user, err) < 0 ||
            json_field_text(m, "defaultWorkdir", &workdir, err) < 0)
                return err_wrap(err, "manifest");
        if (!id || !is_template_id(id))
                return err_set(err, ERR_INVALID, "templateID is not 20 characters of [a-z0-9]");
        if (!alias || template_ref_parse(str_of(alias), &ref, NULL) < 0 || strcmp(ref.name, alias) != 0)
                return err_set(err, ERR_INVALID, "alias is not a plain lower-case name");
        memcpy(t->id, id, TEMPLATE_ID_MAX);
        r = dup_to(alias, &t->alias, err);
        if (r == 0)
                r = dup_to(user, &t->default_user, err);
        if (r == 0)
                r = dup_to(workdir, &t->default_workdir, err);
        return r;
}

static int decode_layers(const json_t *m, struct template *t, struct err *err)
{
        json_t *layers = NULL, *v;
        size_t i;
        int r;

        r = json_field_text_list(m, "layers", PLAN_LAYERS_MAX, &layers, err);
        if (r < 0)
                return r;
        if (!layers || json_array_size(layers) == 0)
                return err_set(err, ERR_INVALID, "layers is missing or empty");
        json_array_foreach (layers, i, v) {
                if (!layer_id_is_valid(str_of(json_string_value(v))))
                        return err_set(err, ERR_INVALID, "layers[%zu] is not a layer id", i);
                r = dup_to(json_string_value(v), &t->layers[i], err);
                if (r < 0)
                        return r;
                t->layer_count = i + 1;
        }
        return 0;
}

static int decode_sizes(const json_t *m, const struct template_defaults *d, struct template *t, struct err *err)
{
        int64_t cpu = d->cpu_count, memory = d->memory_mb, disk = d->disk_mb;

        if (json_field_int(m, "cpuCount", 1, 1024, &cpu, err) < 0 ||
            json_field_int(m, "memoryMB", 16, 16 << 20, &memory, err) < 0 ||
            json_field_int(m, "diskSizeMB", 1, 1 << 30, &disk, err) < 0)
                return err_wrap(err, "manifest");
        t->cpu_count = (uint32_t)cpu;
        t->memory_mb = (uint32_t)memory;
        t->disk_mb = (uint32_t)disk;
        return 0;
}

int template_decode(const json_t *manifest, const struct template_defaults *defaults, struct template **ret,
                    struct err *err)
{
        AUTO(template_free_p) struct template *t = NULL;
        int r;

        if (!json_is_object(manifest))
                return err_set(err, ERR_INVALID, "manifest is not an object");
        t = calloc(1, sizeof(*t));
        if (!t)
                return err_sys(err, -ENOMEM, "template");
        r = decode_names(manifest, t, err);
        if (r == 0)
                r = decode_layers(manifest, t, err);
        if (r == 0)
                r = decode_sizes(manifest, defaults, t, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(t);
        return 0;
}
