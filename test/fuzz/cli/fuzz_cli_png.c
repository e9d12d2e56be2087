/* A picture that is decoded has all its pixels, and becomes sixels that are text. */
#include "cli/code/sixel.h"
#include "fuzz.h"

#define PIXELS_MAX (1u << 18) /* larger ones take longer, and show nothing more */

static void draw(const struct picture *p, uint32_t width, uint32_t height)
{
        AUTO_BUF struct buf out = BUF_INIT(1 << 26);

        MUST(sixel_write(p, width, height, &out) == 0);
        MUST(out.len > 8 && memcmp(buf_at(&out), "\x1bP0;1q\"", 7) == 0);
        MUST(memcmp(buf_at(&out) + out.len - 2, "\x1b\\", 2) == 0);
        for (size_t i = 1; i + 2 < out.len; i++)
                MUST(buf_at(&out)[i] >= 0x20 && buf_at(&out)[i] < 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        struct picture p = {0};
        uint32_t sum = 0;

        if (png_decode((struct str){(const char *)copy, size}, &p) < 0) {
                MUST(!p.rgb);
                return 0;
        }
        MUST(p.width && p.height && (uint64_t)p.width * p.height <= PNG_PIXELS_MAX);
        for (size_t i = 0; i < (size_t)p.width * p.height * 3; i++)
                sum += p.rgb[i];
        MUST(sum <= (uint64_t)p.width * p.height * 3 * 255);
        if ((uint64_t)p.width * p.height <= PIXELS_MAX) {
                draw(&p, 64, 64);
                draw(&p, p.width, p.height);
        }
        picture_done(&p);
        return 0;
}
