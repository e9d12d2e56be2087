#include "cli/code/png.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char signature[] = "\x89PNG\r\n\x1a\n";

enum colour { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGB_ALPHA = 6 };

struct png {
        uint32_t width, height;
        unsigned depth, colour, channels;
        size_t row_bytes; /* without the filter's byte */
        uint8_t palette[256][4];
        unsigned palette_count;
        bool has_key;    /* one colour is transparent */
        uint16_t key[3]; /* that one */
        uint8_t *rows;   /* owned: filter byte and samples of each row */
        size_t rows_len;
        z_stream z;
        bool has_z, is_complete;
};

struct chunk {
        uint32_t type;
        const uint8_t *p;
        uint32_t n;
};

#define TYPE(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

static uint32_t be32(const uint8_t *p)
{
        return TYPE(p[0], p[1], p[2], p[3]);
}

bool png_is(struct str bytes)
{
        return bytes.n >= 8 && memcmp(bytes.p, signature, 8) == 0;
}

void picture_done(struct picture *p)
{
        free(p->rgb);
        p->rgb = NULL;
}

static void png_done(struct png *png)
{
        if (png->has_z)
                (void)inflateEnd(&png->z);
        free(png->rows);
}

/* ---- chunks ---- */

static unsigned channels_of(unsigned colour)
{
        switch (colour) {
        case GREY:
        case PALETTE: return 1;
        case GREY_ALPHA: return 2;
        case RGB: return 3;
        case RGB_ALPHA: return 4;
        default: return 0;
        }
}

static bool depth_is_allowed(unsigned colour, unsigned depth)
{
        switch (colour) {
        case GREY: return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
        case PALETTE: return depth == 1 || depth == 2 || depth == 4 || depth == 8;
        default: return depth == 8 || depth == 16;
        }
}

static int take_header(struct png *png, const struct chunk *c)
{
        size_t len;

        if (png->rows || c->n != 13)
                return -EINVAL;
        png->width = be32(c->p);
        png->height = be32(c->p + 4);
        png->depth = c->p[8];
        png->colour = c->p[9];
        png->channels = channels_of(png->colour);
        if (!png->width || !png->height || !png->channels || !depth_is_allowed(png->colour, png->depth) || c->p[10] ||
            c->p[11] || c->p[12] > 1)
                return -EINVAL;
        if (c->p[12])
                return -ENOTSUP;
        if (png->width > PNG_SIDE_MAX || png->height > PNG_SIDE_MAX ||
            (uint64_t)png->width * png->height > PNG_PIXELS_MAX)
                return -E2BIG;
        png->row_bytes = ((size_t)png->width * png->channels * png->depth + 7) / 8;
        len = (png->row_bytes + 1) * png->height;
        png->rows = malloc(len);
        if (!png->rows || inflateInit(&png->z) != Z_OK)
                return -ENOMEM;
        png->has_z = true;
        png->rows_len = len;
        png->z.next_out = png->rows;
        png->z.avail_out = (uInt)len; /* at most 32 Mi pixels of 8 bytes, and a byte for each row */
        return 0;
}

static int take_palette(struct png *png, const struct chunk *c)
{
        if (c->n % 3 || c->n > 768 || png->palette_count)
                return -EINVAL;
        png->palette_count = c->n / 3;
        for (unsigned i = 0; i < png->palette_count; i++) {
                memcpy(png->palette[i], c->p + 3 * i, 3);
                png->palette[i][3] = 255;
        }
        return 0;
}

static int take_transparency(struct png *png, const struct chunk *c)
{
        unsigned wanted = png->colour == GREY ? 1 : png->colour == RGB ? 3 : 0;

        if (png->colour == PALETTE) {
                if (c->n > png->palette_count)
                        return -EINVAL;
                for (unsigned i = 0; i < c->n; i++)
                        png->palette[i][3] = c->p[i];
                return 0;
        }
        if (!wanted || c->n != 2 * wanted)
                return -EINVAL;
        png->has_key = true;
        for (unsigned i = 0; i < wanted; i++)
                png->key[i] = (uint16_t)(c->p[2 * i] << 8 | c->p[2 * i + 1]);
        return 0;
}

static int take_data(struct png *png, const struct chunk *c)
{
        int r;

        if (png->is_complete)
                return 0; /* more than the picture needs */
        png->z.next_in = (Bytef *)c->p;
        png->z.avail_in = c->n;
        r = inflate(&png->z, Z_NO_FLUSH);
        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
                return r == Z_MEM_ERROR ? -ENOMEM : -EINVAL;
        png->is_complete = png->z.avail_out == 0;
        return r == Z_STREAM_END && !png->is_complete ? -EINVAL : 0;
}

/* The next chunk, its sum checked; false: there is none, or it is broken. */
static bool next_chunk(struct str *rest, struct chunk *ret)
{
        const uint8_t *p = (const uint8_t *)rest->p;

        if (rest->n < 12 || be32(p) > rest->n - 12)
                return false;
        *ret = (struct chunk){be32(p + 4), p + 8, be32(p)};
        if (be32(p + 8 + ret->n) != (uint32_t)crc32(0, p + 4, ret->n + 4))
                return false;
        *rest = (struct str){rest->p + 12 + ret->n, rest->n - 12 - ret->n};
        return true;
}

static int take_chunk(struct png *png, const struct chunk *c)
{
        if (c->type == TYPE('I', 'H', 'D', 'R'))
                return take_header(png, c);
        if (!png->rows)
                return -EINVAL; /* the header comes first */
        switch (c->type) {
        case TYPE('P', 'L', 'T', 'E'): return take_palette(png, c);
        case TYPE('t', 'R', 'N', 'S'): return take_transparency(png, c);
        case TYPE('I', 'D', 'A', 'T'): return take_data(png, c);
        default: return c->type & 0x20000000 ? 0 : -EINVAL; /* a capital letter: cannot be left out */
        }
}

static int take_chunks(struct png *png, struct str bytes)
{
        struct str rest = {bytes.p + 8, bytes.n - 8};
        struct chunk c;
        int r = 0;

        while (r == 0 && next_chunk(&rest, &c)) {
                if (c.type == TYPE('I', 'E', 'N', 'D'))
                        break;
                r = take_chunk(png, &c);
        }
        if (r == 0 && (!png->is_complete || (png->colour == PALETTE && !png->palette_count)))
                return -EINVAL;
        return r;
}

/* ---- filters ---- */

static uint8_t paeth(int a, int b, int c)
{
        int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);

        return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

static int undo_filter(unsigned filter, uint8_t *row, const uint8_t *above, size_t n, size_t pixel)
{
        if (filter > 4)
                return -EINVAL;
        for (size_t i = 0; i < n; i++) {
                int a = i >= pixel ? row[i - pixel] : 0, b = above ? above[i] : 0;
                int c = above && i >= pixel ? above[i - pixel] : 0;
                int guess = filter == 0   ? 0
                            : filter == 1 ? a
                            : filter == 2 ? b
                            : filter == 3 ? (a + b) / 2
                                          : paeth(a, b, c);

                row[i] = (uint8_t)(row[i] + guess);
        }
        return 0;
}

static int undo_filters(struct png *png)
{
        size_t pixel = (png->channels * png->depth + 7) / 8, stride = png->row_bytes + 1;
        int r = 0;

        for (uint32_t y = 0; r == 0 && y < png->height; y++) {
                uint8_t *row = png->rows + y * stride;

                r = undo_filter(row[0], row + 1, y ? row + 1 - stride : NULL, png->row_bytes, pixel);
        }
        return r;
}

/* ---- pixels ---- */

/* A sample as it is stored: 1 to 16 bits. */
static unsigned sample_at(const struct png *png, const uint8_t *row, size_t index)
{
        size_t bit = index * png->depth;

        if (png->depth == 16)
                return (unsigned)row[2 * index] << 8 | row[2 * index + 1];
        return row[bit / 8] >> (8 - png->depth - bit % 8) & ((1u << png->depth) - 1);
}

static uint8_t to_8_bits(const struct png *png, unsigned sample)
{
        return (uint8_t)(png->depth == 16 ? sample >> 8 : sample * 255 / ((1u << png->depth) - 1));
}

static void pixel_at(const struct png *png, const uint8_t *row, uint32_t x, uint8_t out[4])
{
        unsigned sample[4] = {0}, colours = png->channels >= 3 ? 3 : 1;
        bool is_key = png->has_key;

        for (unsigned i = 0; i < png->channels; i++)
                sample[i] = sample_at(png, row, (size_t)x * png->channels + i);
        if (png->colour == PALETTE) {
                memcpy(out, png->palette[sample[0] & 255], 4); /* beyond the palette: black, and transparent */
                return;
        }
        for (unsigned i = 0; i < 3; i++)
                out[i] = to_8_bits(png, sample[colours == 3 ? i : 0]);
        for (unsigned i = 0; is_key && i < colours; i++)
                is_key = sample[i] == png->key[i];
        out[3] = is_key ? 0 : png->channels % 2 == 0 ? to_8_bits(png, sample[png->channels - 1]) : 255;
}

static int make_picture(const struct png *png, struct picture *ret)
{
        uint8_t *rgb = malloc((size_t)png->width * png->height * 3), *to = rgb, pixel[4];

        if (!rgb)
                return -ENOMEM;
        for (uint32_t y = 0; y < png->height; y++) {
                const uint8_t *row = png->rows + y * (png->row_bytes + 1) + 1;

                for (uint32_t x = 0; x < png->width; x++) {
                        pixel_at(png, row, x, pixel);
                        for (int i = 0; i < 3; i++)
                                *to++ = (uint8_t)((pixel[i] * pixel[3] + 255 * (255 - pixel[3])) / 255);
                }
        }
        *ret = (struct picture){png->width, png->height, rgb};
        return 0;
}

int png_decode(struct str bytes, struct picture *ret)
{
        struct png png = {0};
        int r = png_is(bytes) ? take_chunks(&png, bytes) : -EINVAL;

        if (r == 0)
                r = undo_filters(&png);
        if (r == 0)
                r = make_picture(&png, ret);
        png_done(&png);
        return r;
}
