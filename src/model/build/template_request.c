#include "model/build/template_request.h"

#include <errno.h>

#include "base/err.h"
#include "model/build/build_names.h"
#include "model/json_field.h"

void template_request_done(struct template_request *r)
{
        json_decref(r->tags);
        *r = (struct template_request){0};
}

static int decode_name(const json_t *body, const char *slug, struct template_request *r, struct err *err)
{
        const char *name = NULL, *alias = NULL;
        json_t *tags = NULL;

        if (json_field_text(body, "name", &name, err) < 0 || json_field_text(body, "alias", &alias, err) < 0 ||
            json_field_text_list(body, "tags", BUILD_TAGS_MAX, &tags, err) < 0)
                return -EINVAL;
        if (build_name_parse(name && name[0] ? name : alias, slug, &r->name, err) < 0)
                return -EINVAL;
        r->tags = build_tags_of(tags, r->name.tag, err);
        r->name.tag[0] = 0;
        return r->tags ? 0 : -EINVAL;
}

static int decode_sizes(const json_t *body, const struct template_request_limits *l, struct template_request *r,
                        struct err *err)
{
        int64_t cpus = l->default_cpus, memory = l->default_memory_mb, free_mb = 0;

        if (json_field_int(body, "cpuCount", INT32_MIN, INT32_MAX, &cpus, err) < 0 ||
            json_field_int(body, "memoryMB", INT32_MIN, INT32_MAX, &memory, err) < 0 ||
            json_field_int(body, "minFreeDiskMb", 0, l->disk_max_mb, &free_mb, err) < 0)
                return -EINVAL;
        if ((json_field_is_set(body, "cpuCount") && build_check_cpus(cpus, l->cpus_max, err) < 0) ||
            (json_field_is_set(body, "memoryMB") && build_check_memory(memory, l->memory_max_mb, err) < 0))
                return -EINVAL;
        r->cpu_count = (uint32_t)cpus;
        r->memory_mb = (uint32_t)memory;
        r->min_free_mb = (uint32_t)free_mb;
        return 0;
}

int template_request_decode(const json_t *body, const struct template_request_limits *limits,
                            struct template_request *ret, struct err *err)
{
        struct template_request r = {0};
        int res;

        if (!json_is_object(body))
                return err_set(err, ERR_INVALID, "validation error: the body must be an object");
        res = decode_name(body, limits->slug, &r, err);
        if (res == 0)
                res = decode_sizes(body, limits, &r, err);
        if (res < 0) {
                template_request_done(&r);
                return res;
        }
        *ret = r;
        return 0;
}
