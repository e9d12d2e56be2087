#include "mcp/content/code_output.h"

#include <errno.h>

#include "base/buf.h"
#include "mcp/protocol/tool.h"

void code_output_init(struct code_output *c)
{
        *c = (struct code_output){.pictures = json_array()};
        shortened_init(&c->text, CODE_TEXT_BYTES);
}

void code_output_done(struct code_output *c)
{
        shortened_done(&c->text);
        json_decref(c->pictures);
        c->pictures = NULL;
}

int code_output_add(struct code_output *c, struct str text)
{
        return text.n ? shortened_add(&c->text, text) : 0;
}

static int add_line(struct code_output *c, struct str text)
{
        int r = code_output_add(c, text);

        return r < 0 ? r : code_output_add(c, STR("\n"));
}

static void add_picture(struct code_output *c, const char *mime, json_t *data)
{
        size_t n = json_string_length(data);

        if (!json_is_string(data))
                return;
        if (json_array_size(c->pictures) >= CODE_PICTURES_MAX || n > CODE_PICTURE_BYTES_MAX - c->picture_bytes) {
                c->pictures_left_out++;
                return;
        }
        c->picture_bytes += n;
        (void)json_array_append_new(c->pictures,
                                    json_pack("{s:s,s:O,s:s}", "type", "image", "data", data, "mimeType", mime));
}

int code_output_add_result(struct code_output *c, const struct code_result *result)
{
        const json_t *const texts[] = {result->text, result->markdown, result->latex, result->json};
        int r = 0;

        for (size_t i = 0; i < ARRAY_LEN(texts) && r == 0; i++) {
                if (!texts[i] || json_is_null(texts[i]))
                        continue;
                if (json_is_string(texts[i])) {
                        r = add_line(c, (struct str){json_string_value(texts[i]), json_string_length(texts[i])});
                } else {
                        AUTO_FREE char *text = json_dumps(texts[i], JSON_COMPACT | JSON_ENCODE_ANY);

                        r = text ? add_line(c, str_of(text)) : -ENOMEM;
                }
                break;
        }
        add_picture(c, "image/png", result->png);
        add_picture(c, "image/jpeg", result->jpeg);
        return r;
}

int code_output_add_error(struct code_output *c, struct str name, struct str value, struct str traceback)
{
        int r = code_output_add(c, name);

        c->has_failed = true;
        if (r == 0)
                r = code_output_add(c, STR(": "));
        if (r == 0)
                r = add_line(c, value);
        return r < 0 ? r : code_output_add(c, traceback);
}

int code_output_add_failure(struct code_output *c, const char *words)
{
        int r = code_output_add(c, STR("["));

        c->has_failed = true;
        if (r == 0)
                r = code_output_add(c, str_of(words));
        return r < 0 ? r : code_output_add(c, STR("]\n"));
}

json_t *code_output_result(const struct code_output *c, double seconds, unsigned stopped_after_s)
{
        AUTO_BUF struct buf text = BUF_INIT(8 * CODE_TEXT_BYTES);
        json_t *content = json_array(), *one;
        bool has_failed = c->has_failed || stopped_after_s;
        int r = shortened_text(&c->text, &text);
        size_t i;

        if (r == 0 && text.len && buf_at(&text)[text.len - 1] != '\n')
                r = buf_addc(&text, "\n");
        if (r == 0 && c->pictures_left_out)
                r = buf_addf(&text, "[%zu more pictures were left out]\n", c->pictures_left_out);
        if (r == 0 && stopped_after_s)
                r = buf_addf(&text, "[stopped after %u s, the time limit]\n", stopped_after_s);
        if (r == 0)
                r = buf_addf(&text, "[%s, %.3f s]", has_failed ? "failed" : "done", seconds);
        if (r < 0) {
                json_decref(content);
                return NULL;
        }
        (void)json_array_append_new(content, tool_text_content((struct str){(const char *)buf_at(&text), text.len}));
        json_array_foreach (c->pictures, i, one) {
                (void)json_array_append(content, one);
        }
        return tool_result(content, NULL, has_failed);
}
