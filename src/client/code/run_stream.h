/* run_stream.h - decodes what a code interpreter answers to POST /execute: a JSON object on each line.  Pure: bytes in, events
 * out, in any pieces.
 *
 * Strict: a line that is no JSON object, a field of a wrong type or a line past RUN_LINE_MAX ends the decoding with an error that
 * names the line.  Types of events that are not known are passed on as RUN_OTHER. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct err;

#define RUN_LINE_MAX (256u << 20) /* a picture or a table is one line */

enum run_event_type {
        RUN_COUNT,  /* the kernel accepted the code: `count` */
        RUN_STDOUT, /* `text` */
        RUN_STDERR, /* `text` */
        RUN_RESULT, /* a value or a display: `fields`, `is_main` */
        RUN_ERROR,  /* `name`, `value`, `traceback` */
        RUN_KEEPALIVE,
        RUN_END, /* always the last one */
        RUN_OTHER,
};

/* What a result may hold, each with its MIME type. */
enum run_field {
        RUN_TEXT,
        RUN_HTML,
        RUN_MARKDOWN,
        RUN_SVG,
        RUN_PNG,
        RUN_JPEG,
        RUN_PDF,
        RUN_LATEX,
        RUN_JSON,
        RUN_JAVASCRIPT,
        RUN_DATA,
        RUN_CHART,
        RUN_FIELD_COUNT,
};
const char *run_field_mime(enum run_field field);

struct run_event { /* everything is borrowed for the call */
        enum run_event_type type;
        struct str line; /* as it came, without its end */
        int64_t count;
        bool is_main;
        struct str text;                    /* UTF-8, may hold NUL */
        struct str name, value, traceback;  /* likewise */
        struct str fields[RUN_FIELD_COUNT]; /* JSON (json_text.h); empty: not there */
        struct str extra;                   /* a JSON object {MIME type: value}; empty: not there */
};

/* IPython's tracebacks come with their parts joined: puts line ends back behind the rule and the title at the beginning of one.
 * Others are not changed. */
int run_traceback(struct str traceback, struct buf *out);

/* Negative, with *err set, ends the decoding; that number is returned. */
typedef int run_event_fn(const struct run_event *e, void *arg, struct err *err);

struct run_stream {
        struct buf line;  /* its beginning, until the rest comes */
        struct buf texts; /* of the event that is being told */
        size_t line_max;
        uint64_t line_number;
        bool is_over; /* RUN_END was told; what follows is dropped */
};

void run_stream_init(struct run_stream *s, size_t line_max);
void run_stream_done(struct run_stream *s);
int run_stream_feed(struct run_stream *s, struct str piece, run_event_fn *on_event, void *arg, struct err *err);
/* The answer is complete.  ERR_UNAVAILABLE: it ended before the run did. */
int run_stream_finish(struct run_stream *s, run_event_fn *on_event, void *arg, struct err *err);

/* A line that run_stream_feed() told before, decoded again; `texts` keeps what the event borrows. */
int run_event_decode(struct str line, struct buf *texts, struct run_event *ret, struct err *err);
