#include "client/modes/message.h"

#include <errno.h>

#include "base/text.h"
#include "wire/json/json_text.h"

#define CHARACTER_BYTES_MAX 4u

void message_memory_done(struct message_memory *m)
{
        buf_done(&m->text);
}

/* Without the beginning of a character whose rest was cut away. */
static struct str whole_characters(struct str text)
{
        size_t n = text.n;

        for (size_t back = 0; back < CHARACTER_BYTES_MAX - 1 && n > 0; back++) {
                unsigned char c = (unsigned char)text.p[--n];
                size_t wanted = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

                if ((c & 0xc0) != 0x80)
                        return (struct str){text.p, wanted > text.n - n ? n : text.n};
        }
        return text;
}

/* "" where there is none, where it is no string, or where it is longer than names of types are.  0 or -ENOMEM. */
static int find_type(struct str object, char out[MESSAGE_TYPE_MAX + 1])
{
        struct str type = json_text_get(object, "type");
        AUTO_BUF struct buf text = BUF_INIT(MESSAGE_TYPE_MAX);

        int r = json_text_kind(type) == JSON_TEXT_STRING ? json_text_unquote(type, &text) : -EINVAL;

        out[0] = 0;
        if (r == -ENOMEM)
                return r;
        if (r < 0 || str_has_nul(buf_text(&text)))
                return 0;
        memcpy(out, buf_text(&text).p, text.len);
        out[text.len] = 0;
        return 0;
}

int message_decode(const struct line *line, bool is_stderr, struct message_memory *memory, struct sg_message *ret)
{
        struct str text = line->is_cut ? whole_characters(line->text) : line->text, value;
        struct sg_message m = {.is_stderr = is_stderr, .is_cut = line->is_cut, .type = memory->type};
        size_t room = 3 * text.n + 1; /* each byte may become U+FFFD */
        int r = 0;

        memory->type[0] = 0;
        m.is_json =
                !line->is_cut && json_text_check(text, &value, NULL) == 0 && json_text_kind(value) == JSON_TEXT_OBJECT;
        if (m.is_json)
                r = find_type(value, memory->type);
        if (r < 0)
                return r;
        buf_reset(&memory->text);
        memory->text.max = room;
        r = text_clean(text, &memory->text); /* JSON is UTF-8 without NUL: the same text */
        m.text = r == 0 ? buf_cstr(&memory->text) : NULL;
        if (!m.text)
                return -ENOMEM;
        m.len = memory->text.len;
        *ret = m;
        return 0;
}
