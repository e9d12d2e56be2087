#include <tap.h>

#include "rig.h"

static struct rig g;

static void makes_and_ends_a_sandbox(void)
{
        const char *why;

        if ((why = rig_create(&g, rig_plan("i00000000000000000001"))))
                printf("# %s\n", why);
        CHECK(!why);
        CHECK_STR(rig_run(&g, "i00000000000000000001", "read /proc/1/comm"), ".envd\n");
        why = rig_kill(&g, "i00000000000000000001");
        CHECK(!why);
}

int main(void)
{
        if (!rig_open(&g, 4) || !rig_start(&g))
                return 1;
        RUN(makes_and_ends_a_sandbox);
        rig_close(&g);
        return tap_done();
}
