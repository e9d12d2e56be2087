/* notebook_outputs.h - the events of a run as the outputs of a notebook's cell.  Pure.
 *
 * Written as Jupyter writes them: keys sorted, text in lines, what a stream says in a row in one output. */
#pragma once
#include "wire/json/json_text.h"
#include "client/code/run_stream.h"

struct err;

#define NOTEBOOK_OUTPUTS_MAX (256u << 20) /* bytes that the outputs of one cell may need */

struct notebook_outputs {
        struct json_style style;
        struct buf text;         /* JSON: the list so far, without its end */
        struct buf stream;       /* of the stream that is being written */
        bool is_stderr;          /* which one that is */
        size_t count;            /* of outputs */
        int64_t execution_count; /* 0: not told */
        bool has_failed;
        struct buf failure; /* "NameError: name 'x' is not defined" */
        struct buf traceback;
};

void notebook_outputs_init(struct notebook_outputs *o, const struct json_style *style);
void notebook_outputs_done(struct notebook_outputs *o);
/* A run_event_fn.  ERR_TOO_LARGE: past NOTEBOOK_OUTPUTS_MAX. */
int notebook_outputs_event(const struct run_event *e, void *outputs, struct err *err);
/* The list is complete: into `out`. */
int notebook_outputs_finish(struct notebook_outputs *o, struct buf *out, struct err *err);
