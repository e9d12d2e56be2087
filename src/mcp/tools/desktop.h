/* desktop.h - the tools of a desktop: how long their programs may take, and what is said when they fail. */
#pragma once
#include <stdint.h>

#include "base/str.h"

struct call;
struct once_output;

#define DESKTOP_TIMEOUT_S 30u
#define DESKTOP_PICTURE_BYTES_MAX (8u << 20)

uint32_t desktop_typing_s(struct str text); /* the time limit for typing this text */
/* Each finishes the call. */
void desktop_took_screenshot(struct call *c, const struct once_output *o);
void desktop_clicked(struct call *c, const struct once_output *o); /* or pressed a key */
void desktop_typed(struct call *c, const struct once_output *o);
