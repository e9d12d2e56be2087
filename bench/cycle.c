/* cycle.c - pauses and resumes one sandbox over and over by raw HTTP, and says how long it takes, as one JSON object,
 * microseconds.
 *
 *   cycle -p PORT -k KEY -i SANDBOX -t TOKEN -n N
 *
 * "resume" ends when the first command has been answered; "running" is the same two requests to a sandbox that was not
 * paused.  Both come after the same rest: machines that were idle are slower for a moment. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "calls.h"
#include "samples.h"

#define WARM_UPS 2
#define REST_NS 100000000

static const struct timespec rest = {.tv_nsec = REST_NS};

static struct {
        uint32_t port, rounds;
        const char *key, *id, *token;
} opt = {.rounds = 10};

static double answer(struct http *api, struct http *data, const struct sandbox *s, bool is_paused)
{
        double t;

        (void)nanosleep(&rest, NULL);
        t = now_us();
        call_connect(api, opt.key, s->id, is_paused);
        call_run(data, s, "/bin/true", "");
        return now_us() - t;
}

static void measure(const struct sandbox *s)
{
        struct samples paused = {0}, resumed = {0}, running = {0};
        struct http api, data;

        http_open(&api, (uint16_t)opt.port);
        http_open(&data, (uint16_t)opt.port);
        for (unsigned i = 0; i < opt.rounds + WARM_UPS; i++) {
                double without = answer(&api, &data, s, false), t = now_us(), to_pause, with;

                call_pause(&api, opt.key, s->id);
                to_pause = now_us() - t;
                with = answer(&api, &data, s, true);
                if (i < WARM_UPS)
                        continue;
                samples_add(&paused, to_pause);
                samples_add(&resumed, with);
                samples_add(&running, without);
        }
        http_close(&api);
        http_close(&data);
        json_t *o = json_pack("{so so so}", "pause", samples_json(&paused), "resume", samples_json(&resumed), "running",
                              samples_json(&running));
        (void)json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(8));
        (void)putchar('\n');
        json_decref(o);
}

static void number(const char *text, uint32_t most, uint32_t *ret)
{
        if (parse_u32(str_of(text), 1, most, ret) < 0)
                errx(2, "'%s': a number from 1 to %u", text, most);
}

int main(int argc, char **argv)
{
        struct sandbox s;
        int c;

        while ((c = getopt(argc, argv, "p:k:n:i:t:")) != -1)
                switch (c) {
                case 'p': number(optarg, 65535, &opt.port); break;
                case 'k': opt.key = optarg; break;
                case 'n': number(optarg, 10000, &opt.rounds); break;
                case 'i': opt.id = optarg; break;
                case 't': opt.token = optarg; break;
                default: exit(2);
                }
        if (!opt.port || !opt.key || !opt.id || !opt.token)
                errx(2, "usage: cycle -p PORT -k KEY -i SANDBOX -t TOKEN [-n N]");
        sandbox_name(&s, opt.id, opt.token);
        measure(&s);
        return 0;
}
