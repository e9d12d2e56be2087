/* The states of one request and its answer in the edge: in which order both halves may begin and end. */
#include "edge/proxy/proxy_exchange.h"
#include "tap.h"

static struct proxy_exchange begun(void)
{
        struct proxy_exchange x = {0};

        exchange_begin(&x);
        return x;
}

static void the_answer_follows_the_request(void)
{
        struct proxy_exchange x = begun();

        CHECK(exchange_is_sending(&x) && !exchange_is_answered(&x));
        exchange_request_ended(&x);
        CHECK(exchange_is_sent(&x) && !exchange_is_answered(&x));
        exchange_answer_began(&x);
        CHECK(exchange_is_sent(&x) && exchange_is_answered(&x));
        CHECK_INT(x.state, ==, EXCHANGE_ANSWERED_SENT);
}

static void an_answer_may_begin_while_the_request_goes_on(void)
{
        struct proxy_exchange x = begun();

        exchange_answer_began(&x);
        CHECK(exchange_is_sending(&x) && exchange_is_answered(&x));
        exchange_request_ended(&x);
        CHECK_INT(x.state, ==, EXCHANGE_ANSWERED_SENT);
}

static void a_refused_request_may_still_be_answered(void)
{
        struct proxy_exchange x = begun();

        exchange_request_refused(&x);
        CHECK(exchange_is_refused(&x) && !exchange_is_sending(&x) && !exchange_is_sent(&x));
        exchange_request_refused(&x); /* said twice: nothing changes */
        CHECK_INT(x.state, ==, EXCHANGE_REFUSED);
        exchange_answer_began(&x);
        CHECK(exchange_is_refused(&x) && exchange_is_answered(&x));
        exchange_request_ended(&x); /* the rest of the body was read and dropped */
        CHECK_INT(x.state, ==, EXCHANGE_ANSWERED_SENT);
}

static void a_request_that_is_sent_cannot_be_refused(void)
{
        struct proxy_exchange x = begun();

        exchange_request_ended(&x);
        exchange_request_refused(&x);
        CHECK_INT(x.state, ==, EXCHANGE_SENT);
}

static void a_wait_begins_the_same_request_again(void)
{
        struct proxy_exchange x = begun();

        exchange_begin(&x);
        CHECK_INT(x.state, ==, EXCHANGE_SENDING);
}

static void a_connection_serves_one_request_after_the_other(void)
{
        struct proxy_exchange x = begun();

        exchange_request_ended(&x);
        exchange_answer_began(&x);
        exchange_reset(&x);
        CHECK_INT(x.state, ==, EXCHANGE_NONE);
        exchange_begin(&x);
        CHECK_INT(x.state, ==, EXCHANGE_SENDING);
}

static void a_tunnel_opens_the_upward_half_again(void)
{
        struct proxy_exchange x = begun();

        exchange_request_ended(&x);
        exchange_tunnel_began(&x);
        CHECK(exchange_is_sending(&x) && exchange_is_answered(&x));
}

int main(void)
{
        RUN(the_answer_follows_the_request);
        RUN(an_answer_may_begin_while_the_request_goes_on);
        RUN(a_refused_request_may_still_be_answered);
        RUN(a_request_that_is_sent_cannot_be_refused);
        RUN(a_wait_begins_the_same_request_again);
        RUN(a_connection_serves_one_request_after_the_other);
        RUN(a_tunnel_opens_the_upward_half_again);
        return tap_done();
}
