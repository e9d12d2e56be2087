#include "mcp/tools/sandbox_tools.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "io/loop.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/session.h"
#include "mcp/protocol/stream.h"
#include "mcp/protocol/tool.h"
#include "mcp/tools/program.h"
#include "mcp/tools/resources.h"
#include "mcp/tools/workbench.h"

static const struct tool *const tools[] = {
        &tool_run_command,    &tool_start_command, &tool_read_command, &tool_write_command, &tool_kill_command,
        &tool_list_commands,  &tool_read_file,     &tool_write_file,   &tool_edit_file,     &tool_apply_patch,
        &tool_list_directory, &tool_glob,          &tool_grep,         &tool_move,          &tool_delete,
        &tool_watch,          &tool_preview_url,   &tool_list_ports,   &tool_run_code,      &tool_screenshot,
        &tool_click,          &tool_type,
};
static const struct tool_set set = {tools, ARRAY_LEN(tools)};

#define LOOK_MS 2000u /* while a client listens: a port that opens and a program that is installed tell nobody */

struct sandbox_tools {
        struct mcp *mcp;
        uint64_t there; /* the tools that were there at the last look */
        bool has_looked;
        struct timer look;
};

static bool look(struct sandbox_tools *st)
{
        uint64_t there = tool_set_there(&set, st->mcp);
        bool is_news = st->has_looked && there != st->there;

        st->there = there;
        st->has_looked = true;
        return is_news;
}

static bool somebody_listens(const struct mcp *m)
{
        LIST_EACH (at, &m->session_order)
                if (stream_standalone(LIST_ENTRY(at, struct session, node)))
                        return true;
        return false;
}

static void on_look(struct timer *t)
{
        struct sandbox_tools *st = CONTAINER_OF(t, struct sandbox_tools, look);

        if (!somebody_listens(st->mcp))
                return;
        timer_set(st->mcp->loop, &st->look, LOOK_MS);
        if (look(st))
                sessions_tell_tools(st->mcp);
}

int sandbox_tools_start(struct mcp *m)
{
        struct sandbox_tools *st = calloc(1, sizeof(*st));

        if (!st)
                return -ENOMEM;
        st->mcp = m;
        st->look.on = on_look;
        m->user = st;
        return 0;
}

void sandbox_tools_stop(struct mcp *m)
{
        struct sandbox_tools *st = m->user;

        if (!st)
                return;
        timer_clear(&st->look);
        free(st);
        m->user = NULL;
}

static void session_listens(struct session *s)
{
        struct sandbox_tools *st = s->mcp->user;

        session_watches_listen(s);
        if (!timer_is_armed(&st->look))
                timer_set(st->mcp->loop, &st->look, LOOK_MS);
}

static json_t *instructions(const struct mcp *m)
{
        (void)m;
        return json_string("Tools for a Linux sandbox of your own. run_command has a shell that keeps its directory "
                           "and variables. Use "
                           "start_command for servers, and preview_url for the address of a port. Relative paths begin "
                           "in the workspace.");
}

static json_t *list_tools(const struct mcp *m)
{
        struct sandbox_tools *st = m->user;

        if (look(st)) /* the others know an older list */
                sessions_tell_tools(st->mcp);
        return tool_set_list(&set, m);
}

static void call_tool(struct call *c, const char *name, json_t *args)
{
        tool_set_call(&set, c, name, args);
}

static void add_capabilities(json_t *can)
{
        (void)json_object_set_new(json_object_get(can, "tools"), "listChanged", json_true());
        (void)json_object_set_new(can, "resources", json_pack("{s:b,s:b}", "subscribe", 1, "listChanged", 0));
}

const struct mcp_backend sandbox_backend = {.name = "sandglass",
                                            .title = "Sandglass sandbox",
                                            .instructions = instructions,
                                            .list_tools = list_tools,
                                            .call_tool = call_tool,
                                            .methods = resources_methods,
                                            .add_capabilities = add_capabilities,
                                            .session_is_busy = workbench_is_busy,
                                            .session_listens = session_listens,
                                            .session_rests = workbench_rest,
                                            .session_ended = workbench_end,
                                            .on_child = program_reap};
