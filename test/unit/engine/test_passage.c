/* Where our accept rules stand in a chain of another firewall: chains as the well-known ones make them. */
#include <string.h>
#include <tap.h>

#include "base/auto.h"
#include "engine/net/passage_decide.h"

#define OURS "sandglass-3"

struct chain {
        const char *name;
        struct filter_rule rules[12]; /* until the first without a handle */
};

static const struct chain *others; /* until the first without a name */

static void copy_rules(const struct chain *c, struct filter_rules *ret)
{
        for (size_t i = 0; i < ARRAY_LEN(c->rules) && c->rules[i].handle; i++)
                *filter_rules_add(ret) = c->rules[i];
}

static int rules_of(void *arg, const char *chain, struct filter_rules *ret)
{
        (void)arg;
        for (const struct chain *c = others; c && c->name; c++)
                if (strcmp(c->name, chain) == 0)
                        copy_rules(c, ret);
        return 0;
}

static struct passage_decision decide(const struct chain *base, bool drops, const struct chain *more)
{
        AUTO(filter_rules_done) struct filter_rules rules = {0};
        struct passage_decision d = {.before = 999};

        others = more;
        copy_rules(base, &rules);
        if (passage_decide(&rules, drops, OURS, rules_of, NULL, &d) < 0)
                d.count = 999; /* no case expects that */
        return d;
}

#define JUMP(h, to)                                                                                                    \
        {                                                                                                              \
                .handle = (h), .verdict = FILTER_JUMPS, .chain = (to)                                                  \
        }
#define GOTO(h, to)                                                                                                    \
        {                                                                                                              \
                .handle = (h), .verdict = FILTER_GOES_TO, .chain = (to)                                                \
        }
#define SOME(h, v)                                                                                                     \
        {                                                                                                              \
                .handle = (h), .verdict = (v), .is_conditional = true                                                  \
        }
#define ALL(h, v)                                                                                                      \
        {                                                                                                              \
                .handle = (h), .verdict = (v)                                                                          \
        }
#define OUR(h)                                                                                                         \
        {                                                                                                              \
                .handle = (h), .verdict = FILTER_ACCEPTS, .is_conditional = true, .comment = OURS                      \
        }

static void a_chain_that_accepts_needs_nothing(void)
{
        const struct chain empty = {0}, some = {.rules = {SOME(1, FILTER_DROPS), ALL(2, FILTER_GOES_ON)}};
        const struct chain all = {.rules = {ALL(1, FILTER_ACCEPTS), ALL(2, FILTER_DROPS)}};

        CHECK_INT(decide(&empty, false, NULL).need, ==, PASSAGE_NOT_NEEDED);
        CHECK_INT(decide(&some, false, NULL).need, ==, PASSAGE_NOT_NEEDED);
        CHECK_INT(decide(&all, true, NULL).need, ==, PASSAGE_NOT_NEEDED);
}

static void docker_drops_by_policy(void)
{
        const struct chain docker[] = {{"DOCKER-USER", {ALL(10, FILTER_RETURNS)}},
                                       {"DOCKER-FORWARD", {SOME(11, FILTER_JUMPS), SOME(12, FILTER_ACCEPTS)}},
                                       {0}};
        const struct chain forward = {.rules = {JUMP(1, "DOCKER-USER"), JUMP(2, "DOCKER-FORWARD")}};
        const struct chain with_ours = {.rules = {JUMP(1, "DOCKER-USER"), JUMP(2, "DOCKER-FORWARD"), OUR(3), OUR(4)}};
        struct passage_decision d = decide(&forward, true, docker);

        CHECK_INT(d.need, ==, PASSAGE_MISSING);
        CHECK_INT(d.before, ==, 0); /* at the end, behind what the operator has in DOCKER-USER */
        CHECK_INT(decide(&with_ours, true, docker).need, ==, PASSAGE_IN_PLACE);
        CHECK_INT(decide(&forward, false, docker).need, ==, PASSAGE_NOT_NEEDED);
}

static void ufw_is_passed_before_it_logs_a_block(void)
{
        const struct chain ufw[] = {{"ufw-before-forward", {SOME(10, FILTER_ACCEPTS)}},
                                    {"ufw-after-logging-forward", {SOME(11, FILTER_GOES_ON)}},
                                    {"ufw-reject-forward", {ALL(12, FILTER_DROPS)}},
                                    {0}};
        const struct chain forward = {.rules = {JUMP(1, "ufw-before-forward"), JUMP(2, "ufw-after-logging-forward"),
                                                JUMP(3, "ufw-reject-forward")}};
        const struct chain behind = {
                .rules = {JUMP(1, "ufw-before-forward"), JUMP(2, "ufw-after-logging-forward"), OUR(4), OUR(5)}};

        CHECK_INT(decide(&forward, true, ufw).before, ==, 2);
        CHECK_INT(decide(&forward, false, ufw).need, ==, PASSAGE_MISSING); /* it refuses by a rule instead */
        CHECK_INT(decide(&forward, false, ufw).before, ==, 2);
        CHECK_INT(decide(&behind, true, ufw).need, ==, PASSAGE_MISSING);
        CHECK_INT(decide(&behind, true, ufw).count, ==, 2);
}

static void firewalld_refuses_in_a_chain_it_goes_to(void)
{
        const struct chain firewalld[] = {
                {"filter_FORWARD_ZONES", {SOME(10, FILTER_GOES_TO), GOTO(11, "filter_FWD_public")}},
                {"filter_FWD_public", {JUMP(12, "filter_FWD_public_pre"), ALL(13, FILTER_DROPS)}},
                {"filter_FWD_public_pre", {{0}}},
                {0}};
        const struct chain forward = {.rules = {SOME(1, FILTER_ACCEPTS), SOME(2, FILTER_DROPS),
                                                JUMP(3, "filter_FORWARD_ZONES"), ALL(4, FILTER_DROPS)}};

        CHECK_INT(decide(&forward, false, firewalld).need, ==, PASSAGE_MISSING);
        CHECK_INT(decide(&forward, false, firewalld).before, ==, 3);
}

static void a_last_rule_that_drops_is_like_a_policy(void)
{
        const struct chain forward = {.rules = {SOME(1, FILTER_DROPS), ALL(7, FILTER_DROPS)}};
        const struct chain behind = {.rules = {ALL(7, FILTER_DROPS), OUR(8), OUR(9)}};
        const struct chain before = {.rules = {SOME(1, FILTER_DROPS), OUR(8), OUR(9), ALL(7, FILTER_DROPS)}};
        const struct chain half = {.rules = {OUR(8), ALL(7, FILTER_DROPS)}};
        const struct chain twice = {.rules = {OUR(2), OUR(3), OUR(8), OUR(9), ALL(7, FILTER_DROPS)}};

        CHECK_INT(decide(&forward, false, NULL).before, ==, 7);
        CHECK_INT(decide(&behind, false, NULL).need, ==, PASSAGE_MISSING);
        CHECK_INT(decide(&before, false, NULL).need, ==, PASSAGE_IN_PLACE);
        CHECK_INT(decide(&half, false, NULL).need, ==, PASSAGE_MISSING);
        CHECK_INT(decide(&twice, false, NULL).need, ==, PASSAGE_MISSING); /* two are enough */
        CHECK_INT(decide(&twice, false, NULL).count, ==, 4);
}

static void what_is_no_longer_needed_is_counted(void)
{
        const struct chain forward = {.rules = {OUR(1), OUR(2)}};
        struct passage_decision d = decide(&forward, false, NULL);

        CHECK_INT(d.need, ==, PASSAGE_NOT_NEEDED);
        CHECK_INT(d.count, ==, 2);
}

static void a_chain_that_calls_itself_ends(void)
{
        const struct chain loop[] = {{"a", {JUMP(10, "b")}}, {"b", {JUMP(11, "a")}}, {0}};
        const struct chain forward = {.rules = {JUMP(1, "a"), ALL(2, FILTER_RETURNS), OUR(3), OUR(4)}};

        CHECK_INT(decide(&forward, true, loop).need, ==, PASSAGE_MISSING);
        CHECK_INT(decide(&forward, true, loop).before, ==, 2); /* what returns from the first chain meets the policy */
}

static void owners_have_names(void)
{
        AUTO(filter_rules_done) struct filter_rules ufw = {0}, none = {0};
        const struct chain forward = {.rules = {SOME(1, FILTER_DROPS), JUMP(2, "ufw-before-forward")}};

        copy_rules(&forward, &ufw);
        CHECK_STR(passage_owner("filter", &ufw), "ufw");
        CHECK_STR(passage_owner("firewalld", &none), "firewalld");
        CHECK(!passage_owner("filter", &none));
}

int main(void)
{
        RUN(a_chain_that_accepts_needs_nothing);
        RUN(docker_drops_by_policy);
        RUN(ufw_is_passed_before_it_logs_a_block);
        RUN(firewalld_refuses_in_a_chain_it_goes_to);
        RUN(a_last_rule_that_drops_is_like_a_policy);
        RUN(what_is_no_longer_needed_is_counted);
        RUN(a_chain_that_calls_itself_ends);
        RUN(owners_have_names);
        return tap_done();
}
