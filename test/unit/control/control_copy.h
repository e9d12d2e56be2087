/* control_copy.h - what tests of snapshots and forks share, on top of control_life.h. */
#pragma once
#include "control_life.h"

__attribute__((unused)) static const char *snapshot_id(void)
{
        return text_at("snapshotID");
}

__attribute__((unused)) static bool take_snapshot(const char *id, const char *body, char out[160])
{
        if (ask("POST", path_of(id, "/snapshots"), body) != 201 || !snapshot_id())
                return false;
        (void)snprintf(out, 160, "%s", snapshot_id());
        return true;
}

__attribute__((unused)) static unsigned delete_template(const char *encoded)
{
        char path[200];

        (void)snprintf(path, sizeof(path), "/templates/%s", encoded);
        return ask("DELETE", path, NULL);
}

__attribute__((unused)) static unsigned create_from(const char *snapshot)
{
        char body[256];

        (void)snprintf(body, sizeof(body), "{\"templateID\":\"%s\",\"envVars\":{\"C\":\"d\"}}", snapshot);
        return ask("POST", "/v2/sandboxes", body);
}

__attribute__((unused)) static unsigned roll_back(const char *id, const char *snapshot)
{
        char body[256];

        (void)snprintf(body, sizeof(body), "{\"snapshotID\":\"%s\"}", snapshot);
        return ask("POST", path_of(id, "/rollback"), body);
}

__attribute__((unused)) static unsigned fork_it(const char *id, const char *body)
{
        return ask("POST", path_of(id, "/fork"), body);
}

__attribute__((unused)) static const char *forked(size_t i)
{
        return json_string_value(
                json_object_get(json_object_get(json_array_get(last.json, i), "sandbox"), "sandboxID"));
}

__attribute__((unused)) static bool engine_is_quiet(void *arg) /* nothing asked that is not answered */
{
        (void)arg;
        return rig.control.engine.state == ENGINE_UP && rig.control.engine.call_count == 0 &&
               !durable_is_waiting(&rig.control.refs.flushed) && list_is_empty(&rig.control.refs.unused);
}
