/* sixel.h - a picture as sixels, for terminals that draw these: a fixed palette, with dithering.  Pure. */
#pragma once
#include "base/buf.h"
#include "cli/code/png.h"

/* Scaled down to at most so many pixels; appended to `out`.  -E2BIG, -ENOMEM. */
int sixel_write(const struct picture *p, uint32_t width_max, uint32_t height_max, struct buf *out);
