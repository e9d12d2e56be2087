#include "fuzz.h"
#include "interpreter/jupyter/json_text.h"
#include "interpreter/jupyter/message.h"
#include "interpreter/jupyter/output.h"
#include "wire/sha256.h"

#define KEY "key"
#define FRAMES 12

static void check_lines(const struct buf *out)
{
        const char *p = (const char *)buf_at(out);
        size_t begin = 0;

        for (size_t i = 0; i < out->len; i++) {
                MUST(p[i] == '\n' || (p[i] >= 0x20 && (unsigned char)p[i] < 0x80));
                if (p[i] != '\n')
                        continue;
                MUST(i > begin && json_text_is_valid((struct str){p + begin, i - begin}));
                begin = i + 1;
        }
        MUST(begin == out->len);
}

/* The frames are between bytes 0xfe; the signature is made right, so that what is behind it is reached. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        AUTO_BUF struct buf out = BUF_INIT(64u << 20), all = BUF_INIT(1u << 20);
        struct str frames[FRAMES] = {STR("<IDS|MSG>"), {0}};
        char signature[SHA256_HEX_LEN + 1];
        struct jupyter_message m;
        uint8_t mac[SHA256_LEN];
        size_t n = 2, begin = 0;

        for (size_t i = 0; i <= size && n < FRAMES; i++) {
                if (i < size && copy[i] != 0xfe)
                        continue;
                frames[n++] = (struct str){(const char *)copy + begin, i - begin};
                begin = i + 1;
        }
        MUST(jupyter_decode(frames, n, STR(KEY), &m) < 0);
        for (size_t i = 2; i < 6 && i < n; i++)
                (void)buf_add(&all, frames[i].p, frames[i].n);
        hmac_sha256(STR(KEY), buf_at(&all), all.len, mac);
        hex_encode(mac, sizeof(mac), signature);
        frames[1] = str_of(signature);
        if (jupyter_decode(frames, n, STR(KEY), &m) < 0)
                return 0;
        MUST(m.type.n && json_text_is_valid(m.content));
        if (output_add_message(&m, &out) <= 0)
                MUST(out.len == 0);
        (void)output_add_reply_error(m.content, &out);
        check_lines(&out);
        return 0;
}
