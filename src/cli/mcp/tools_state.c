/* tools_state.c - tools that keep the state of a sandbox: pause, resume, fork, snapshots, roll back. */
#include <string.h>

#include "base/buf.h"
#include "cli/mcp/platform.h"
#include "cli/mcp/platform_tools.h"

#define TIMEOUT_S 300
#define FORKS_MAX 20
#define STATE_MS 600000u /* a large memory takes its time */

static struct str text_of(struct buf *b)
{
        return (struct str){b->len ? (const char *)buf_at(b) : "", b->len};
}

static void pause_sandbox(struct work *w)
{
        struct sg_error err;

        w->wait.timeout_ms = STATE_MS;
        if (sg_sandbox_pause(w->platform->client, work_id(w), arg_flag(w->args, "files_only"), &w->wait, &err) == 0)
                work_textf(w, NULL, "Sandbox %s is paused (%.3f s). resume_sandbox lets it go on where it was.",
                           work_id(w), work_seconds(w));
        else if (err.kind == SG_CONFLICT)
                work_failed(w, "%s", err.message);
        else
                work_error(w, &err);
}

const struct platform_tool platform_pause_sandbox = {
        .tool = {.name = "pause_sandbox",
                 .title = "Pause a sandbox",
                 .description = "Stop a sandbox and keep its files and its memory: programs go on where they were when "
                                "the sandbox is resumed. A paused sandbox has no end of its own.",
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID
                           ",\"files_only\":{\"type\":\"boolean\",\"description\":\"Keep only the files; programs "
                           "end.\"}},\"required\":[\"sandbox_id\"],\"additionalProperties\":false}",
                 .run = work_start},
        .work = pause_sandbox,
        .is_long = true,
};

static void resume_sandbox(struct work *w)
{
        uint32_t timeout_s = (uint32_t)arg_number(w->args, "timeout_s", TIMEOUT_S);
        struct sg_error err;

        w->wait.timeout_ms = STATE_MS;
        if (sg_sandbox_resume(w->platform->client, work_id(w), timeout_s, &w->wait, &err) < 0)
                work_error(w, &err);
        else
                work_textf(w, NULL, "Sandbox %s runs again (%.3f s), for %u s.", work_id(w), work_seconds(w),
                           timeout_s);
}

const struct platform_tool platform_resume_sandbox = {
        .tool = {.name = "resume_sandbox",
                 .title = "Resume a sandbox",
                 .description = "Let a paused sandbox go on. A running one is given more time.",
                 .hints = TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_TIMEOUT
                           "},\"required\":[\"sandbox_id\"],\"additionalProperties\":false}",
                 .run = work_start},
        .work = resume_sandbox,
        .is_long = true,
};

static void fork_sandbox(struct work *w)
{
        uint32_t count = (uint32_t)arg_number(w->args, "count", 1);
        uint32_t timeout_s = (uint32_t)arg_number(w->args, "timeout_s", TIMEOUT_S);
        AUTO_BUF struct buf text = BUF_INIT(64u << 10);
        struct sg_fork forks[FORKS_MAX] = {0};
        json_t *ids;
        struct sg_error err;

        w->wait.timeout_ms = STATE_MS;
        if (sg_sandbox_fork(w->platform->client, work_id(w), count, timeout_s, &w->wait, forks, &err) < 0) {
                work_error(w, &err);
                return;
        }
        ids = json_array();
        for (uint32_t i = 0; i < count; i++) {
                if (!forks[i].box) {
                        (void)buf_addf(&text, "A copy failed: %s\n", forks[i].error.message);
                        continue;
                }
                work_add_made(w, sg_sandbox_id(forks[i].box));
                (void)json_array_append_new(ids, json_string(sg_sandbox_id(forks[i].box)));
                (void)buf_addf(&text, "%s\n", sg_sandbox_id(forks[i].box));
                sg_sandbox_free(forks[i].box);
        }
        if (json_array_size(ids) == 0) {
                json_decref(ids);
                work_failed(w, "%s", buf_cstr(&text));
                return;
        }
        work_text(w, text_of(&text), json_pack("{s:o}", "sandbox_ids", ids));
}

const struct platform_tool platform_fork_sandbox = {
        .tool = {.name = "fork_sandbox",
                 .title = "Copy a running sandbox",
                 .description = "Make running copies of a sandbox, with its files, its memory and its programs. The "
                                "original goes on. Good for trying several ways from one state.",
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID
                           ",\"count\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":20,\"description\":\"How many "
                           "copies. Default: 1.\"}," SCHEMA_TIMEOUT
                           "},\"required\":[\"sandbox_id\"],\"additionalProperties\":false}",
                 .output = "{\"type\":\"object\",\"properties\":{\"sandbox_ids\":{\"type\":\"array\",\"items\":{"
                           "\"type\":\"string\"}}},\"required\":[\"sandbox_ids\"]}",
                 .run = work_start},
        .work = fork_sandbox,
        .is_long = true,
};

static void snapshot_sandbox(struct work *w)
{
        struct sg_snapshot *made = NULL;
        struct sg_error err;

        w->wait.timeout_ms = STATE_MS;
        if (sg_snapshot_create(w->platform->client, work_id(w), arg_text(w->args, "name", NULL), &w->wait, &made,
                               &err) < 0) {
                work_error(w, &err);
                return;
        }
        work_textf(w, json_pack("{s:s,s:s}", "snapshot_id", made->id, "name", made->name),
                   "Snapshot %s%s%s%s (%.3f s). create_sandbox with this as template starts from it.", made->id,
                   made->name[0] ? " (" : "", made->name, made->name[0] ? ")" : "", work_seconds(w));
        sg_free(made);
}

const struct platform_tool platform_snapshot_sandbox = {
        .tool = {.name = "snapshot_sandbox",
                 .title = "Take a snapshot",
                 .description = "Save the state of a sandbox, files and memory, as something that create_sandbox can "
                                "start from, any number of times. The sandbox goes on.",
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID
                           ",\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":128,\"description\":\"A name "
                           "for the snapshot.\"}},\"required\":[\"sandbox_id\"],\"additionalProperties\":false}",
                 .output = "{\"type\":\"object\",\"properties\":{\"snapshot_id\":{\"type\":\"string\"},\"name\":{"
                           "\"type\":\"string\"}},\"required\":[\"snapshot_id\"]}",
                 .run = work_start},
        .work = snapshot_sandbox,
        .is_long = true,
};

static void list_snapshots(struct work *w)
{
        AUTO_BUF struct buf text = BUF_INIT(1u << 20);
        struct sg_snapshot_list *found = NULL;
        json_t *array;
        struct sg_error err;

        if (sg_snapshot_list(w->platform->client, arg_text(w->args, "sandbox_id", NULL), &w->wait, &found, &err) < 0) {
                work_error(w, &err);
                return;
        }
        array = json_array();
        for (size_t i = 0; i < found->count; i++) {
                (void)buf_addf(&text, "%s  %s\n", found->items[i].id, found->items[i].name);
                (void)json_array_append_new(
                        array, json_pack("{s:s,s:s}", "snapshot_id", found->items[i].id, "name", found->items[i].name));
        }
        if (found->count == 0)
                (void)buf_addc(&text, "No snapshots.");
        sg_free(found);
        work_text(w, text_of(&text), json_pack("{s:o}", "snapshots", array));
}

const struct platform_tool platform_list_snapshots = {
        .tool = {.name = "list_snapshots",
                 .title = "List snapshots",
                 .description = "List the snapshots that were taken, of one sandbox or of all.",
                 .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "},\"additionalProperties\":false}",
                 .output = "{\"type\":\"object\",\"properties\":{\"snapshots\":{\"type\":\"array\",\"items\":{\"type\":"
                           "\"object\"}}},\"required\":[\"snapshots\"]}",
                 .run = work_start},
        .work = list_snapshots,
};

static void delete_snapshot(struct work *w)
{
        const char *id = arg_text(w->args, "snapshot_id", "");
        struct sg_error err;

        if (sg_snapshot_delete(w->platform->client, id, &w->wait, &err) < 0)
                work_error(w, &err);
        else
                work_textf(w, NULL, "Snapshot %s is gone.", id);
}

const struct platform_tool platform_delete_snapshot = {
        .tool = {.name = "delete_snapshot",
                 .title = "Delete a snapshot",
                 .description = "Delete a snapshot. Sandboxes that were started from it go on.",
                 .hints = TOOL_DESTROYS | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{\"snapshot_id\":{\"type\":\"string\",\"minLength\":1,"
                           "\"maxLength\":200}},\"required\":[\"snapshot_id\"],\"additionalProperties\":false}",
                 .run = work_start},
        .work = delete_snapshot,
};

static void rollback_sandbox(struct work *w)
{
        const char *snapshot = arg_text(w->args, "snapshot_id", "");
        struct sg_error err;

        w->wait.timeout_ms = STATE_MS;
        if (sg_sandbox_rollback(w->platform->client, work_id(w), snapshot, &w->wait, &err) < 0)
                work_error(w, &err);
        else
                work_textf(w, NULL, "Sandbox %s is as it was in snapshot %s (%.3f s).", work_id(w), snapshot,
                           work_seconds(w));
}

const struct platform_tool platform_rollback_sandbox = {
        .tool = {.name = "rollback_sandbox",
                 .title = "Take a sandbox back to a snapshot",
                 .description = "Take a sandbox back to one of its own snapshots, files and memory: what it did since "
                                "then is undone.",
                 .hints = TOOL_DESTROYS | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID
                           ",\"snapshot_id\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":200}},\"required\":["
                           "\"sandbox_id\",\"snapshot_id\"],\"additionalProperties\":false}",
                 .run = work_start},
        .work = rollback_sandbox,
        .is_long = true,
};
