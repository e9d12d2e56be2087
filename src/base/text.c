#include "base/text.h"

/* The length of the UTF-8 sequence at p, at most n bytes; 0: there is none. */
static size_t sequence(const unsigned char *p, size_t n)
{
        size_t len = p[0] < 0x80                   ? 1
                     : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                     : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                     : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                                   : 0;

        if (len == 0 || len > n || p[0] == 0)
                return 0;
        return str_is_utf8((struct str){(const char *)p, len}) ? len : 0;
}

int text_clean(struct str bytes, struct buf *out)
{
        size_t from = 0, at = 0;
        int r = 0;

        if (!str_has_nul(bytes) && str_is_utf8(bytes))
                return buf_add(out, bytes.p, bytes.n);
        while (at < bytes.n && r == 0) {
                size_t len = sequence((const unsigned char *)bytes.p + at, bytes.n - at);

                if (len > 0) {
                        at += len;
                        continue;
                }
                r = buf_add(out, bytes.p + from, at - from);
                if (r == 0)
                        r = buf_addc(out, "\xef\xbf\xbd");
                from = ++at;
        }
        return r < 0 ? r : buf_add(out, bytes.p + from, at - from);
}
