/* budget.h - what the exchanges of one token may hold, so that others always find memory and connections.
 *
 * Whatever an exchange holds is given back when it ends. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct exchange;

/* Of how much memory and how many connections this is about: all that the role has, and the part of one token. */
#define BUDGET_BODIES (256u << 20) /* bodies, answers of others, and answers in JSON */
#define BUDGET_BODIES_KEY (BUDGET_BODIES / 2)
#define BUDGET_OUTPUT (512u << 20) /* output of commands, until the client has it */
#define BUDGET_OUTPUT_KEY (BUDGET_OUTPUT / 4)
#define BUDGET_EXCHANGES 4096u /* connections of the edges */
#define BUDGET_EXCHANGES_KEY (BUDGET_EXCHANGES / 2)
#define BUDGET_STREAMS 1024u
#define BUDGET_STREAMS_KEY 256u

/* One more request of this token.  false: as many are open as may be, and the request is answered. */
bool exchange_may_begin(struct exchange *x);
/* An answer without an end of its own follows, which keeps a connection.  false: there are as many as may be, in all or of the
 * token, and the request is answered. */
bool exchange_may_stream(struct exchange *x);

/* Bytes that are kept in memory.  false: there are no more of them, and the request is answered. */
bool exchange_reserve_body(struct exchange *x, size_t bytes);
bool exchange_try_reserve(struct exchange *x, size_t bytes); /* the request is not answered */
/* An answer of so many bytes is queued, in place of all that was reserved to make it.  Small ones cost nothing. */
bool exchange_try_answer(struct exchange *x, size_t bytes);

/* More bytes of the output of a command (command_output.h). */
bool exchange_take_output(void *exchange, size_t bytes);
/* An answer of so many bytes is queued, in place of the output that was collected. */
bool exchange_try_output_answer(struct exchange *x, size_t bytes);
void exchange_give_back(struct exchange *x); /* all of it: the exchange ends */
