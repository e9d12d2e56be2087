#include "mcp/protocol/tool.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/schema.h"
#include "mcp/protocol/shorten.h"
#include "wire/base64.h"

#define TEXT_BYTES_MAX (16u << 20)

static bool is_there(const struct tool *t, const struct mcp *m)
{
        return !t->is_there || t->is_there(m);
}

static const struct tool *tool_find(const struct tool_set *set, const struct mcp *m, const char *name)
{
        for (size_t i = 0; i < set->count; i++)
                if (strcmp(set->tools[i]->name, name) == 0 && is_there(set->tools[i], m))
                        return set->tools[i];
        return NULL;
}

static json_t *describe(const struct tool *t)
{
        json_t *schema = json_loads(t->schema, 0, NULL), *output = t->output ? json_loads(t->output, 0, NULL) : NULL;

        return json_pack("{s:s,s:s,s:s,s:o,s:o*,s:{s:b,s:b,s:b,s:b}}", "name", t->name, "title", t->title,
                         "description", t->description, "inputSchema", schema, "outputSchema", output, "annotations",
                         "readOnlyHint", (t->hints & TOOL_READS_ONLY) != 0, "destructiveHint",
                         (t->hints & TOOL_DESTROYS) != 0, "idempotentHint", (t->hints & TOOL_MAY_REPEAT) != 0,
                         "openWorldHint", (t->hints & TOOL_REACHES_OUT) != 0);
}

uint64_t tool_set_there(const struct tool_set *set, const struct mcp *m)
{
        uint64_t there = 0;

        for (size_t i = 0; i < set->count && i < 64; i++)
                there |= (uint64_t)is_there(set->tools[i], m) << i;
        return there;
}

json_t *tool_set_list(const struct tool_set *set, const struct mcp *m)
{
        json_t *list = json_array();

        for (size_t i = 0; i < set->count; i++)
                if (is_there(set->tools[i], m) && json_array_append_new(list, describe(set->tools[i])) < 0) {
                        json_decref(list);
                        return NULL;
                }
        return list;
}

void tool_set_call(const struct tool_set *set, struct call *c, const char *name, json_t *args)
{
        const struct tool *tool = tool_find(set, c->mcp, name);
        struct err err = {0};
        json_t *schema;

        if (!tool) {
                call_error(c, JSONRPC_INVALID_PARAMS, "unknown tool: %.100s", name);
                return;
        }
        schema = json_loads(tool->schema, 0, NULL);
        c->tool = tool;
        if (schema_check(schema, args, &err) < 0)
                tool_failed(c, "%s", err.msg); /* the model can read this and call again */
        else
                tool->run(c, args);
        json_decref(schema);
}

/* ---- results ---- */

json_t *tool_result(json_t *content, json_t *structured, bool is_error)
{
        return json_pack("{s:o,s:o*,s:b}", "content", content, "structuredContent", structured, "isError", is_error);
}

static void finish(struct call *c, json_t *content, json_t *structured, bool is_error)
{
        call_result(c, tool_result(json_pack("[o]", content), structured, is_error));
}

json_t *tool_text_content(struct str text)
{
        AUTO_BUF struct buf clean = BUF_INIT(3 * TEXT_BYTES_MAX);

        if (text_clean(text, &clean) < 0)
                return json_pack("{s:s,s:s}", "type", "text", "text", "[the text is too long]");
        return json_pack("{s:s,s:s%}", "type", "text", "text", clean.len ? (const char *)buf_at(&clean) : "",
                         clean.len);
}

void tool_text(struct call *c, struct str text, json_t *structured)
{
        finish(c, tool_text_content(text), structured, false);
}

void tool_textf(struct call *c, json_t *structured, const char *fmt, ...)
{
        char text[2048];
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        tool_text(c, str_of(text), structured);
}

void tool_failed(struct call *c, const char *fmt, ...)
{
        char text[2048];
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        finish(c, tool_text_content(str_of(text)), NULL, true);
}

json_t *tool_image_content(const char *mime, struct str bytes)
{
        AUTO_BUF struct buf text = BUF_INIT(BASE64_LEN(bytes.n));

        if (base64_add(&text, bytes.p, bytes.n, true) < 0)
                return NULL;
        return json_pack("{s:s,s:s%,s:s}", "type", "image", "data", (const char *)buf_at(&text), text.len, "mimeType",
                         mime);
}

void tool_image(struct call *c, const char *mime, struct str bytes, const char *caption)
{
        json_t *image = tool_image_content(mime, bytes);

        call_result(c, image ? tool_result(json_pack("[o,o]", image, tool_text_content(str_of(caption))), NULL, false)
                             : NULL);
}

const char *tool_picture_type(struct str head)
{
        if (str_starts(head, "\x89PNG\r\n\x1a\n"))
                return "image/png";
        if (str_starts(head, "\xff\xd8\xff"))
                return "image/jpeg";
        if (str_starts(head, "GIF87a") || str_starts(head, "GIF89a"))
                return "image/gif";
        return head.n > 12 && memcmp(head.p, "RIFF", 4) == 0 && memcmp(head.p + 8, "WEBP", 4) == 0 ? "image/webp"
                                                                                                   : NULL;
}

/* ---- arguments ---- */

const char *arg_text(const json_t *args, const char *name, const char *otherwise)
{
        const char *value = json_string_value(json_object_get(args, name));

        return value ? value : otherwise;
}

json_int_t arg_number(const json_t *args, const char *name, json_int_t otherwise)
{
        const json_t *value = json_object_get(args, name);

        return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

bool arg_flag(const json_t *args, const char *name)
{
        return json_is_true(json_object_get(args, name));
}
