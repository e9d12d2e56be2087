/* png.h - decodes PNG pictures into plain pixels, for terminals that need these.  Pure; bounded by PNG_PIXELS_MAX. */
#pragma once
#include <stdint.h>

#include "base/str.h"

#define PNG_SIDE_MAX 16384u
#define PNG_PIXELS_MAX (32u << 20)

struct picture {
        uint32_t width, height;
        uint8_t *rgb; /* owned: 3 bytes for each pixel, in rows; what is transparent shows white */
};

bool png_is(struct str bytes); /* does it begin like one? */
/* -EINVAL: broken; -E2BIG: more pixels than are allowed; -ENOTSUP: interlaced, which is not decoded; -ENOMEM.  On success *ret is
 * the caller's: picture_done(). */
int png_decode(struct str bytes, struct picture *ret);
void picture_done(struct picture *p);
