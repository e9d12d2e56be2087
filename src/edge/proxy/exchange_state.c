#include <assert.h>

#include "edge/proxy/proxy_exchange.h"

#define TO(s) (1u << (s))

static const unsigned exchange_may[] = {
        [EXCHANGE_NONE] = TO(EXCHANGE_NONE) | TO(EXCHANGE_SENDING) | TO(EXCHANGE_SENT),
        [EXCHANGE_SENDING] = TO(EXCHANGE_NONE) | TO(EXCHANGE_SENDING) | TO(EXCHANGE_REFUSED) | TO(EXCHANGE_SENT) |
                             TO(EXCHANGE_ANSWERED_SENDING),
        [EXCHANGE_REFUSED] = TO(EXCHANGE_NONE) | TO(EXCHANGE_SENT) | TO(EXCHANGE_ANSWERED_REFUSED),
        [EXCHANGE_SENT] = TO(EXCHANGE_NONE) | TO(EXCHANGE_ANSWERED_SENT) | TO(EXCHANGE_ANSWERED_SENDING),
        [EXCHANGE_ANSWERED_SENDING] = TO(EXCHANGE_ANSWERED_REFUSED) | TO(EXCHANGE_ANSWERED_SENT),
        [EXCHANGE_ANSWERED_REFUSED] = TO(EXCHANGE_ANSWERED_SENT),
        [EXCHANGE_ANSWERED_SENT] = TO(EXCHANGE_NONE),
};

static void exchange_go(struct proxy_exchange *x, enum exchange_state next)
{
        assert(exchange_may[x->state] & TO(next));
        x->state = next;
}

void exchange_reset(struct proxy_exchange *x)
{
        exchange_go(x, EXCHANGE_NONE);
}

void exchange_begin(struct proxy_exchange *x)
{
        exchange_go(x, EXCHANGE_SENDING);
}

void exchange_request_ended(struct proxy_exchange *x)
{
        exchange_go(x, exchange_is_answered(x) ? EXCHANGE_ANSWERED_SENT : EXCHANGE_SENT);
}

void exchange_request_refused(struct proxy_exchange *x)
{
        if (exchange_is_sending(x))
                exchange_go(x, exchange_is_answered(x) ? EXCHANGE_ANSWERED_REFUSED : EXCHANGE_REFUSED);
}

void exchange_answer_began(struct proxy_exchange *x)
{
        static const enum exchange_state answered[] = {
                [EXCHANGE_SENDING] = EXCHANGE_ANSWERED_SENDING,
                [EXCHANGE_REFUSED] = EXCHANGE_ANSWERED_REFUSED,
                [EXCHANGE_SENT] = EXCHANGE_ANSWERED_SENT,
        };

        assert(x->state >= EXCHANGE_SENDING && x->state <= EXCHANGE_SENT);
        exchange_go(x, answered[x->state]);
}

void exchange_tunnel_began(struct proxy_exchange *x)
{
        exchange_go(x, EXCHANGE_ANSWERED_SENDING);
}
