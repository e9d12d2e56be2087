/* expand.h - variables in the words of a Dockerfile, by Docker's rules.  Pure.
 *
 * Quotes and escapes are removed.  $NAME, ${NAME}, ${NAME:-word}, ${NAME-word}, ${NAME:+word}, ${NAME+word}, ${NAME:?word},
 * ${NAME?word}; nothing is replaced within single quotes. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

#define EXPAND_NAME_MAX 256

enum expand_known {
        EXPAND_UNSET,
        EXPAND_SET,
        EXPAND_ELSEWHERE, /* it has a value, which only the server knows */
};

struct expand {
        char escape;
        /* *ret (EXPAND_SET only) is borrowed for the call. */
        enum expand_known (*look_up)(void *arg, const char *name, const char **ret);
        void *arg;
        /* A name without a value here stays as ${NAME}, for the server; otherwise it is replaced by nothing, and noted. */
        bool keeps_unknown;
        bool is_document; /* a here-document: quotes are text, and an escape stands before $ and itself only */

        /* Results, beside the text. */
        bool has_kept;                 /* some ${NAME} was kept */
        bool has_dollar;               /* there is a $ that is no reference */
        char unknown[EXPAND_NAME_MAX]; /* the first name without a value and without a word in its place; "": none */
        char fault[200];               /* after -EINVAL: what is wrong */
};

/* Adds the word to out.  -EINVAL: see fault; -E2BIG, -ENOMEM. */
int expand_word(struct expand *x, struct str word, struct buf *out);
