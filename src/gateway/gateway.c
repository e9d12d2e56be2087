#include "gateway/gateway.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "gateway/catalogue.h"
#include "gateway/tool_names.h"
#include "gateway/upstream.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/session.h"
#include "mcp/tools/program.h"

#define TELL_MS 200u /* a server that crashes and is back at once is one change */

struct gateway {
        struct list upstreams;
        struct tool_names names;
        struct timer tell; /* armed: sessions are to hear that the list has changed */
        struct mcp *mcp;
        struct gateway_options opt; /* without config */
};

static struct gateway *of(const struct mcp *m)
{
        return m->user;
}

/* ---- tools ---- */

/* Those of servers that do not run have names, too: nobody else is to get them. */
static void name_tools(struct gateway *g)
{
        const char *own;
        json_t *tool;

        LIST_EACH (at, &g->upstreams) {
                struct upstream *u = LIST_ENTRY(at, struct upstream, node);

                json_object_foreach (u->tools, own, tool) {
                        (void)tool;
                        (void)tool_names_add(&g->names, u->name, own); /* a tool without a name is not listed */
                }
        }
        (void)tool_names_give(&g->names);
}

static void list_those_of(const struct gateway *g, const struct upstream *u, json_t *list)
{
        const char *own, *name;
        json_t *tool, *shown;

        json_object_foreach (u->tools, own, tool) {
                name = tool_names_of(&g->names, u->name, own);
                if (!name)
                        continue;
                shown = json_copy(tool);
                (void)json_object_set_new(shown, "name", json_string(name));
                (void)json_array_append_new(list, shown);
        }
}

static json_t *list_tools(const struct mcp *m)
{
        struct gateway *g = of(m);
        json_t *list = json_array();

        name_tools(g);
        LIST_EACH (at, &g->upstreams) {
                struct upstream *u = LIST_ENTRY(at, struct upstream, node);

                if (list && u->state == UPSTREAM_READY)
                        list_those_of(g, u, list);
        }
        return list;
}

static void call_tool(struct call *c, const char *name, json_t *args)
{
        struct gateway *g = of(c->mcp);
        const struct tool_name *found = tool_names_find(&g->names, name);

        if (!found) {
                name_tools(g); /* a client may know its tools from before */
                found = tool_names_find(&g->names, name);
        }
        LIST_EACH (at, &g->upstreams) {
                struct upstream *u = LIST_ENTRY(at, struct upstream, node);

                if (found && strcmp(u->name, found->server) == 0) {
                        upstream_call(u, c, found->own, args);
                        return;
                }
        }
        call_error(c, JSONRPC_INVALID_PARAMS, "unknown tool: %.100s", name);
}

static void tell_sessions(struct timer *t)
{
        struct gateway *g = CONTAINER_OF(t, struct gateway, tell);

        sessions_tell_tools(g->mcp);
}

static void add_capabilities(json_t *can)
{
        (void)json_object_set_new(json_object_get(can, "tools"), "listChanged", json_true());
}

/* ---- what the gateway says of itself ---- */

void gateway_describe(const struct mcp *m, struct buf *out)
{
        LIST_EACH (at, &of(m)->upstreams) {
                const struct upstream *u = LIST_ENTRY(at, struct upstream, node);

                if (u->state == UPSTREAM_FAILED)
                        (void)buf_addf(out, "%s: failed: %s\n", u->name, u->reason);
                else if (u->state == UPSTREAM_STARTING)
                        (void)buf_addf(out, "%s: is starting\n", u->name);
                else
                        (void)buf_addf(out, "%s: %zu tools\n", u->name, json_object_size(u->tools));
        }
}

static json_t *instructions(const struct mcp *m)
{
        AUTO_BUF struct buf text = BUF_INIT(1u << 20);

        (void)buf_addc(&text, "The tools of several servers.\n");
        gateway_describe(m, &text);
        return json_stringn((const char *)buf_at(&text), text.len);
}

const struct mcp_backend gateway_backend = {.name = "sandglass-gateway",
                                            .title = "Sandglass MCP gateway",
                                            .instructions = instructions,
                                            .list_tools = list_tools,
                                            .call_tool = call_tool,
                                            .add_capabilities = add_capabilities,
                                            .on_child = program_reap};

bool gateway_is_settled(const struct mcp *m)
{
        LIST_EACH (at, &of(m)->upstreams)
                if (LIST_ENTRY(at, struct upstream, node)->state == UPSTREAM_STARTING)
                        return false;
        return true;
}

/* ---- the servers ---- */

static void on_change(struct upstream *u, bool tools_changed)
{
        struct mcp *m = u->arg;

        if (tools_changed && !timer_is_armed(&of(m)->tell))
                timer_set(m->loop, &of(m)->tell, TELL_MS);
        if (gateway_is_settled(m) && of(m)->opt.on_settled)
                of(m)->opt.on_settled(of(m)->opt.arg);
}

static struct upstream *make_upstream(struct mcp *m, const char *name, const json_t *config,
                                      const struct gateway_options *opt)
{
        struct launch launch = {0};
        struct err err = {0};

        if (catalogue_launch(name, config, opt->install_dir, opt->github_url, &launch, &err) < 0)
                return upstream_failed(m->loop, name, err.msg);
        return upstream_create(m->loop, name, &launch, on_change, m);
}

int gateway_start(struct mcp *m, const struct gateway_options *opt, struct err *err)
{
        struct gateway *g = calloc(1, sizeof(*g));
        const char *name;
        json_t *config;

        if (!g)
                return err_sys(err, -ENOMEM, "start the gateway");
        g->opt = *opt;
        g->opt.config = NULL;
        g->mcp = m;
        g->tell.on = tell_sessions;
        list_init(&g->upstreams);
        tool_names_init(&g->names);
        m->user = g;
        json_object_foreach ((json_t *)(uintptr_t)opt->config, name, config) {
                struct upstream *u = make_upstream(m, name, config, opt);

                if (!u)
                        return err_sys(err, -ENOMEM, "start %s", name);
                list_push_back(&g->upstreams, &u->node);
        }
        LIST_EACH (at, &g->upstreams) {
                struct upstream *u = LIST_ENTRY(at, struct upstream, node);

                if (u->state == UPSTREAM_STARTING)
                        upstream_start(u);
        }
        return 0;
}

void gateway_stop(struct mcp *m)
{
        struct gateway *g = of(m);

        if (!g)
                return;
        while (!list_is_empty(&g->upstreams))
                (void)upstream_free(LIST_ENTRY(g->upstreams.next, struct upstream, node));
        timer_clear(&g->tell);
        tool_names_done(&g->names);
        free(g);
        m->user = NULL;
}
