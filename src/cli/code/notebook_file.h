/* notebook_file.h - a notebook (nbformat 4) as text: its cells are found, and new outputs are put into it.  Pure.
 *
 * Nothing but the outputs and execution counts of cells that were run is changed: every other byte stays as it is. */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "wire/json/json_text.h"

struct err;

#define NOTEBOOK_MAX (256u << 20)

struct notebook_cell {   /* one that can be run: code, and not blank */
        struct str json; /* borrowed from the notebook's text, as the others */
        struct buf source;
        bool may_fail;      /* tagged "raises-exception" */
        bool is_run;        /* the three below count */
        struct buf outputs; /* JSON: the new list */
        int64_t count;      /* 0: not told */
};

struct notebook {
        struct str text; /* borrowed */
        struct str root;
        struct notebook_cell *cells; /* owned */
        size_t cell_count;
        char *language; /* owned; NULL: the file does not say */
        struct json_style style;
        char indent[16];
};

/* ERR_INVALID: no JSON (says in which line), no notebook, or of a version that is not known.  On success *ret is the caller's:
 * notebook_done(). */
int notebook_parse(struct str text, struct notebook *ret, struct err *err);
void notebook_done(struct notebook *n);
/* The whole file with the outputs of the cells that were run. */
int notebook_write(const struct notebook *n, struct buf *out);
