#include "mcp/protocol/method.h"

#include <string.h>

#include "base/auto.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/versions.h"
#include "mcp/protocol/session.h"
#include "version.h"

static json_t *capabilities(const struct mcp *m)
{
        json_t *can = json_pack("{s:{s:b}}", "tools", "listChanged", 0);

        if (can && m->backend->add_capabilities)
                m->backend->add_capabilities(can);
        return can;
}

json_t *method_initialize(const struct session *s)
{
        json_t *can = capabilities(s->mcp);

        (void)json_object_set_new(can, "logging", json_object());
        return json_pack("{s:s,s:o,s:{s:s,s:s,s:s},s:o}", "protocolVersion", s->version, "capabilities", can,
                         "serverInfo", "name", s->mcp->backend->name, "title", s->mcp->backend->title, "version",
                         SANDGLASS_VERSION, "instructions", s->mcp->backend->instructions(s->mcp));
}

static void discover(struct call *c)
{
        call_result(c, json_pack("{s:o,s:o,s:o}", "supportedVersions", protocol_list(), "capabilities",
                                 capabilities(c->mcp), "instructions", c->mcp->backend->instructions(c->mcp)));
}

static void answer_again(struct call *c) /* a second initialize in a session */
{
        call_error(c, JSONRPC_INVALID_REQUEST, "this session is initialized already");
}

static void ping(struct call *c)
{
        call_result(c, json_object());
}

static void tools_list(struct call *c)
{
        call_result(c, json_pack("{s:o}", "tools", c->mcp->backend->list_tools(c->mcp)));
}

static void tools_call(struct call *c)
{
        const char *name = json_string_value(json_object_get(c->params, "name"));
        json_t *args = json_object_get(c->params, "arguments"), *none = NULL;

        if (!name) {
                call_error(c, JSONRPC_INVALID_PARAMS, "name is missing");
                return;
        }
        if (!args || json_is_null(args))
                args = none = json_object();
        c->mcp->backend->call_tool(c, name, args);
        json_decref(none);
}

static void set_level(struct call *c)
{
        static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                             "error", "critical", "alert",  "emergency"};
        const char *level = json_string_value(json_object_get(c->params, "level"));

        for (size_t i = 0; level && i < ARRAY_LEN(levels); i++)
                if (strcmp(levels[i], level) == 0) {
                        call_result(c, json_object());
                        return;
                }
        call_error(c, JSONRPC_INVALID_PARAMS,
                   "level must be one of debug, info, notice, warning, error, critical, alert, emergency");
}

static const struct method methods[] = {
        {"initialize", METHOD_WITH_SESSION, answer_again},
        {"server/discover", METHOD_WITHOUT_SESSION | METHOD_CACHEABLE, discover},
        {"ping", METHOD_WITH_SESSION, ping},
        {"tools/list", METHOD_WITH_SESSION | METHOD_WITHOUT_SESSION | METHOD_CACHEABLE, tools_list},
        {"tools/call", METHOD_WITH_SESSION | METHOD_WITHOUT_SESSION, tools_call},
        {"logging/setLevel", METHOD_WITH_SESSION, set_level},
        {NULL, 0, NULL},
};

static const struct method *find(const struct method *table, const char *name, unsigned where)
{
        for (; table && table->name; table++)
                if ((table->where & where) && strcmp(table->name, name) == 0)
                        return table;
        return NULL;
}

void method_run(struct call *c, const char *method)
{
        unsigned where = c->session->is_stateless ? METHOD_WITHOUT_SESSION : METHOD_WITH_SESSION;
        const struct method *found = find(methods, method, where);

        if (!found)
                found = find(c->mcp->backend->methods, method, where);
        if (!found) {
                call_error(c, JSONRPC_METHOD_NOT_FOUND, "unknown method: %.100s", method);
                return;
        }
        c->is_cacheable = (found->where & METHOD_CACHEABLE) != 0;
        found->run(c);
}

void method_notified(struct session *s, const char *method, json_t *params)
{
        struct call *c;

        if (s->is_shared) /* ids of several clients are the same: to cancel is to leave */
                return;
        if (strcmp(method, "notifications/initialized") == 0) {
                s->is_initialized = true;
        } else if (strcmp(method, "notifications/cancelled") == 0) {
                json_t *id = json_object_get(params, "requestId");

                c = id ? call_find(s, id) : NULL;
                if (c) /* it may have been answered meanwhile */
                        call_cancel(c);
        }
}
