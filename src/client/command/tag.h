/* tag.h - the name of a command whose caller gave none: by it the command is found before its number is known. */
#pragma once
#include "client/sandbox/box.h"

#define TAG_OURS_BYTES 40u

void tag_make(char ret[TAG_OURS_BYTES]);
bool tag_is_ours(const char *tag); /* other programs are not told it */
/* Kill the command, which may be about to start: the wait for it has a bound. */
void tag_kill(struct sg_sandbox *box, const char *tag);
