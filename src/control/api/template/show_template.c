#include "control/api/template/show_template.h"

#include <string.h>

#include "base/clock.h"
#include "control/access/keys.h"
#include "control/api/api.h"
#include "control/catalogue/builds.h"
#include "control/catalogue/templates.h"
#include "model/build/build_names.h"
#include "model/json_field.h"

#define NO_BUILD "00000000-0000-0000-0000-000000000000" /* templates of the server are not built by the API */

static json_t *show_time(int64_t ns) /* 0: null */
{
        char text[CLOCK_TEXT_MAX];

        if (!ns)
                return json_null();
        clock_format(ns, text);
        return json_string(text);
}

/* Of a ready-made template: `python3` is another name of `code-interpreter-v1`. */
static void show_other_names(const struct api *api, const struct template_row *t, json_t *list)
{
        json_t *names = (json_t *)(uintptr_t)api->template_rows->other_names;
        const char *name;
        json_t *alias;

        if (!t->alias)
                return;
        json_object_foreach (names, name, alias)
                if (strcmp(json_string_value(alias), t->alias) == 0)
                        (void)json_array_append_new(list, json_string(name));
}

json_t *show_names(const struct api *api, const struct template_row *t)
{
        const struct team *team = keys_team(api->keys, t->team);
        json_t *list = json_array();

        if (t->alias && team)
                (void)json_array_append_new(list, json_sprintf("%s/%s", team->slug, t->alias));
        if (t->alias && t->is_public && t->is_bare)
                (void)json_array_append_new(list, json_string(t->alias));
        show_other_names(api, t, list);
        return list;
}

json_t *show_aliases(const struct api *api, const struct template_row *t)
{
        json_t *list = t->alias ? json_pack("[s]", t->alias) : json_array();

        show_other_names(api, t, list);
        return list;
}

json_t *show_template_head(const struct api *api, const struct template_row *t)
{
        json_t *obj = json_pack("{s:s,s:b}", "templateID", t->id, "public", t->is_public);

        obj = json_with(obj, "aliases", show_aliases(api, t));
        obj = json_with(obj, "names", show_names(api, t));
        obj = json_with(obj, "createdAt", show_time(t->created_ns));
        obj = json_with(obj, "updatedAt", show_time(t->updated_ns));
        obj = json_with(obj, "lastSpawnedAt", show_time(t->last_spawned_ns));
        return json_with(obj, "spawnCount", json_integer(t->spawn_count));
}

/* The build that a list shows: what the name alone means, else the last one. */
static const struct build *listed_build(const struct template_row *t)
{
        const struct template_tag *tag = template_tag_find(t, TAG_DEFAULT);
        const struct build_entry *e = tag ? tag->build : builds_newest(t);

        return e ? &e->build : NULL;
}

json_t *show_template(const struct api *api, const struct template_row *t)
{
        const struct build *b = listed_build(t);
        json_t *obj;

        if (!b)
                return NULL;
        obj = json_with(show_template_head(api, t), "buildID", json_string(b->id));
        obj = json_with(obj, "cpuCount", json_integer(b->cpu_count));
        obj = json_with(obj, "memoryMB", json_integer(b->memory_mb));
        obj = json_with(obj, "diskSizeMB", json_integer(b->disk_mb));
        obj = json_with(obj, "createdBy", json_null());
        obj = json_with(obj, "buildCount", json_integer(t->build_count));
        obj = json_with(obj, "envdVersion", json_string(ENVD_VERSION));
        return json_with(obj, "buildStatus", json_string(build_status_name(b->status)));
}

json_t *show_manifest(const struct api *api, const struct template *t)
{
        const struct timespec *seen = &api->templates->seen;
        int64_t made_ns = (int64_t)seen->tv_sec * 1000000000 + seen->tv_nsec;
        json_t *obj = json_pack("{s:s,s:s,s:b,s:[s],s:[s]}", "templateID", t->id, "buildID", NO_BUILD, "public", 1,
                                "aliases", t->alias, "names", t->alias);

        obj = json_with(obj, "createdAt", show_time(made_ns));
        obj = json_with(obj, "updatedAt", show_time(made_ns));
        obj = json_with(obj, "lastSpawnedAt", json_null());
        obj = json_with(obj, "spawnCount", json_integer(0));
        obj = json_with(obj, "cpuCount", json_integer(t->cpu_count));
        obj = json_with(obj, "memoryMB", json_integer(t->memory_mb));
        obj = json_with(obj, "diskSizeMB", json_integer(t->disk_mb));
        obj = json_with(obj, "createdBy", json_null());
        obj = json_with(obj, "buildCount", json_integer(1));
        obj = json_with(obj, "envdVersion", json_string(ENVD_VERSION));
        return json_with(obj, "buildStatus", json_string("ready"));
}

json_t *show_build(const struct build *b)
{
        json_t *obj = json_pack("{s:s,s:s,s:i}", "buildID", b->id, "status", build_status_name(b->status), "number",
                                (int)b->number);

        obj = json_with(obj, "createdAt", show_time(b->created_ns));
        obj = json_with(obj, "updatedAt", show_time(b->updated_ns));
        if (b->finished_ns)
                obj = json_with(obj, "finishedAt", show_time(b->finished_ns));
        obj = json_with(obj, "cpuCount", json_integer(b->cpu_count));
        obj = json_with(obj, "memoryMB", json_integer(b->memory_mb));
        obj = json_with(obj, "diskSizeMB", json_integer(b->disk_mb));
        obj = json_with_ref(obj, "tags", b->tags);
        obj = json_with_text(obj, "envdVersion", b->status == BUILD_READY ? ENVD_VERSION : NULL);
        return json_with_ref(obj, "reason", b->reason);
}
