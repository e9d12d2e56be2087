#include "builder/step_log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "io/channel.h"

#define ENTRIES_MAX 512 /* in one message */

struct tail_entry {
        struct list node;
        json_t *entry; /* owned */
        size_t bytes;
};

/* ---- text ---- */

/* The length of the character at p, or 0: there is none. */
static size_t utf8_char(const unsigned char *p, size_t n)
{
        size_t want = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;

        if (want == 0 || want > n)
                return 0;
        return str_is_utf8((struct str){(const char *)p, want}) ? want : 0;
}

int utf8_add(struct buf *out, struct str text, size_t max)
{
        const unsigned char *p = (const unsigned char *)text.p;
        size_t used = 0;
        int r = 0;

        if (text.n > 0 && text.n <= max && !memchr(text.p, '\0', text.n) &&
            str_is_utf8(text)) /* as nearly all text is */
                return buf_add(out, text.p, text.n);
        for (size_t i = 0; r == 0 && i < text.n;) {
                size_t n = p[i] ? utf8_char(p + i, text.n - i) : 0;

                if (used + (n ? n : 3) > max)
                        break;
                r = n ? buf_add(out, p + i, n) : buf_add(out, "\xef\xbf\xbd", 3);
                used += n ? n : 3;
                i += n ? n : 1;
        }
        return r;
}

/* ---- entries ---- */

static void step_log_send(struct step_log *l)
{
        json_t *entries = TAKE_PTR(l->entries), *msg;

        loop_unpost(&l->send);
        if (!entries)
                return;
        msg = l->channel ? json_pack("{s:s, s:I, s:o}", "event", "log", "req", l->req, "entries", entries) : NULL;
        if (msg)
                (void)channel_send(l->channel, msg, NULL, 0); /* a log with a gap is better than a build that fails */
        else if (!l->channel)
                json_decref(entries);
}

static void step_log_on_send(struct task *t)
{
        step_log_send(CONTAINER_OF(t, struct step_log, send));
}

static void step_log_queue(struct step_log *l, json_t *entry)
{
        if (!l->entries)
                l->entries = json_array();
        if (!l->entries || json_array_append_new(l->entries, entry) < 0)
                return;
        if (json_array_size(l->entries) >= ENTRIES_MAX)
                step_log_send(l);
        else
                loop_post(l->loop, &l->send);
}

static void tail_drop_first(struct step_log *l)
{
        struct tail_entry *e = LIST_ENTRY(list_pop_front(&l->tail), struct tail_entry, node);

        l->tail_bytes -= e->bytes;
        l->dropped += e->bytes;
        json_decref(e->entry);
        free(e);
}

static void tail_add(struct step_log *l, json_t *entry, size_t bytes)
{
        struct tail_entry *e = malloc(sizeof(*e));

        if (!e) {
                json_decref(entry);
                l->dropped += bytes;
                return;
        }
        *e = (struct tail_entry){.entry = entry, .bytes = bytes};
        list_push_back(&l->tail, &e->node);
        l->tail_bytes += bytes;
        while (l->tail_bytes > STEP_LOG_LAST)
                tail_drop_first(l);
}

/* `text` is valid UTF-8. */
static void step_log_entry(struct step_log *l, const char *level, struct str text)
{
        size_t bytes = text.n + 1;
        json_t *entry =
                json_pack("{s:I, s:s, s:s%}", "t", (json_int_t)clock_real_ns(), "l", level, "m", text.p, text.n);

        if (!entry)
                return;
        if (l->sent + bytes <= STEP_LOG_FIRST && list_is_empty(&l->tail)) {
                l->sent += bytes;
                step_log_queue(l, entry);
        } else {
                tail_add(l, entry, bytes);
        }
}

void step_log_line(struct step_log *l, const char *level, const char *fmt, ...)
{
        AUTO_BUF struct buf raw = BUF_INIT(2 * STEP_LOG_LINE), text = BUF_INIT(2 * STEP_LOG_LINE);
        va_list ap;
        int r;

        va_start(ap, fmt);
        r = buf_vaddf(&raw, fmt, ap);
        va_end(ap);
        if (r == 0 && utf8_add(&text, (struct str){(const char *)buf_at(&raw), raw.len}, STEP_LOG_LINE) == 0)
                step_log_entry(l, level, (struct str){text.len ? (const char *)buf_at(&text) : "", text.len});
}

/* ---- lines of output ---- */

/* As a terminal would show it: what comes behind a carriage return is written over what was before. */
static struct str line_as_shown(const struct buf *line)
{
        struct str s = {(const char *)buf_at(line), line->len};

        while (s.n && s.p[s.n - 1] == '\r')
                s.n--;
        for (size_t i = s.n; i > 0; i--)
                if (s.p[i - 1] == '\r')
                        return (struct str){s.p + i, s.n - i};
        return s;
}

static void stream_end_line(struct step_log *l, struct step_log_stream *st)
{
        AUTO_BUF struct buf text = BUF_INIT(4 * STEP_LOG_LINE);
        int r = buf_addc(&text, st->prefix);

        if (r == 0)
                r = utf8_add(&text, line_as_shown(&st->line), STEP_LOG_LINE);
        if (r == 0 && st->is_cut)
                r = buf_addc(&text, "…");
        if (r == 0)
                step_log_entry(l, st->level, (struct str){(const char *)buf_at(&text), text.len});
        buf_reset(&st->line);
        st->is_cut = false;
}

static void stream_add(struct step_log *l, struct step_log_stream *st, struct str piece)
{
        size_t room = buf_room(&st->line), n = piece.n < room ? piece.n : room;

        if (buf_add(&st->line, piece.p, n) < 0)
                n = 0;
        if (n == piece.n)
                return;
        st->is_cut = true;
        l->dropped += piece.n - n;
}

void step_log_bytes(struct step_log *l, unsigned stream, struct str bytes)
{
        struct step_log_stream *st = &l->streams[stream];

        while (bytes.n) {
                struct str piece;
                bool is_whole = str_cut(&bytes, '\n', &piece);

                stream_add(l, st, piece);
                if (is_whole)
                        stream_end_line(l, st);
        }
}

void step_log_flush(struct step_log *l, unsigned stream)
{
        if (l->streams[stream].line.len)
                stream_end_line(l, &l->streams[stream]);
}

void step_log_finish(struct step_log *l)
{
        for (unsigned i = 0; i < STEP_LOG_STREAMS; i++)
                step_log_flush(l, i);
        if (!list_is_empty(&l->tail)) {
                struct list *at;
                json_t *gap = json_pack("{s:I, s:s, s:o}", "t", (json_int_t)clock_real_ns(), "l", "info", "m",
                                        json_sprintf("… %" PRIu64 " bytes left out", l->dropped));

                if (gap && l->dropped)
                        step_log_queue(l, gap);
                else
                        json_decref(gap);
                while ((at = list_pop_front(&l->tail))) {
                        struct tail_entry *e = LIST_ENTRY(at, struct tail_entry, node);

                        step_log_queue(l, TAKE_PTR(e->entry));
                        free(e);
                }
                l->tail_bytes = 0;
        }
        step_log_send(l);
}

void step_log_init(struct step_log *l, struct loop *loop, struct channel *ch, json_int_t req)
{
        *l = (struct step_log){.loop = loop, .channel = ch, .req = req, .send.run = step_log_on_send};
        list_init(&l->tail);
        for (unsigned i = 0; i < STEP_LOG_STREAMS; i++) {
                buf_init(&l->streams[i].line, STEP_LOG_LINE);
                step_log_stream(l, i, i ? "[stderr]: " : "[stdout]: ", "info");
        }
}

void step_log_stream(struct step_log *l, unsigned stream, const char *prefix, const char *level)
{
        l->streams[stream].prefix = prefix;
        l->streams[stream].level = level;
}

void step_log_done(struct step_log *l)
{
        loop_unpost(&l->send);
        while (!list_is_empty(&l->tail))
                tail_drop_first(l);
        for (unsigned i = 0; i < STEP_LOG_STREAMS; i++)
                buf_done(&l->streams[i].line);
        json_decref(l->entries);
        l->entries = NULL;
}
