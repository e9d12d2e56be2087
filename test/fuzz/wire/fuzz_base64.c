#include "fuzz.h"
#include "wire/base64.h"

/* The one text that stands for the same bytes: standard alphabet, no padding. */
static void add_canonical(struct buf *out, struct str s)
{
        for (size_t i = 0; i < s.n && s.p[i] != '='; i++) {
                char c = s.p[i] == '-' ? '+' : s.p[i] == '_' ? '/' : s.p[i];

                MUST(buf_add(out, &c, 1) == 0);
        }
}

static void decode(struct str s)
{
        AUTO_BUF struct buf plain = BUF_INIT(1 << 20), text = BUF_INIT(1 << 21), want = BUF_INIT(1 << 21);

        if (base64_decode(s, &plain) < 0) {
                MUST(plain.len == 0);
                return;
        }
        MUST(base64_add(&text, buf_at(&plain), plain.len, false) == 0);
        add_canonical(&want, s);
        MUST(text.len == want.len && (text.len == 0 || memcmp(text.mem, want.mem, text.len) == 0));
}

static void encode(struct str s, bool pad)
{
        AUTO_BUF struct buf text = BUF_INIT(1 << 21), back = BUF_INIT(1 << 20);

        MUST(base64_add(&text, s.p, s.n, pad) == 0);
        MUST(!pad || text.len == BASE64_LEN(s.n));
        MUST(base64_decode((struct str){(const char *)buf_at(&text), text.len}, &back) == 0);
        MUST(str_eq((struct str){(const char *)buf_at(&back), back.len}, s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        struct str s = {(const char *)copy, size};

        decode(s);
        encode(s, true);
        encode(s, false);
        return 0;
}
