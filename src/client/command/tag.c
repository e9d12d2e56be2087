#include "client/command/tag.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define PREFIX "sandglass-run-"
#define RANDOM_CHARS 16u
#define KILL_MS 2000u
#define KILL_TRIES 5u
#define KILL_PAUSE_MS 50u /* the first one; each is twice as long as the one before */

_Static_assert(sizeof(PREFIX) + RANDOM_CHARS <= TAG_OURS_BYTES, "a tag has room");

void tag_make(char ret[TAG_OURS_BYTES])
{
        uint64_t chance;

        if (random_try(&chance, sizeof(chance)) < 0)
                chance = clock_mono_us() ^ (uint64_t)getpid() << 40 ^ (uintptr_t)ret;
        (void)snprintf(ret, TAG_OURS_BYTES, PREFIX "%016" PRIx64, chance);
}

bool tag_is_ours(const char *tag)
{
        return strncmp(tag, PREFIX, strlen(PREFIX)) == 0;
}

void tag_kill(struct sg_sandbox *box, const char *tag)
{
        const struct sg_call call = {.timeout_ms = KILL_MS};
        struct limit l;
        int r = limit_begin(&l, &call, KILL_MS, NULL);

        for (unsigned tries = 0; r == 0 && tries < KILL_TRIES; tries++) {
                struct sg_error why = {0};

                r = envd_call(box,
                              &(struct envd_call){.method = "/process.Process/SendSignal",
                                                  .body = json_pack("{s:{s:s}, s:s}", "process", "tag", tag, "signal",
                                                                    "SIGNAL_SIGKILL"),
                                                  .repeats = true},
                              &l, NULL, &why);
                if (why.kind != SG_NOT_FOUND)
                        return;
                r = limit_sleep(&l, (uint64_t)KILL_PAUSE_MS << tries, NULL);
        }
}
