/* How long something was lost: by clocks that nobody sets, as far as there are any. */
#include "engine/records/lost_note.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tap.h>
#include <unistd.h>

#include "base/clock.h"
#include "sys/fs.h"

#define NAME "i0123456789abcdefghij"
#define HOUR_NS (INT64_C(3600) * 1000000000)
#define DAY_NS (24 * HOUR_NS)
#define YEAR_NS (365 * DAY_NS)
#define START_NS (56 * YEAR_NS) /* some day of real time */

static struct lost_clock at(const char *boot, int64_t real_ns, int64_t boot_ns)
{
        struct lost_clock c = {.real_ns = real_ns, .boot_ns = boot_ns};

        (void)snprintf(c.boot_id, sizeof(c.boot_id), "%s", boot);
        return c;
}

static int64_t look(struct lost_note *n, struct lost_clock now)
{
        lost_note_look(n, &now);
        return n->kept_ns;
}

static void time_counts_from_the_first_look(void)
{
        struct lost_note n = {.lost_ns = START_NS - YEAR_NS};

        CHECK_INT(look(&n, at("one", START_NS, DAY_NS)), ==, 0);
        CHECK_INT(look(&n, at("one", START_NS + HOUR_NS, DAY_NS + HOUR_NS)), ==, HOUR_NS);
        CHECK_INT(look(&n, at("one", START_NS + 40 * DAY_NS, 41 * DAY_NS)), ==, 40 * DAY_NS);
}

static void a_clock_that_is_set_changes_nothing(void)
{
        struct lost_note n = {.lost_ns = START_NS};

        CHECK_INT(look(&n, at("one", START_NS, DAY_NS)), ==, 0);
        CHECK_INT(look(&n, at("one", START_NS + 10 * YEAR_NS, DAY_NS + HOUR_NS)), ==, HOUR_NS);
        CHECK_INT(look(&n, at("one", START_NS - 10 * YEAR_NS, DAY_NS + 2 * HOUR_NS)), ==, 2 * HOUR_NS);
}

static void between_two_boots_a_day_counts_at_most(void)
{
        struct lost_note n = {.lost_ns = START_NS};

        CHECK_INT(look(&n, at("one", START_NS, 9 * DAY_NS)), ==, 0);
        CHECK_INT(look(&n, at("two", START_NS + HOUR_NS, 1)), ==, HOUR_NS);
        CHECK_INT(look(&n, at("three", START_NS + YEAR_NS, 1)), ==, HOUR_NS + DAY_NS);
        CHECK_INT(look(&n, at("four", START_NS, 1)), ==, HOUR_NS + DAY_NS);           /* set back */
        CHECK_INT(look(&n, at("", START_NS + YEAR_NS, 2)), ==, HOUR_NS + 2 * DAY_NS); /* not known which */
        CHECK_INT(look(&n, at("", START_NS + 2 * YEAR_NS, 3)), ==, HOUR_NS + 3 * DAY_NS);
}

static void a_note_is_read_as_it_was_written(void)
{
        char dir[] = "/tmp/test-lost-note-XXXXXX", path[64];
        struct lost_note n = {.lost_ns = START_NS, .kept_ns = DAY_NS, .was = "paused", .why = "a test"}, back;
        int fd;

        CHECK(mkdtemp(dir));
        fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        n.seen = at("one", START_NS + DAY_NS, HOUR_NS);
        CHECK_INT(lost_note_write(fd, NAME, &n), ==, 0);
        lost_note_read(fd, NAME, &back);
        CHECK_INT(back.lost_ns, ==, START_NS);
        CHECK_INT(look(&back, at("one", START_NS, 2 * HOUR_NS)), ==, DAY_NS + HOUR_NS);
        CHECK_STR(back.was, "paused");
        CHECK_STR(back.why, "a test");
        (void)snprintf(path, sizeof(path), "%s/" NAME ".json", dir);
        CHECK_INT(unlink(path), ==, 0);
        (void)close(fd);
        CHECK_INT(rmdir(dir), ==, 0);
}

static void the_clocks_of_this_machine_go_on(void)
{
        struct lost_clock one, other;

        lost_clock_now(&one);
        lost_clock_now(&other);
        CHECK_STR(one.boot_id, other.boot_id);
        CHECK_INT(strlen(one.boot_id), ==, 36);
        CHECK(one.boot_ns > 0 && other.boot_ns >= one.boot_ns);
}

int main(void)
{
        RUN(time_counts_from_the_first_look);
        RUN(a_clock_that_is_set_changes_nothing);
        RUN(between_two_boots_a_day_counts_at_most);
        RUN(a_note_is_read_as_it_was_written);
        RUN(the_clocks_of_this_machine_go_on);
        return tap_done();
}
