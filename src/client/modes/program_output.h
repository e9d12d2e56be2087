/* program_output.h - what a program prints, on its way to the caller: counted, in lines, as messages. */
#pragma once
#include "client/error.h"
#include "client/modes/message.h"

struct program_output {
        const struct sg_program *program; /* borrowed */
        struct line_reader out, err;
        struct message_memory memory;
        struct sg_program_end end; /* counts so far */
        uint64_t bytes, bytes_max;
        struct sg_error why; /* of the first failure; kind SG_OK: none */
};

void program_output_init(struct program_output *o, const struct sg_program *program);
void program_output_done(struct program_output *o);
/* A piece of standard output, or of standard error.  SG_CANCELLED: the caller does not want more; SG_TOO_LARGE. */
int program_output_feed(struct program_output *o, bool is_stderr, struct str piece, struct sg_error *err);
int program_output_finish(struct program_output *o, struct sg_error *err); /* there is no more */
