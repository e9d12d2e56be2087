#include "client/modes/message.h"

#include "tap.h"

#define LINE_MAX_BYTES 32u

struct told {
        char log[2048];
        int count, end_at; /* end_at 0: never */
};

static void add(struct told *t, const char *text)
{
        size_t n = strlen(t->log);

        (void)snprintf(t->log + n, sizeof(t->log) - n, "%s", text);
}

/* "json(type) text|" or "text text|", with "..." behind what was cut. */
static int tell(const struct line *line, void *arg)
{
        struct message_memory memory = {0};
        struct told *t = arg;
        struct sg_message m;

        if (message_decode(line, false, &memory, &m) == 0) {
                add(t, m.is_json ? "json(" : "text ");
                if (m.is_json)
                        add(t, m.type), add(t, ") ");
                add(t, m.text);
                add(t, m.is_cut ? "...|" : "|");
                if (strlen(m.text) != m.len)
                        add(t, "wrong length|");
        }
        message_memory_done(&memory);
        return ++t->count == t->end_at ? -7 : 0;
}

/* In pieces of `size` bytes. */
static int read_in(struct told *t, const char *bytes, size_t n, size_t size)
{
        struct line_reader r;
        int told = 0;

        t->log[0] = 0;
        t->count = 0;
        line_reader_init(&r, LINE_MAX_BYTES);
        for (size_t at = 0; at < n && told == 0; at += size)
                told = line_reader_feed(&r, (struct str){bytes + at, n - at < size ? n - at : size}, tell, t);
        if (told == 0)
                told = line_reader_finish(&r, tell, t);
        line_reader_done(&r);
        return told;
}

/* Whatever the pieces are. */
#define CHECK_LINES(bytes, expected)                                                                                   \
        for (size_t size_ = 1; size_ <= sizeof(bytes); size_++) {                                                      \
                struct told t_ = {.end_at = 0};                                                                        \
                CHECK_INT(read_in(&t_, bytes, sizeof(bytes) - 1, size_), ==, 0);                                       \
                CHECK_STR(t_.log, expected);                                                                           \
        }

static void objects_are_messages_and_the_rest_is_text(void)
{
        CHECK_LINES("{\"type\":\"a\"}\nhello\n", "json(a) {\"type\":\"a\"}|text hello|");
        CHECK_LINES("[1]\n42\n\"x\"\nnull\n", "text [1]|text 42|text \"x\"|text null|");
        CHECK_LINES("{\"type\":\"a\"\n{}\n", "text {\"type\":\"a\"|json() {}|");
        CHECK_LINES(" {\"a\":1} \n", "json()  {\"a\":1} |");
}

static void the_type_is_the_member_of_that_name(void)
{
        CHECK_LINES("{\"x\":1,\"type\":\"b\\u0063\"}\n", "json(bc) {\"x\":1,\"type\":\"b\\u0063\"}|");
        CHECK_LINES("{\"type\":5}\n", "json() {\"type\":5}|");
        CHECK_LINES("{\"m\":{\"type\":\"in\"}}\n", "json() {\"m\":{\"type\":\"in\"}}|");
        CHECK_LINES("{\"type\":\"a\\u0000b\"}\n", "json() {\"type\":\"a\\u0000b\"}|");
}

static void several_messages_come_in_one_piece_and_one_in_several(void)
{
        CHECK_LINES("{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n", "json() {\"a\":1}|json() {\"b\":2}|json() {\"c\":3}|");
}

static void a_last_line_without_an_end_counts(void)
{
        CHECK_LINES("{\"a\":1}\n{\"b\":2}", "json() {\"a\":1}|json() {\"b\":2}|");
        CHECK_LINES("", "");
        CHECK_LINES("\n", "text |");
        CHECK_LINES("a\n\nb", "text a|text |text b|");
}

static void carriage_returns_at_the_end_of_a_line_are_left_out(void)
{
        CHECK_LINES("{\"a\":1}\r\nx\ry\r\nz\r", "json() {\"a\":1}|text x\ry|text z|");
}

static void characters_may_be_split_between_pieces(void)
{
        CHECK_LINES("{\"type\":\"\xe2\x82\xac\xf0\x9f\x98\x80\"}\n\xc3\xa9\n",
                    "json(\xe2\x82\xac\xf0\x9f\x98\x80) {\"type\":\"\xe2\x82\xac\xf0\x9f\x98\x80\"}|text \xc3\xa9|");
}

static void what_is_no_text_becomes_a_replacement(void)
{
        CHECK_LINES("a\xff\xc3\n", "text a\xef\xbf\xbd\xef\xbf\xbd|");
        CHECK_LINES("a\0b\n", "text a\xef\xbf\xbd"
                              "b|");
        CHECK_LINES("{\"a\":\"\xff\"}\n", "text {\"a\":\"\xef\xbf\xbd\"}|");
}

static void a_line_of_the_maximum_is_whole_and_a_longer_one_is_cut(void)
{
        CHECK_LINES("12345678901234567890123456789012\nx\n", "text 12345678901234567890123456789012|text x|");
        CHECK_LINES("12345678901234567890123456789012\r\nx\n", "text 12345678901234567890123456789012|text x|");
        CHECK_LINES("123456789012345678901234567890123\nx\n", "text 12345678901234567890123456789012...|text x|");
        CHECK_LINES("{\"type\":\"a\",\"b\":\"12345678901234567890\"}\nx",
                    "text {\"type\":\"a\",\"b\":\"123456789012345...|text x|");
        CHECK_LINES("1234567890123456789012345678901\xe2\x82\xac\xe2\x82\xac\n",
                    "text 1234567890123456789012345678901...|");
}

static void a_callback_ends_the_reading(void)
{
        for (size_t size = 1; size < 10; size++) {
                struct told t = {.end_at = 2};

                CHECK_INT(read_in(&t, "a\nb\nc\n", 6, size), ==, -7);
                CHECK_STR(t.log, "text a|text b|");
        }
}

static void memory_has_a_bound(void)
{
        struct told t = {.end_at = 0};
        struct line_reader r;
        char piece[1000];

        memset(piece, 'x', sizeof(piece));
        line_reader_init(&r, LINE_MAX_BYTES);
        for (int i = 0; i < 1000; i++)
                CHECK_INT(line_reader_feed(&r, (struct str){piece, sizeof(piece)}, tell, &t), ==, 0);
        CHECK_INT(r.part.len, <=, LINE_MAX_BYTES + 1);
        CHECK_INT(r.part.cap, <=, 1024);
        CHECK_INT(line_reader_finish(&r, tell, &t), ==, 0);
        CHECK_INT(t.count, ==, 1);
        line_reader_done(&r);
}

int main(void)
{
        RUN(objects_are_messages_and_the_rest_is_text);
        RUN(the_type_is_the_member_of_that_name);
        RUN(several_messages_come_in_one_piece_and_one_in_several);
        RUN(a_last_line_without_an_end_counts);
        RUN(carriage_returns_at_the_end_of_a_line_are_left_out);
        RUN(characters_may_be_split_between_pieces);
        RUN(what_is_no_text_becomes_a_replacement);
        RUN(a_line_of_the_maximum_is_whole_and_a_longer_one_is_cut);
        RUN(a_callback_ends_the_reading);
        RUN(memory_has_a_bound);
        return tap_done();
}
