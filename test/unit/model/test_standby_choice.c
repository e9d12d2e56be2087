#include "model/standby/standby_choice.h"

#include <tap.h>

#include "base/auto.h"

#define MINUTE (60ll * 1000 * 1000 * 1000)
#define NOW (1000 * MINUTE)

static void the_template_used_last_comes_first(void)
{
        struct standby_use uses[] = {{NOW - 5 * MINUTE, "b"}, {NOW - MINUTE, "a"}, {NOW - 29 * MINUTE, "c"}};

        CHECK_INT(standby_choose(uses, ARRAY_LEN(uses), NOW), ==, 3);
        CHECK_STR(uses[0].arg, "a");
        CHECK_STR(uses[1].arg, "b");
        CHECK_STR(uses[2].arg, "c");
}

static void a_template_that_nobody_used_lately_has_none(void)
{
        struct standby_use uses[] = {
                {NOW - STANDBY_RECENT_NS, "old"}, {NOW - STANDBY_RECENT_NS + 1, "young"}, {0, "never"}};

        CHECK_INT(standby_choose(uses, ARRAY_LEN(uses), NOW), ==, 1);
        CHECK_STR(uses[0].arg, "young");
        CHECK_INT(standby_choose(uses, 0, NOW), ==, 0);
}

static void only_so_many_templates_have_some(void)
{
        struct standby_use uses[STANDBY_KINDS_MAX + 5];

        for (size_t i = 0; i < ARRAY_LEN(uses); i++)
                uses[i] = (struct standby_use){NOW - (int64_t)i, NULL};
        CHECK_INT(standby_choose(uses, ARRAY_LEN(uses), NOW), ==, STANDBY_KINDS_MAX);
}

#define CHECK_STEP(step, does, which)                                                                                  \
        do {                                                                                                           \
                struct standby_step s_ = (step);                                                                       \
                CHECK_INT(s_.what, ==, does);                                                                          \
                if (s_.what != STANDBY_NOTHING)                                                                        \
                        CHECK_INT(s_.of, ==, which);                                                                   \
        } while (0)

static void each_gets_a_first_one_before_any_gets_a_second(void)
{
        const struct standby_budget wide = {0, 1000};
        struct standby_state s[] = {{2, 0, 0}, {2, 0, 0}};

        for (unsigned made = 0; made < 4; made++) {
                CHECK_STEP(standby_next(s, 2, &wide), STANDBY_MAKE, made % 2);
                s[made % 2].there++;
        }
        CHECK_STEP(standby_next(s, 2, &wide), STANDBY_NOTHING, 0);
        CHECK_STEP(standby_next(s, 0, &wide), STANDBY_NOTHING, 0);
}

static void what_is_too_many_goes(void)
{
        const struct standby_budget wide = {0, 1000};
        const struct standby_state s[] = {{2, 2, 10}, {1, 2, 10}};
        const struct standby_state unwanted[] = {{0, 1, 10}};

        CHECK_STEP(standby_next(s, 2, &wide), STANDBY_DROP, 1);
        CHECK_STEP(standby_next(unwanted, 1, &wide), STANDBY_DROP, 0);
}

static void beyond_the_budget_the_last_one_made_goes(void)
{
        const struct standby_budget over = {301, 300}, full = {300, 300}, none = {0, 0};
        const struct standby_state s[] = {{2, 2, 100}, {2, 1, 100}};
        const struct standby_state even[] = {{2, 1, 100}, {2, 1, 100}};

        CHECK_STEP(standby_next(s, 2, &over), STANDBY_DROP, 0);
        CHECK_STEP(standby_next(even, 2, &over), STANDBY_DROP, 1);
        CHECK_STEP(standby_next(s, 2, &full), STANDBY_NOTHING, 0);
        CHECK_STEP(standby_next(even, 2, &none), STANDBY_NOTHING, 0);
}

static void one_that_is_known_not_to_fit_is_not_made(void)
{
        const struct standby_budget some = {200, 300};
        const struct standby_state s[] = {{2, 0, 101}, {2, 1, 100}};
        const struct standby_state unknown[] = {{2, 0, 0}};

        CHECK_STEP(standby_next(s, 2, &some), STANDBY_MAKE, 1);
        CHECK_STEP(standby_next(s, 1, &some), STANDBY_NOTHING, 0);
        CHECK_STEP(standby_next(unknown, 1, &some), STANDBY_MAKE, 0);
}

int main(void)
{
        RUN(the_template_used_last_comes_first);
        RUN(a_template_that_nobody_used_lately_has_none);
        RUN(only_so_many_templates_have_some);
        RUN(each_gets_a_first_one_before_any_gets_a_second);
        RUN(what_is_too_many_goes);
        RUN(beyond_the_budget_the_last_one_made_goes);
        RUN(one_that_is_known_not_to_fit_is_not_made);
        return tap_done();
}
