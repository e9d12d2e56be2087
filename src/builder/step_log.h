/* step_log.h - what a step says, as entries for control: lines of output, cut and bounded, always valid UTF-8.
 *
 * The first STEP_LOG_FIRST bytes of a step are sent as they come.  Of the rest only the last STEP_LOG_LAST bytes are kept,
 * and sent at the end, behind a line that says how much is missing.  Entries of one iteration of the loop leave together. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/str.h"
#include "io/loop.h"

#define STEP_LOG_FIRST (2u << 20)
#define STEP_LOG_LAST (64u << 10)
#define STEP_LOG_LINE 4096u
#define STEP_LOG_STREAMS 4

struct channel;

struct step_log_stream {
        struct buf line;    /* the line that has not ended yet */
        bool is_cut;        /* it is longer than STEP_LOG_LINE: the rest is dropped */
        const char *prefix; /* static: "[stdout]: " */
        const char *level;  /* static: "info" */
};

struct step_log {
        struct loop *loop;
        struct channel *channel; /* borrowed; NULL: nobody listens */
        json_int_t req;
        struct step_log_stream streams[STEP_LOG_STREAMS];
        json_t *entries; /* owned; NULL: none wait */
        struct task send;
        uint64_t sent;    /* bytes */
        uint64_t dropped; /* bytes that no entry has */
        struct list tail; /* entries kept for the end */
        size_t tail_bytes;
};

void step_log_init(struct step_log *l, struct loop *loop, struct channel *ch, json_int_t req);
void step_log_done(struct step_log *l);
/* Which number stands for which output; before the first bytes of it. */
void step_log_stream(struct step_log *l, unsigned stream, const char *prefix, const char *level);
void step_log_bytes(struct step_log *l, unsigned stream, struct str bytes); /* output, with lines in it */
void step_log_line(struct step_log *l, const char *level, const char *fmt, ...) PRINTF(3, 4);
void step_log_flush(struct step_log *l, unsigned stream); /* the last line of it, though it has no end */
/* Send everything, also lines without an end and the tail. */
void step_log_finish(struct step_log *l);

/* The text as valid UTF-8, without NUL, at most max bytes, appended; what is no UTF-8 becomes U+FFFD. */
int utf8_add(struct buf *out, struct str text, size_t max);
