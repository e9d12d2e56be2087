/* control_loop.h - the control under test, its clock, and the loop in which control and the test run. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "control/control.h"
#include "http/server.h"
#include "io/channel.h"
#include "io/listener.h"
#include "io/loop.h"
#include "model/conf.h"

#include "tap.h"

#ifndef RIG_OWN /* around what is the test's own and not control's, for tests that make things fail */
#define RIG_OWN(statement) statement
#endif

#ifndef GUARD_MS
#define GUARD_MS 10000
#endif
#define S_NS INT64_C(1000000000)
#define TEMPLATE_ID "abcdefghij0123456789"

static struct rig {
        char dir[64];
        struct loop *loop;
        struct conf conf;
        struct control control;
        bool is_up;
        char key[KEY_LEN + 1];
        int64_t now_ns; /* the clock that control sees */
        int64_t set_ns; /* how far it was set, altogether */
} rig;

static int64_t rig_now(void)
{
        return rig.now_ns;
}

static int64_t rig_boot(void)
{
        return rig.now_ns - rig.set_ns;
}

__attribute__((unused)) static void rig_set_clock(int64_t by_s)
{
        rig.now_ns += by_s * S_NS;
        rig.set_ns += by_s * S_NS;
}

/* ---- running the loop until something holds ---- */

struct watch {
        struct task task;
        bool (*holds)(void *arg);
        void *arg;
        uint64_t until_ms;
        bool held;
};

static void watch_step(struct task *t)
{
        struct watch *w = CONTAINER_OF(t, struct watch, task);

        w->held = w->holds(w->arg);
        if (w->held || clock_mono_ms() > w->until_ms)
                loop_stop(rig.loop);
        else
                loop_post(rig.loop, t);
}

static bool run_until(bool (*holds)(void *arg), void *arg)
{
        struct watch w = {.task.run = watch_step, .holds = holds, .arg = arg, .until_ms = clock_mono_ms() + GUARD_MS};

        loop_post(rig.loop, &w.task);
        (void)loop_run(rig.loop);
        return w.held;
}

static bool count_down(void *arg)
{
        return --*(int *)arg <= 0;
}

__attribute__((unused)) static void run_rounds(int n) /* enough for messages on their way to arrive */
{
        (void)run_until(count_down, &n);
}
