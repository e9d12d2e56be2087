/* input.h - code that is typed line by line: which language a file is in, and whether what was typed so far is complete.  Pure. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

/* By the ending of a file's name; NULL: it says nothing. */
const char *language_of_file(const char *path);
/* What the interpreter calls it: "js" is javascript.  Unknown names as they are. */
const char *language_name(const char *given);

enum input_state {
        INPUT_COMPLETE,
        INPUT_OPEN,  /* a bracket, a string or a line is not closed */
        INPUT_BLOCK, /* an indented block: a blank line ends it */
};
/* Of lines that each end in \n.  A guess: the kernel has the last word. */
enum input_state input_state_of(const char *language, struct str text);
