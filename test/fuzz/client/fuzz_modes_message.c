/* The output of a program means the same in whatever pieces it comes, and each message is UTF-8 within its bounds. */
#include "client/modes/message.h"
#include "fuzz.h"

#define LINE_MAX_BYTES 256u

static int tell(const struct line *line, void *arg)
{
        struct message_memory memory = {0};
        struct buf *log = arg;
        struct sg_message m;

        MUST(line->text.n <= LINE_MAX_BYTES);
        MUST(message_decode(line, false, &memory, &m) == 0);
        MUST(m.is_cut == line->is_cut && !(m.is_json && m.is_cut));
        MUST(m.len <= 3 * (size_t)LINE_MAX_BYTES && strlen(m.text) == m.len);
        MUST(str_is_utf8((struct str){m.text, m.len}) && str_is_utf8(str_of(m.type)));
        MUST(!m.is_json || str_eq((struct str){m.text, m.len}, line->text));
        MUST(buf_addf(log, "%d%d%s:%zu:", m.is_json, m.is_cut, m.type, m.len) == 0 && buf_add(log, m.text, m.len) == 0);
        message_memory_done(&memory);
        return 0;
}

static void feed(const uint8_t *data, size_t size, unsigned way, struct buf *log)
{
        struct fuzz_cuts cuts = fuzz_cuts_of(data, size, way);
        struct line_reader r;

        line_reader_init(&r, LINE_MAX_BYTES);
        for (size_t at = 0; at < size;) {
                size_t n = fuzz_cut(&cuts, size - at);
                AUTO_FREE uint8_t *piece = fuzz_copy(data + at, n);

                MUST(line_reader_feed(&r, (struct str){(const char *)piece, n}, tell, log) == 0);
                at += n;
        }
        MUST(line_reader_finish(&r, tell, log) == 0);
        line_reader_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_BUF struct buf first = BUF_INIT(1 << 26);

        feed(data, size, 0, &first);
        for (unsigned way = 1; way < FUZZ_WAYS; way++) {
                AUTO_BUF struct buf other = BUF_INIT(1 << 26);

                feed(data, size, way, &other);
                MUST(other.len == first.len &&
                     (first.len == 0 || memcmp(buf_at(&other), buf_at(&first), first.len) == 0));
        }
        return 0;
}
