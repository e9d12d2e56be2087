/* message.h - a line of output as a message: JSON or text.  Pure. */
#pragma once
#include "client/modes/line_reader.h"
#include "sandglass-modes.h"

#define MESSAGE_TYPE_MAX 128u

struct message_memory { /* what a message borrows; used again for each message, zeroed at first */
        struct buf text;
        char type[MESSAGE_TYPE_MAX + 1];
};
void message_memory_done(struct message_memory *m);

/* 0 or -ENOMEM. */
int message_decode(const struct line *line, bool is_stderr, struct message_memory *memory, struct sg_message *ret);
