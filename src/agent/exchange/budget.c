#include "agent/exchange/budget.h"

#include <string.h>

#include "agent/exchange/exchange.h"

#define ANSWER_SMALL (16u << 10)

struct key_use { /* what all exchanges of one token hold, and what of all is counted nowhere else */
        size_t reserved, output;
        unsigned exchanges, streams, streams_of_all;
};

static struct key_use key_use(const struct exchange *x)
{
        struct key_use use = {0};

        LIST_EACH (at, &x->agent->exchanges) {
                const struct exchange *other = LIST_ENTRY(at, struct exchange, node);

                use.streams_of_all += other->is_stream;
                if (strcmp(other->key, x->key) != 0)
                        continue;
                use.reserved += other->reserved;
                use.output += other->output;
                use.exchanges++;
                use.streams += other->is_stream;
        }
        return use;
}

/* ---- connections ---- */

bool exchange_may_begin(struct exchange *x)
{
        if (key_use(x).exchanges <= BUDGET_EXCHANGES_KEY) /* this one is among them */
                return true;
        tell_error(x, 429, NULL, "too many requests at a time: %u of one token may be open", BUDGET_EXCHANGES_KEY);
        return false;
}

bool exchange_may_stream(struct exchange *x)
{
        struct key_use use = key_use(x);

        x->is_stream = use.streams_of_all < BUDGET_STREAMS && use.streams < BUDGET_STREAMS_KEY;
        if (!x->is_stream)
                tell_error(x, 429, NULL, "too many event streams: %u at a time may be open, %u of one token",
                           BUDGET_STREAMS, BUDGET_STREAMS_KEY);
        return x->is_stream;
}

/* ---- bodies and answers ---- */

bool exchange_try_reserve(struct exchange *x, size_t bytes)
{
        if (bytes == 0)
                return true;
        if (bytes > BUDGET_BODIES - x->agent->body_bytes || bytes > BUDGET_BODIES_KEY - key_use(x).reserved)
                return false;
        x->agent->body_bytes += bytes;
        x->reserved += bytes;
        return true;
}

bool exchange_reserve_body(struct exchange *x, size_t bytes)
{
        if (exchange_try_reserve(x, bytes)) {
                x->reserved_body += bytes;
                return true;
        }
        tell_error(x, 503, NULL, "too many large requests at a time, try again");
        return false;
}

bool exchange_try_answer(struct exchange *x, size_t bytes)
{
        size_t want = x->reserved_body + (bytes > ANSWER_SMALL ? bytes : 0);

        if (want > x->reserved)
                return exchange_try_reserve(x, want - x->reserved);
        x->agent->body_bytes -= x->reserved - want;
        x->reserved = want;
        return true;
}

/* ---- output of commands ---- */

bool exchange_take_output(void *exchange, size_t bytes)
{
        struct exchange *x = exchange;

        if (bytes > BUDGET_OUTPUT - x->agent->output_bytes || bytes > BUDGET_OUTPUT_KEY - key_use(x).output)
                return false;
        x->agent->output_bytes += bytes;
        x->output += bytes;
        return true;
}

bool exchange_try_output_answer(struct exchange *x, size_t bytes)
{
        if (bytes > x->output)
                return exchange_take_output(x, bytes - x->output);
        x->agent->output_bytes -= x->output - bytes;
        x->output = bytes;
        return true;
}

void exchange_give_back(struct exchange *x)
{
        x->agent->body_bytes -= x->reserved;
        x->agent->output_bytes -= x->output;
        x->reserved = x->output = 0;
}
