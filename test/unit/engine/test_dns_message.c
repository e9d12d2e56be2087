#include "engine/net/dns_message.h"

#include <errno.h>

#include "tap.h"

/* "\0a" + flags + counts + question */
#define HEAD(flags) "\x12\x34" flags "\0\1\0\0\0\0\0\0"
#define NAME "\3www\7example\0"
#define A_IN "\0\1\0\1"
#define MESSAGE(literal) ((struct str){literal, sizeof(literal) - 1})

static void a_plain_query_is_passed_on(void)
{
        struct str m = MESSAGE(HEAD("\1\0") NAME A_IN "extra");
        struct dns_query q;

        CHECK_INT(dns_query_parse(m, &q), ==, 0);
        CHECK_INT(q.id, ==, 0x1234);
        CHECK_INT(q.end, ==, m.n - 5);
}

static void others_are_refused(void)
{
        struct dns_query q;

        CHECK_INT(dns_query_parse(MESSAGE(""), &q), ==, -EBADMSG);
        CHECK_INT(dns_query_parse(MESSAGE(HEAD("\x81\0") NAME A_IN), &q), ==, -EBADMSG);            /* an answer */
        CHECK_INT(dns_query_parse(MESSAGE(HEAD("\x28\0") NAME A_IN), &q), ==, DNS_NOT_IMPLEMENTED); /* an update */
        CHECK_INT(dns_query_parse(MESSAGE(HEAD("\1\0") NAME "\0\xfc\0\1"), &q), ==, DNS_REFUSED);   /* a whole zone */
        CHECK_INT(dns_query_parse(MESSAGE(HEAD("\1\0") NAME "\0\1\0"), &q), ==, DNS_FORMAT_ERROR);
        CHECK_INT(dns_query_parse(MESSAGE(HEAD("\1\0") "\3ww"), &q), ==, DNS_FORMAT_ERROR);
        CHECK_INT(dns_query_parse(MESSAGE(HEAD("\1\0") "\xc0\x0c" A_IN), &q), ==, DNS_FORMAT_ERROR); /* compressed */
        CHECK_INT(dns_query_parse(MESSAGE("\x12\x34\1\0\0\2\0\0\0\0\0\0" NAME A_IN NAME A_IN), &q), ==,
                  DNS_FORMAT_ERROR);
        CHECK_INT(q.id, ==, 0x1234);
}

static void a_name_has_255_bytes_at_most(void)
{
        char m[600] = "\x12\x34\1\0\0\1\0\0\0\0\0\0";
        struct dns_query q;

        for (size_t i = 12; i < sizeof(m); i += 64)
                m[i] = 63;
        CHECK_INT(dns_query_parse((struct str){m, sizeof(m)}, &q), ==, DNS_FORMAT_ERROR);
}

static void only_its_own_answer_is_taken(void)
{
        struct str m = MESSAGE(HEAD("\1\0") NAME A_IN);
        struct dns_query q;

        CHECK_INT(dns_query_parse(m, &q), ==, 0);
        CHECK(dns_is_answer(MESSAGE(HEAD("\x81\x80") NAME A_IN "rest"), m, &q, 0x1234));
        CHECK(dns_is_answer(MESSAGE(HEAD("\x81\x80") "\3wWw\7example\0" A_IN), m, &q, 0x1234));
        CHECK(!dns_is_answer(MESSAGE(HEAD("\x81\x80") NAME A_IN), m, &q, 0x1235));
        CHECK(!dns_is_answer(MESSAGE(HEAD("\1\x80") NAME A_IN), m, &q, 0x1234));
        CHECK(!dns_is_answer(MESSAGE(HEAD("\x81\x80") "\3xxx\7example\0" A_IN), m, &q, 0x1234));
        CHECK(!dns_is_answer(MESSAGE(HEAD("\x81\x80") NAME), m, &q, 0x1234));
        CHECK(dns_is_answer(MESSAGE("\x12\x34\x81\x81\0\0\0\0\0\0\0\0"), m, &q, 0x1234));
        CHECK(!dns_is_answer(MESSAGE("\x12\x34\x81\x80\0\0\0\0\0\0\0\0"), m, &q, 0x1234));
}

static void a_refusal_has_the_question(void)
{
        struct str m = MESSAGE(HEAD("\1\0") NAME A_IN);
        uint8_t out[DNS_REFUSAL_MAX];
        struct dns_query q;

        CHECK_INT(dns_query_parse(m, &q), ==, 0);
        CHECK_INT(dns_refuse(m, &q, DNS_SERVER_FAILURE, out), ==, m.n);
        CHECK_INT(memcmp(out, "\x12\x34\x81\x82\0\1\0\0\0\0\0\0" NAME A_IN, m.n), ==, 0);
        q.end = 0;
        CHECK_INT(dns_refuse(m, &q, DNS_FORMAT_ERROR, out), ==, 12);
        CHECK_INT(out[5], ==, 0);
}

int main(void)
{
        RUN(a_plain_query_is_passed_on);
        RUN(others_are_refused);
        RUN(a_name_has_255_bytes_at_most);
        RUN(only_its_own_answer_is_taken);
        RUN(a_refusal_has_the_question);
        return tap_done();
}
