/* How many values a text has at most. */
#include <jansson.h>
#include <stdlib.h>

#include "base/auto.h"
#include "tap.h"
#include "wire/json/json_values.h"

static size_t values_in(const json_t *v)
{
        const char *key;
        json_t *one;
        size_t i, n = 1;

        json_object_foreach ((json_t *)v, key, one)
                n += values_in(one);
        json_array_foreach (v, i, one)
                n += values_in(one);
        return n;
}

static void never_fewer_than_there_are(void)
{
        static const char *const texts[] = {
                "1",
                "\"a,b[{\"",
                "[]",
                "[[],[],[{}]]",
                "{\"a\":[1,2,{\"b,\\\",[\":\"\\\\\",\"c\":[\"]\",[],{}]}],\"d\":null}",
                "[\"\\u0022,\",\"[\"]",
        };

        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                json_t *v = json_loads(texts[i], JSON_DECODE_ANY, NULL);

                printf("# %s\n", texts[i]);
                CHECK(v);
                CHECK(json_values_most(str_of(texts[i])) >= values_in(v));
                CHECK(json_values_most(str_of(texts[i])) <= 2 * values_in(v)); /* what strings have does not count */
                json_decref(v);
        }
}

static void what_is_no_json_counts_too(void)
{
        CHECK_INT(json_values_most(STR("")), ==, 1);
        CHECK_INT(json_values_most(STR("[[[[")), ==, 5);
        CHECK_INT(json_values_most(STR("\"\\")), ==, 1);
        CHECK_INT(json_values_most(STR("[1,2,\"")), ==, 4);
}

int main(void)
{
        RUN(never_fewer_than_there_are);
        RUN(what_is_no_json_counts_too);
        return tap_done();
}
