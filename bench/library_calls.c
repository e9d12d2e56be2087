/* Commands by libsandglass, one after the other in one process: library_calls ENV_FILE [COUNT].  Prints how long one takes, and
 * how much more memory and how many more fds the process has after all of them than after the first thousand, as a line of JSON. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sandglass.h"

#define WARM_UP 1000u /* commands, until the allocator has what it needs */

static long open_fds(void)
{
        DIR *d = opendir("/proc/self/fd");
        long n = -3; /* the two dots, and its own */

        while (d && readdir(d))
                n++;
        if (d)
                (void)closedir(d);
        return n;
}

/* Of its own: pages of program files come sixteen at a time, whenever another function is called first. */
static long own_memory_kib(void)
{
        FILE *f = fopen("/proc/self/smaps_rollup", "re");
        char line[128];
        long kib = 0;

        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, "Anonymous: %ld", &kib) == 1)
                        break;
        if (f)
                (void)fclose(f);
        return kib;
}

static double now_ms(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int run_all(struct sg_sandbox *box, unsigned long count, struct sg_error *err)
{
        unsigned long warm = count / 2 < WARM_UP ? count / 2 : WARM_UP;
        double began = now_ms();
        long kib = 0, fds = 0;

        for (unsigned long i = 1; i <= count; i++) {
                struct sg_result *result;
                int r = sg_run(box, "true", NULL, NULL, &result, err);

                if (r < 0)
                        return r;
                sg_free(result);
                if (i == warm) {
                        kib = own_memory_kib();
                        fds = open_fds();
                }
        }
        printf("{\"commands\":%lu,\"usEach\":%.0f,\"ownKiB\":%ld,\"grownKiB\":%ld,\"grownFds\":%ld}\n", count,
               (now_ms() - began) * 1e3 / (double)count, own_memory_kib(), own_memory_kib() - kib, open_fds() - fds);
        return 0;
}

int main(int argc, char **argv)
{
        unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 10000;
        const struct sg_create_options options = {.timeout_s = 3600};
        struct sg_client *client = NULL;
        struct sg_sandbox *box = NULL;
        struct sg_error err = {0};
        int r;

        if (argc < 2)
                return 2;
        r = sg_client_open_from_file(argv[1], NULL, &client, &err);
        if (r == 0)
                r = sg_sandbox_create(client, &options, NULL, &box, &err);
        if (r == 0)
                r = run_all(box, count, &err);
        if (r < 0)
                (void)fprintf(stderr, "library_calls: %s\n", err.message);
        if (box)
                (void)sg_sandbox_kill(client, sg_sandbox_id(box), NULL, NULL);
        sg_sandbox_free(box);
        sg_client_free(client);
        return r < 0;
}
