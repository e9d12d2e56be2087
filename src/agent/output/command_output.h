/* command_output.h - what a command wrote to stdout or stderr, kept in bounded memory: its beginning and its end.
 *
 * Up to OUTPUT_FIRST bytes are kept from the beginning, and after them the newest OUTPUT_LAST bytes.  All outputs of the role
 * share a budget; when that is used up, less is kept of each new one. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define OUTPUT_FIRST (6u << 20)
#define OUTPUT_LAST (2u << 20)
#define OUTPUT_BUDGET (512u << 20)

struct command_output {
        size_t *budget; /* borrowed: bytes that all outputs hold */
        size_t taken;   /* of it */
        struct buf first;
        uint8_t *last; /* owned: a ring; NULL: not needed yet */
        size_t last_cap;
        uint64_t total; /* bytes that came */
};

void command_output_init(struct command_output *o, size_t *budget);
void command_output_done(struct command_output *o);
void command_output_add(struct command_output *o,
                        struct str piece); /* what there is no room for is counted, and left out */
uint64_t
command_output_omitted(const struct command_output *o); /* bytes between the beginning and the end that are kept */
/* As text.  Where bytes were left out there is a line that says how many.  NULL: out of memory. */
json_t *command_output_text(const struct command_output *o);
