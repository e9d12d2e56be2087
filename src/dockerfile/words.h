/* words.h - the words of an instruction: split at blanks, with quotes, or as a JSON array.  Pure. */
#pragma once
#include <stddef.h>

#include "base/auto.h"
#include "base/str.h"

struct words {     /* zeroed: none */
        char **at; /* owned, each NUL-terminated */
        size_t count;
};

/* All of these: 0, or -ENOMEM. */
int words_add(struct words *w, struct str word);
int words_split(struct words *w, struct str text); /* at blanks, and nothing else matters */
/* At blanks outside quotes.  Quotes and escapes stay in the words as they are: expand.h removes them. */
int words_split_quoted(struct words *w, struct str text, char escape);
/* The exec form, ["a", "b"].  1: it was, and its words were added; 0: not JSON, the shell form; -EINVAL: an array, but not of
 * texts without NUL; -ENOMEM. */
int words_from_json(struct words *w, struct str text);
void words_done(struct words *w);
#define AUTO_WORDS AUTO(words_done)

static inline bool char_is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}
