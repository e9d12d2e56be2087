/* terminal_pictures.h - pictures on a terminal: which protocol it speaks, and a picture in this protocol. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

enum picture_protocol {
        PICTURES_AUTO, /* not known yet: terminal_pictures_find() */
        PICTURES_NONE,
        PICTURES_KITTY,
        PICTURES_ITERM,
        PICTURES_SIXEL,
};

int picture_protocol_parse(const char *name, enum picture_protocol *ret); /* "auto", "kitty", ...; -EINVAL */

/* What the terminal at our output can show, by the environment or by asking the terminal, which is given a second to answer.
 * PICTURES_NONE where the output is no terminal. */
enum picture_protocol terminal_pictures_find(void);
/* What a terminal's answers to the questions mean; pure.  *ret_is_complete: the last answer is there. */
enum picture_protocol terminal_pictures_answer(struct str answer, bool *ret_is_complete);

struct terminal_picture {
        struct str bytes; /* a PNG or JPEG file */
        bool is_png;
};
/* The picture as the bytes that show it.  -ENOTSUP: not this kind of picture in this protocol; -EINVAL: it is broken; -E2BIG. */
int terminal_pictures_write(enum picture_protocol protocol, const struct terminal_picture *p, struct buf *out);
