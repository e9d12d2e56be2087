/* JSON that jansson takes is taken; what is written again means the same, and is written the same the second time. */
#include <errno.h>
#include <jansson.h>

#include "wire/json/json_text.h"
#include "fuzz.h"

/* Every value is reached by walking, and lies within its parent. */
static size_t walk(struct str value, unsigned depth)
{
        struct json_walk w = json_text_walk(value);
        AUTO_BUF struct buf text = BUF_INIT(1 << 22);
        struct str key, item;
        size_t count = 1;

        MUST(json_text_kind(value) != JSON_TEXT_NONE && depth <= JSON_TEXT_DEPTH_MAX);
        MUST((json_text_unquote(value, &text) == 0) == (json_text_kind(value) == JSON_TEXT_STRING));
        MUST(str_is_utf8(buf_text(&text)));
        while (json_text_next(&w, &key, &item)) {
                MUST(item.p >= value.p && item.p + item.n <= value.p + value.n && item.n);
                if (w.is_object)
                        MUST(json_text_kind(key) == JSON_TEXT_STRING);
                count += walk(item, depth + 1);
        }
        return count;
}

static void format(struct str value, const struct json_style *style)
{
        AUTO_BUF struct buf once = BUF_INIT(1 << 24), twice = BUF_INIT(1 << 24);
        struct str again;

        if (json_text_format(value, style, 0, &once) < 0)
                return; /* too long with its indentation */
        MUST(json_text_check(buf_text(&once), &again, NULL) == 0);
        MUST(walk(again, 0) == walk(value, 0));
        MUST(json_text_format(again, style, 0, &twice) == 0);
        MUST(str_eq(buf_text(&once), buf_text(&twice)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        struct str text = {(const char *)copy, size}, value = {NULL, 0};
        json_t *theirs = json_loadb(text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        size_t bad = 0;
        int r = json_text_check(text, &value, &bad);

        MUST(r == 0 || bad <= size);
        /* E2BIG: deeper than is allowed here; jansson takes a NUL behind a number for the end */
        MUST(r == 0 || !theirs || r == -E2BIG || str_has_nul(text));
        json_decref(theirs);
        if (r < 0 || size > (1 << 16))
                return 0;
        format(value, &(struct json_style){.indent = " ", .has_spaces = true});
        format(value, &(struct json_style){0});
        return 0;
}
