#include "cli/code/sixel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* 6 steps of each of red, green, blue, and 24 greys between black and white. */
#define STEPS 6
#define CUBE (STEPS * STEPS * STEPS)
#define GREYS 24
#define COLOURS (CUBE + GREYS)
#define BAND 6 /* rows of one line of sixels */

static const uint8_t steps[STEPS] = {0, 51, 102, 153, 204, 255};

static int grey_level(int i)
{
        return (i + 1) * 255 / (GREYS + 1);
}

static void colour_of(int index, int rgb[3])
{
        if (index >= CUBE) {
                rgb[0] = rgb[1] = rgb[2] = grey_level(index - CUBE);
                return;
        }
        rgb[0] = steps[index / (STEPS * STEPS)];
        rgb[1] = steps[index / STEPS % STEPS];
        rgb[2] = steps[index % STEPS];
}

static int distance(const int a[3], const int b[3])
{
        int sum = 0;

        for (int i = 0; i < 3; i++)
                sum += (a[i] - b[i]) * (a[i] - b[i]);
        return sum;
}

static int nearest(const int rgb[3])
{
        int r = (rgb[0] + 25) / 51, g = (rgb[1] + 25) / 51, b = (rgb[2] + 25) / 51;
        int cube = (r * STEPS + g) * STEPS + b, cube_rgb[3], grey, grey_rgb[3];

        grey = ((rgb[0] + rgb[1] + rgb[2]) / 3 * (GREYS + 1) + 127) / 255 - 1;
        grey = CUBE + (grey < 0 ? 0 : grey >= GREYS ? GREYS - 1 : grey);
        colour_of(cube, cube_rgb);
        colour_of(grey, grey_rgb);
        return distance(rgb, grey_rgb) < distance(rgb, cube_rgb) ? grey : cube;
}

/* ---- smaller ---- */

/* Each new pixel is the mean of those that it stands for.  *ret is the caller's. */
static int scale_down(const struct picture *p, uint32_t width, uint32_t height, struct picture *ret)
{
        uint8_t *to = malloc((size_t)width * height * 3);

        if (!to)
                return -ENOMEM;
        for (uint32_t y = 0; y < height; y++) {
                uint32_t y0 = (uint32_t)((uint64_t)y * p->height / height),
                         y1 = (uint32_t)((uint64_t)(y + 1) * p->height / height);

                for (uint32_t x = 0; x < width; x++) {
                        uint32_t x0 = (uint32_t)((uint64_t)x * p->width / width),
                                 x1 = (uint32_t)((uint64_t)(x + 1) * p->width / width);
                        uint64_t sum[3] = {0}, count = (uint64_t)(x1 - x0) * (y1 - y0);

                        for (uint32_t v = y0; v < y1; v++)
                                for (uint32_t u = x0; u < x1; u++)
                                        for (int i = 0; i < 3; i++)
                                                sum[i] += p->rgb[((size_t)v * p->width + u) * 3 + (size_t)i];
                        for (int i = 0; i < 3; i++)
                                to[((size_t)y * width + x) * 3 + (size_t)i] = (uint8_t)(sum[i] / count);
                }
        }
        *ret = (struct picture){width, height, to};
        return 0;
}

/* The largest size of the same shape within both limits, never larger than it is. */
static void fit(const struct picture *p, uint32_t width_max, uint32_t height_max, uint32_t *ret_w, uint32_t *ret_h)
{
        uint64_t w = p->width, h = p->height;

        if (w > width_max) {
                h = h * width_max / w;
                w = width_max;
        }
        if (h > height_max) {
                w = w * height_max / h;
                h = height_max;
        }
        *ret_w = (uint32_t)(w ? w : 1);
        *ret_h = (uint32_t)(h ? h : 1);
}

/* ---- dithering ---- */

struct dither {
        uint32_t width;
        int *now,
                *next; /* owned: what is still missing in the pixels of this row and the next, with one more at both ends */
};

static void spread(int *row, size_t x, const int missing[3], int weight)
{
        for (int i = 0; i < 3; i++)
                row[x * 3 + (size_t)i] += missing[i] * weight / 16;
}

/* One row of colours into `out`, by Floyd and Steinberg. */
static void dither_row(struct dither *d, const uint8_t *rgb, uint8_t *out)
{
        int *spare;

        for (size_t x = 0; x < d->width; x++) {
                int wanted[3], got[3], missing[3], index;

                for (size_t i = 0; i < 3; i++) {
                        int v = rgb[x * 3 + i] + d->now[(x + 1) * 3 + i];

                        wanted[i] = v < 0 ? 0 : v > 255 ? 255 : v;
                }
                index = nearest(wanted);
                out[x] = (uint8_t)index;
                colour_of(index, got);
                for (int i = 0; i < 3; i++)
                        missing[i] = wanted[i] - got[i];
                spread(d->now, x + 2, missing, 7);
                spread(d->next, x, missing, 3);
                spread(d->next, x + 1, missing, 5);
                spread(d->next, x + 2, missing, 1);
        }
        spare = d->now;
        d->now = d->next;
        d->next = spare;
        memset(d->next, 0, (d->width + 2) * 3 * sizeof(int));
}

/* ---- sixels ---- */

static int add_run(struct buf *out, size_t count, char c)
{
        static const char same[] = "????";

        if (count > 3)
                return buf_addf(out, "!%zu%c", count, c);
        if (c == same[0])
                return buf_add(out, same, count);
        for (; count; count--)
                if (buf_add(out, &c, 1) < 0)
                        return -E2BIG;
        return 0;
}

/* Where one colour is in a band of up to 6 rows. */
static int add_colour(const uint8_t *band, uint32_t width, unsigned rows, int colour, struct buf *out)
{
        size_t count = 0;
        char last = 0;
        int r = buf_addf(out, "#%d", colour);

        for (uint32_t x = 0; r == 0 && x < width; x++) {
                char c = 0;

                for (unsigned y = 0; y < rows; y++)
                        c = (char)(c | (band[(size_t)y * width + x] == colour) << y);
                c = (char)(c + '?');
                if (count && c != last) {
                        r = add_run(out, count, last);
                        count = 0;
                }
                last = c;
                count++;
        }
        if (r == 0 && last != '?') /* nothing is left out at the end of a line */
                r = add_run(out, count, last);
        return r < 0 ? r : buf_addc(out, "$");
}

static int add_band(const uint8_t *band, uint32_t width, unsigned rows, struct buf *out)
{
        bool is_used[COLOURS] = {0};
        int r = 0;

        for (size_t i = 0; i < (size_t)width * rows; i++)
                is_used[band[i]] = true;
        for (int c = 0; r == 0 && c < COLOURS; c++)
                if (is_used[c])
                        r = add_colour(band, width, rows, c, out);
        return r < 0 ? r : buf_addc(out, "-");
}

static int add_head(const struct picture *p, struct buf *out)
{
        int r = buf_addf(out, "\x1bP0;1q\"1;1;%u;%u", p->width, p->height), rgb[3];

        for (int i = 0; r == 0 && i < COLOURS; i++) {
                colour_of(i, rgb);
                r = buf_addf(out, "#%d;2;%d;%d;%d", i, (rgb[0] * 100 + 127) / 255, (rgb[1] * 100 + 127) / 255,
                             (rgb[2] * 100 + 127) / 255);
        }
        return r;
}

static int add_bands(const struct picture *p, struct dither *d, uint8_t *band, struct buf *out)
{
        int r = 0;

        for (uint32_t y = 0; r == 0 && y < p->height; y += BAND) {
                unsigned rows = p->height - y < BAND ? p->height - y : BAND;

                for (unsigned i = 0; i < rows; i++)
                        dither_row(d, p->rgb + (size_t)(y + i) * p->width * 3, band + (size_t)i * p->width);
                r = add_band(band, p->width, rows, out);
        }
        return r;
}

static int write_all_of(const struct picture *p, struct buf *out)
{
        struct dither d = {p->width, calloc((size_t)p->width + 2, 3 * sizeof(int)),
                           calloc((size_t)p->width + 2, 3 * sizeof(int))};
        AUTO_FREE uint8_t *band = malloc((size_t)p->width * BAND);
        int r = d.now && d.next && band ? add_head(p, out) : -ENOMEM;

        if (r == 0)
                r = add_bands(p, &d, band, out);
        if (r == 0)
                r = buf_addc(out, "\x1b\\");
        free(d.now);
        free(d.next);
        return r;
}

int sixel_write(const struct picture *p, uint32_t width_max, uint32_t height_max, struct buf *out)
{
        struct picture small = {0};
        uint32_t w, h;
        int r;

        fit(p, width_max, height_max, &w, &h);
        if (w == p->width && h == p->height)
                return write_all_of(p, out);
        r = scale_down(p, w, h, &small);
        if (r == 0)
                r = write_all_of(&small, out);
        picture_done(&small);
        return r;
}
