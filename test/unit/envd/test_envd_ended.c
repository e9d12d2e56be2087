/* Processes that have ended, and how long they are remembered.  The clock is ours. */
#include <stdlib.h>

#include "base/clock.h"
#include "envd/process/ended_process.h"
#include "io/loop.h"
#include "tap.h"

struct rig {
        struct loop *loop;
        struct replay_pool pool;
        struct ended_process_table table;
};

static uint64_t clock_ms;

static uint64_t now_ms(void)
{
        return clock_ms;
}

static void rig_init(struct rig *rig)
{
        clock_ms = 1000000;
        (void)loop_create(&rig->loop);
        replay_pool_init(&rig->pool, REPLAY_POOL_MAX);
        ended_process_table_init(&rig->table, rig->loop);
        rig->table.now_ms = now_ms;
}

static void rig_done(struct rig *rig)
{
        ended_process_table_done(&rig->table);
        rig->loop = loop_free(rig->loop);
}

static void keep(struct rig *rig, pid_t pid, const char *tag)
{
        struct ended_process e = {.pid = pid, .tag = tag ? strdup(tag) : NULL, .status = pid % 100};

        e.replay = replay_create(&rig->pool);
        replay_add(e.replay, OUTPUT_STDOUT, "out", 3);
        replay_finish(e.replay);
        ended_process_keep(&rig->table, &e);
}

/* Time passes, and the timer looks what is due. */
static void pass(struct rig *rig, uint64_t ms)
{
        clock_ms += ms;
        rig->table.sweep.on(&rig->table.sweep);
}

static bool is_recent(struct rig *rig, pid_t pid)
{
        const struct ended_process *e = ended_process_find_pid(&rig->table, pid);

        return e && ended_process_is_recent(&rig->table, e);
}

static void everybody_sees_an_end_for_thirty_seconds(void)
{
        AUTO(rig_done) struct rig rig;

        rig_init(&rig);
        keep(&rig, 7, NULL);
        CHECK(is_recent(&rig, 7));
        pass(&rig, 29999);
        CHECK(is_recent(&rig, 7));
        pass(&rig, 1);
        CHECK(!is_recent(&rig, 7));
        CHECK(ended_process_find_pid(&rig.table, 7)); /* for those who ask for replay */
}

static void replay_is_kept_for_ten_minutes_and_then_freed(void)
{
        AUTO(rig_done) struct rig rig;
        const struct ended_process *e;

        rig_init(&rig);
        keep(&rig, 7, "tagged");
        pass(&rig, 599000);
        e = ended_process_find_pid(&rig.table, 7);
        CHECK(e);
        CHECK_INT(e->replay->offset, ==, 3);
        CHECK_INT(e->status, ==, 7);
        CHECK(rig.pool.used > 0);
        timer_clear(&rig.table.sweep);
        pass(&rig, 1000);
        CHECK(!ended_process_find_pid(&rig.table, 7));
        CHECK(!ended_process_find_tag(&rig.table, "tagged"));
        CHECK_INT(rig.table.count, ==, 0);
        CHECK_INT(rig.pool.used, ==, 0);
        CHECK(!timer_is_armed(&rig.table.sweep)); /* nothing to wait for */
}

static void each_goes_at_its_own_time(void)
{
        AUTO(rig_done) struct rig rig;

        rig_init(&rig);
        keep(&rig, 1, NULL);
        clock_ms += 300000;
        keep(&rig, 2, NULL);
        pass(&rig, 300000);
        CHECK(!ended_process_find_pid(&rig.table, 1));
        CHECK(ended_process_find_pid(&rig.table, 2));
        CHECK(timer_is_armed(&rig.table.sweep));
        CHECK_INT(rig.table.sweep.due_ms - clock_mono_ms(), <, 301000); /* as long as the second has left */
        pass(&rig, 300000);
        CHECK_INT(rig.table.count, ==, 0);
}

static void a_live_one_takes_the_place_of_the_ended(void)
{
        AUTO(rig_done) struct rig rig;

        rig_init(&rig);
        keep(&rig, 5, "a");
        keep(&rig, 5 + ENDED_PROCESS_SLOTS, "b"); /* the same slot */
        keep(&rig, 6, "a");
        CHECK_INT(ended_process_find_tag(&rig.table, "a")->pid, ==, 6); /* the newest */
        ended_process_forget(&rig.table, 5, NULL);
        CHECK(!ended_process_find_pid(&rig.table, 5));
        CHECK(ended_process_find_pid(&rig.table, 5 + ENDED_PROCESS_SLOTS));
        ended_process_forget(&rig.table, 99, "a");
        CHECK(!ended_process_find_pid(&rig.table, 6));
        CHECK_INT(rig.table.count, ==, 1);
}

static void beyond_the_limit_the_oldest_goes(void)
{
        AUTO(rig_done) struct rig rig;

        rig_init(&rig);
        for (pid_t pid = 1; pid <= ENDED_PROCESS_MAX + 3; pid++)
                keep(&rig, pid, NULL);
        CHECK_INT(rig.table.count, ==, ENDED_PROCESS_MAX);
        CHECK(!ended_process_find_pid(&rig.table, 3));
        CHECK(ended_process_find_pid(&rig.table, 4));
        CHECK(ended_process_find_pid(&rig.table, ENDED_PROCESS_MAX + 3));
}

int main(void)
{
        RUN(everybody_sees_an_end_for_thirty_seconds);
        RUN(replay_is_kept_for_ten_minutes_and_then_freed);
        RUN(each_goes_at_its_own_time);
        RUN(a_live_one_takes_the_place_of_the_ended);
        RUN(beyond_the_limit_the_oldest_goes);
        return tap_done();
}
