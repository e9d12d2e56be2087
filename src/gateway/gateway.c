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
#include "mcp/tools/program.h"

struct gateway {
        struct list upstreams;
        struct gateway_options opt; /* without config */
};

/* All tools of the servers that run, with their names; upstream_of says whose each one is. */
struct tool_table {
        struct named_tool *tools;
        struct upstream **upstream_of;
        json_t **json; /* borrowed from the upstreams */
        size_t count;
};

static struct gateway *of(const struct mcp *m)
{
        return m->user;
}

static void table_done(struct tool_table *t)
{
        free(t->tools);
        free(t->upstream_of);
        free(t->json);
}

static int table_make(const struct gateway *g, struct tool_table *ret)
{
        struct tool_table t = {0};
        size_t n = 0, i;
        json_t *one;

        LIST_EACH (at, &g->upstreams)
                n += json_array_size(LIST_ENTRY(at, struct upstream, node)->tools);
        t.tools = calloc(n + 1, sizeof(*t.tools));
        t.upstream_of = calloc(n + 1, sizeof(*t.upstream_of));
        t.json = calloc(n + 1, sizeof(*t.json));
        if (!t.tools || !t.upstream_of || !t.json) {
                table_done(&t);
                return -ENOMEM;
        }
        LIST_EACH (at, &g->upstreams) {
                struct upstream *u = LIST_ENTRY(at, struct upstream, node);

                if (u->state != UPSTREAM_READY)
                        continue;
                json_array_foreach (u->tools, i, one) {
                        t.tools[t.count] = (struct named_tool){.server = u->name,
                                                               .tool = json_string_value(json_object_get(one, "name"))};
                        t.upstream_of[t.count] = u;
                        t.json[t.count++] = one;
                }
        }
        if (tool_names_make(t.tools, t.count) < 0) {
                table_done(&t);
                return -ENOMEM;
        }
        *ret = t;
        return 0;
}

static json_t *list_tools(const struct mcp *m)
{
        struct tool_table t;
        json_t *list = json_array();

        if (table_make(of(m), &t) < 0) {
                json_decref(list);
                return NULL;
        }
        for (size_t i = 0; i < t.count; i++) {
                json_t *tool = json_copy(t.json[i]);

                (void)json_object_set_new(tool, "name", json_string(t.tools[i].name));
                (void)json_array_append_new(list, tool);
        }
        table_done(&t);
        return list;
}

static void call_tool(struct call *c, const char *name, json_t *args)
{
        struct tool_table t;
        size_t at = 0;

        if (table_make(of(c->mcp), &t) < 0) {
                call_error(c, JSONRPC_INTERNAL_ERROR, "out of memory");
                return;
        }
        while (at < t.count && strcmp(t.tools[at].name, name) != 0)
                at++;
        if (at < t.count)
                upstream_call(t.upstream_of[at], c, t.tools[at].tool, args);
        else
                call_error(c, JSONRPC_INVALID_PARAMS, "unknown tool: %.100s", name);
        table_done(&t);
}

void gateway_describe(const struct mcp *m, struct buf *out)
{
        LIST_EACH (at, &of(m)->upstreams) {
                const struct upstream *u = LIST_ENTRY(at, struct upstream, node);

                if (u->state == UPSTREAM_FAILED)
                        (void)buf_addf(out, "%s: failed: %s\n", u->name, u->reason);
                else if (u->state == UPSTREAM_STARTING)
                        (void)buf_addf(out, "%s: is starting\n", u->name);
                else
                        (void)buf_addf(out, "%s: %zu tools\n", u->name, json_array_size(u->tools));
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
                                            .on_child = program_reap};

bool gateway_is_settled(const struct mcp *m)
{
        LIST_EACH (at, &of(m)->upstreams)
                if (LIST_ENTRY(at, struct upstream, node)->state == UPSTREAM_STARTING)
                        return false;
        return true;
}

static void on_change(void *arg)
{
        struct mcp *m = arg;

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
        list_init(&g->upstreams);
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

        while (g && !list_is_empty(&g->upstreams))
                (void)upstream_free(LIST_ENTRY(g->upstreams.next, struct upstream, node));
        free(g);
        m->user = NULL;
}
