/* command_output.h - what a command wrote to stdout or stderr, kept in bounded memory: its beginning and its end.
 *
 * Up to OUTPUT_FIRST bytes are kept from the beginning, and after them the newest OUTPUT_LAST bytes.  The owner is asked before
 * memory is taken (of a budget, say); when it refuses, less is kept. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define OUTPUT_FIRST (6u << 20)
#define OUTPUT_LAST (2u << 20)
#define OUTPUT_LEAST (16u << 10) /* of the end: that much is kept unasked */

struct command_output {
        bool (*take)(void *arg, size_t bytes); /* may so many more bytes be kept? */
        void *arg;
        size_t taken;
        struct buf first;
        uint8_t *last; /* owned: a ring; NULL: not needed yet */
        size_t last_cap;
        uint64_t total;           /* bytes that came */
        size_t cut_from, cut_end; /* of the bytes that are kept: not in the text (command_output_fit()) */
};

void command_output_init(struct command_output *o, bool (*take)(void *arg, size_t bytes), void *arg);
void command_output_done(struct command_output *o); /* the owner knows what was taken */
void command_output_add(struct command_output *o,
                        struct str piece); /* what there is no room for is counted, and left out */
/* All came.  Leave out more of the middle, so that the text takes at most json_max bytes in JSON (and a few for the line that says
 * so): there a control character becomes six. */
void command_output_fit(struct command_output *o, size_t json_max);
uint64_t
command_output_omitted(const struct command_output *o); /* bytes between the beginning and the end of the text */
/* As text.  Where bytes were left out there is a line that says how many.  NULL: out of memory. */
json_t *command_output_text(const struct command_output *o);
