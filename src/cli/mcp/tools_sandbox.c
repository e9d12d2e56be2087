/* tools_sandbox.c - tools that make, find, describe and end sandboxes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "cli/mcp/pairs.h"
#include "cli/mcp/platform.h"
#include "cli/mcp/platform_tools.h"

#define LISTED 100
#define TIMEOUT_S 300

static const char *state_name(enum sg_state state)
{
        return state == SG_STATE_RUNNING ? "running" : state == SG_STATE_PAUSED ? "paused" : "changing";
}

static json_int_t seconds_left(const struct sg_info *i)
{
        int64_t ms = i->ends_ms - clock_real_ns() / 1000000;

        return i->state == SG_STATE_RUNNING && i->ends_ms && ms > 0 ? ms / 1000 : 0;
}

static json_t *describe(const struct sg_info *i)
{
        return json_pack("{s:s,s:s,s:s,s:I,s:I,s:I,s:o}", "sandbox_id", i->id, "template",
                         i->alias[0] ? i->alias : i->template_id, "state", state_name(i->state), "seconds_left",
                         seconds_left(i), "cpus", (json_int_t)i->cpu_count, "memory_mb", (json_int_t)i->memory_mib,
                         "metadata", pairs_to_json(i->metadata));
}

static void add_line(struct buf *text, const struct sg_info *i)
{
        (void)buf_addf(text, "%s  %s  %s", i->id, i->alias[0] ? i->alias : i->template_id, state_name(i->state));
        if (i->state == SG_STATE_RUNNING)
                (void)buf_addf(text, ", ends in %lld s", (long long)seconds_left(i));
        for (const struct sg_pair *p = i->metadata; p->name; p++)
                (void)buf_addf(text, "  %s=%s", p->name, p->value);
        (void)buf_addc(text, "\n");
}

static struct str text_of(struct buf *b)
{
        return (struct str){b->len ? (const char *)buf_at(b) : "", b->len};
}

/* ---- create ---- */

static void create(struct work *w)
{
        AUTO_FREE struct sg_pair *env = NULL, *metadata = NULL;
        const char *template = arg_text(w->args, "template", "base");
        uint32_t timeout_s = (uint32_t)arg_number(w->args, "timeout_s", TIMEOUT_S);
        const json_t *internet = json_object_get(w->args, "internet");
        struct sg_create_options opt = {.template_name = template,
                                        .timeout_s = timeout_s,
                                        .pauses_at_end = arg_flag(w->args, "auto_pause") ? SG_YES : SG_DEFAULT,
                                        .internet = !internet                ? SG_DEFAULT
                                                    : json_is_true(internet) ? SG_YES
                                                                             : SG_NO};
        struct sg_sandbox *box = NULL;
        struct sg_error err;

        if (pairs_of(json_object_get(w->args, "env"), &env) < 0 ||
            pairs_of(json_object_get(w->args, "metadata"), &metadata) < 0) {
                work_failed(w, "out of memory");
                return;
        }
        opt.env = env;
        opt.metadata = metadata;
        if (sg_sandbox_create(w->platform->client, &opt, &w->wait, &box, &err) < 0) {
                work_error(w, &err);
                return;
        }
        work_add_made(w, sg_sandbox_id(box));
        work_textf(w,
                   json_pack("{s:s,s:s,s:i}", "sandbox_id", sg_sandbox_id(box), "template", template, "timeout_s",
                             (int)timeout_s),
                   "Sandbox %s runs, made from %s in %.3f s. It %s in %u s: set_timeout gives it more time.",
                   sg_sandbox_id(box), template, work_seconds(w),
                   arg_flag(w->args, "auto_pause") ? "is paused" : "ends", timeout_s);
        sg_sandbox_free(box);
}

const struct platform_tool platform_create_sandbox = {
        .tool = {.name = "create_sandbox",
                 .title = "Create a sandbox",
                 .description = "Start a new Linux sandbox: a computer of its own for commands, code, files and "
                                "servers. Returns its id, which the other tools need.",
                 .schema = "{\"type\":\"object\",\"properties\":{"
                           "\"template\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":200,\"description\":\"What "
                           "the sandbox starts from: a template (list_templates) or a snapshot (list_snapshots). "
                           "code-interpreter-v1 is needed for run_code. Default: base.\"}," SCHEMA_TIMEOUT ","
                           "\"auto_pause\":{\"type\":\"boolean\",\"description\":\"When its time is up, pause the "
                           "sandbox instead of ending it.\"},"
                           "\"internet\":{\"type\":\"boolean\",\"description\":\"May the sandbox connect to the "
                           "internet? Default: as the server is set up.\"},"
                           "\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
                           "\"description\":\"Variables for everything in the sandbox.\"},"
                           "\"metadata\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
                           "\"description\":\"Texts that list_sandboxes shows.\"}},"
                           "\"additionalProperties\":false}",
                 .output = "{\"type\":\"object\",\"properties\":{\"sandbox_id\":{\"type\":\"string\"},\"template\":{"
                           "\"type\":\"string\"},\"timeout_s\":{\"type\":\"integer\"}},\"required\":[\"sandbox_id\"]}",
                 .run = work_start},
        .work = create,
        .is_long = true,
};

/* ---- find ---- */

static void list(struct work *w)
{
        AUTO_FREE struct sg_pair *metadata = NULL;
        const char *state = arg_text(w->args, "state", "all");
        struct sg_list_options opt = {.only_running = strcmp(state, "running") == 0,
                                      .only_paused = strcmp(state, "paused") == 0,
                                      .max = (size_t)arg_number(w->args, "limit", LISTED)};
        AUTO_BUF struct buf text = BUF_INIT(4u << 20);
        struct sg_info_list *found = NULL;
        json_t *array = json_array();
        struct sg_error err;
        size_t most = opt.max;

        opt.max++; /* to know whether there are more */
        if (pairs_of(json_object_get(w->args, "metadata"), &metadata) < 0) {
                json_decref(array);
                work_failed(w, "out of memory");
                return;
        }
        opt.metadata = metadata;
        if (sg_sandbox_list(w->platform->client, &opt, &w->wait, &found, &err) < 0) {
                json_decref(array);
                work_error(w, &err);
                return;
        }
        for (size_t i = 0; i < found->count && i < most; i++) {
                add_line(&text, &found->items[i]);
                (void)json_array_append_new(array, describe(&found->items[i]));
        }
        if (found->count > most)
                (void)buf_addc(&text, "[there are more: raise `limit`, or ask for metadata]\n");
        if (found->count == 0)
                (void)buf_addc(&text, "No sandboxes.");
        work_text(w, text_of(&text), json_pack("{s:o,s:b}", "sandboxes", array, "has_more", found->count > most));
        sg_free(found);
}

const struct platform_tool platform_list_sandboxes = {
        .tool = {.name = "list_sandboxes",
                 .title = "List sandboxes",
                 .description = "List the sandboxes that run or are paused.",
                 .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{\"state\":{\"type\":\"string\",\"enum\":[\"all\","
                           "\"running\",\"paused\"],\"description\":\"Default: all.\"},"
                           "\"metadata\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
                           "\"description\":\"Only sandboxes with these texts.\"},"
                           "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000,\"description\":\"How many "
                           "at most. Default: 100.\"}},\"additionalProperties\":false}",
                 .output = "{\"type\":\"object\",\"properties\":{\"sandboxes\":{\"type\":\"array\",\"items\":{\"type\":"
                           "\"object\"}},\"has_more\":{\"type\":\"boolean\"}},\"required\":[\"sandboxes\"]}",
                 .run = work_start},
        .work = list,
};

static void get(struct work *w)
{
        AUTO_BUF struct buf text = BUF_INIT(1u << 20);
        struct sg_info *info = NULL;
        struct sg_error err;

        if (sg_sandbox_get(w->platform->client, work_id(w), &w->wait, &info, &err) < 0) {
                work_error(w, &err);
                return;
        }
        add_line(&text, info);
        (void)buf_addf(&text, "%u processors, %u MiB of memory, %u MiB of disk\n", info->cpu_count, info->memory_mib,
                       info->disk_mib);
        work_text(w, text_of(&text), describe(info));
        sg_free(info);
}

const struct platform_tool platform_get_sandbox = {
        .tool = {.name = "get_sandbox",
                 .title = "Describe a sandbox",
                 .description =
                         "Say whether a sandbox runs or is paused, how long it has left, and what it is made of.",
                 .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
                 .schema = SCHEMA_ONLY_ID,
                 .output = "{\"type\":\"object\",\"properties\":{\"sandbox_id\":{\"type\":\"string\"},\"state\":{"
                           "\"type\":\"string\"},\"seconds_left\":{\"type\":\"integer\"}},\"required\":["
                           "\"sandbox_id\",\"state\"]}",
                 .run = work_start},
        .work = get,
};

static const char *template_name(const json_t *t)
{
        const char *name = json_string_value(json_array_get(json_object_get(t, "names"), 0));

        if (!name)
                name = json_string_value(json_array_get(json_object_get(t, "aliases"), 0));
        return name ? name : json_string_value(json_object_get(t, "templateID"));
}

static void list_templates(struct work *w)
{
        AUTO_BUF struct buf text = BUF_INIT(1u << 20);
        struct sg_answer *answer = NULL;
        json_t *found, *names = json_array(), *one;
        struct sg_error err;
        size_t i;

        if (sg_request(w->platform->client, "GET", "/templates", NULL, NULL, &w->wait, &answer, &err) < 0) {
                json_decref(names);
                work_error(w, &err);
                return;
        }
        found = json_loadb(answer->body, answer->body_len, 0, NULL);
        json_array_foreach (found, i, one) {
                const char *name = template_name(one);

                if (!name)
                        continue;
                (void)json_array_append_new(names, json_string(name));
                (void)buf_addf(&text, "%s  %lld processors, %lld MiB\n", name,
                               (long long)json_integer_value(json_object_get(one, "cpuCount")),
                               (long long)json_integer_value(json_object_get(one, "memoryMB")));
        }
        if (text.len == 0)
                (void)buf_addc(&text, "No templates beside those that come with the server (base).");
        json_decref(found);
        sg_free(answer);
        work_text(w, text_of(&text), json_pack("{s:o}", "templates", names));
}

const struct platform_tool platform_list_templates = {
        .tool = {.name = "list_templates",
                 .title = "List templates",
                 .description = "List the templates that sandboxes can be created from.",
                 .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}",
                 .output = "{\"type\":\"object\",\"properties\":{\"templates\":{\"type\":\"array\",\"items\":{\"type\":"
                           "\"string\"}}},\"required\":[\"templates\"]}",
                 .run = work_start},
        .work = list_templates,
};

/* ---- use and end ---- */

static bool listens(struct sg_sandbox *box, unsigned port, struct work *w)
{
        struct sg_result *found = NULL;
        char script[200];
        bool is;

        (void)snprintf(script, sizeof(script),
                       "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ':%04X [0-9A-F]*:0000 0A'", port);
        is = sg_run(box, script, NULL, &w->wait, &found, NULL) == 0 && found->exit_code == 0;
        sg_free(found);
        return is;
}

static void preview_url(struct work *w)
{
        json_int_t port = arg_number(w->args, "port", 0);
        struct sg_sandbox *box = work_open(w);
        struct sg_error err;
        char *url = NULL;
        bool is_there;

        if (!box)
                return;
        if (sg_sandbox_url(box, (uint16_t)port, &url, &err) < 0) {
                work_error(w, &err);
        } else {
                is_there = listens(box, (unsigned)port, w);
                work_textf(w, json_pack("{s:s,s:b}", "url", url, "listening", is_there), "%s%s%s", url,
                           is_there ? "" : "\nNothing listens on this port yet.",
                           sg_sandbox_traffic_token(box)[0]
                                   ? "\nRequests need the header e2b-traffic-access-token with the sandbox's token."
                                   : "");
        }
        sg_free(url);
        sg_sandbox_free(box);
}

const struct platform_tool platform_preview_url = {
        .tool = {.name = "preview_url",
                 .title = "Address of a port",
                 .description = "Return the address by which a server in the sandbox, on this port, is reached from "
                                "outside, and say whether something listens there.",
                 .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID
                           ",\"port\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":65535}},\"required\":["
                           "\"sandbox_id\",\"port\"],\"additionalProperties\":false}",
                 .output = "{\"type\":\"object\",\"properties\":{\"url\":{\"type\":\"string\"},\"listening\":{\"type\":"
                           "\"boolean\"}},\"required\":[\"url\",\"listening\"]}",
                 .run = work_start},
        .work = preview_url,
};

static void set_timeout(struct work *w)
{
        uint32_t timeout_s = (uint32_t)arg_number(w->args, "timeout_s", TIMEOUT_S);
        struct sg_error err;

        if (sg_sandbox_set_timeout(w->platform->client, work_id(w), timeout_s, &w->wait, &err) < 0)
                work_error(w, &err);
        else
                work_textf(w, NULL, "Sandbox %s ends in %u s.", work_id(w), timeout_s);
}

const struct platform_tool platform_set_timeout = {
        .tool = {.name = "set_timeout",
                 .title = "Set how long a sandbox lives",
                 .description = "Set how many seconds from now the sandbox goes on, more or fewer than before.",
                 .hints = TOOL_MAY_REPEAT,
                 .schema = "{\"type\":\"object\",\"properties\":{" SCHEMA_ID "," SCHEMA_TIMEOUT
                           "},\"required\":[\"sandbox_id\",\"timeout_s\"],\"additionalProperties\":false}",
                 .run = work_start},
        .work = set_timeout,
};

static void kill_sandbox(struct work *w)
{
        struct sg_error err;
        int r = sg_sandbox_kill(w->platform->client, work_id(w), &w->wait, &err);

        if (r == 0 || err.kind == SG_NOT_FOUND)
                w->killed = strdup(work_id(w));
        if (r < 0)
                work_error(w, &err);
        else
                work_textf(w, NULL, "Sandbox %s has ended; its files are gone.", work_id(w));
}

const struct platform_tool platform_kill_sandbox = {
        .tool = {.name = "kill_sandbox",
                 .title = "End a sandbox",
                 .description = "End a sandbox, running or paused, for good: its processes and files are gone.",
                 .hints = TOOL_DESTROYS | TOOL_MAY_REPEAT,
                 .schema = SCHEMA_ONLY_ID,
                 .run = work_start},
        .work = kill_sandbox,
};
