#include "agent/api/show.h"

#include <string.h>

#include "model/json_field.h"

const char *agent_show_status(const json_t *shown)
{
        const char *state = json_string_value(json_object_get(shown, "state"));

        return state && strcmp(state, "paused") == 0 ? "paused" : "running";
}

json_t *agent_show_url(const char *id, const char *domain, uint16_t port)
{
        return port ? json_sprintf("https://%u-%s.%s", port, id, domain) : json_sprintf("https://%s.%s", id, domain);
}

static json_t *copy_field(json_t *obj, const char *name, const json_t *shown, const char *from)
{
        json_t *v = json_object_get(shown, from);

        return json_with_ref(obj, name, v && !json_is_null(v) ? v : NULL);
}

json_t *agent_show_sandbox(const json_t *shown)
{
        const char *id = json_string_value(json_object_get(shown, "sandboxID"));
        const char *domain = json_string_value(json_object_get(shown, "domain"));
        json_t *obj = json_pack("{s:s,s:s}", "sandbox_id", id ? id : "", "status", agent_show_status(shown));

        if (id && domain)
                obj = json_with(obj, "url", agent_show_url(id, domain, 0));
        obj = copy_field(obj, "traffic_access_token", shown, "trafficAccessToken");
        obj = copy_field(obj, "created_at", shown, "startedAt");
        obj = copy_field(obj, "ends_at", shown, "endAt");
        obj = copy_field(obj, "user_id", shown, "teamID");
        obj = copy_field(obj, "template_id", shown, "templateID");
        obj = copy_field(obj, "template", shown, "alias");
        obj = copy_field(obj, "cpu", shown, "cpuCount");
        obj = copy_field(obj, "memory_mb", shown, "memoryMB");
        obj = copy_field(obj, "disk_mb", shown, "diskSizeMB");
        return copy_field(obj, "metadata", shown, "metadata");
}

json_t *agent_show_ended(const json_t *end)
{
        const char *id = json_string_value(json_object_get(end, "sandboxID"));
        json_t *obj = json_pack("{s:s,s:s}", "sandbox_id", id ? id : "", "status", "stopped");

        obj = copy_field(obj, "reason", end, "reason");
        obj = copy_field(obj, "created_at", end, "startedAt");
        obj = copy_field(obj, "ended_at", end, "endedAt");
        obj = copy_field(obj, "template_id", end, "templateID");
        obj = copy_field(obj, "template", end, "alias");
        return copy_field(obj, "metadata", end, "metadata");
}
