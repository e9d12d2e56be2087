/* client.c - drives a server by raw HTTP and says how long things take, as one JSON object, microseconds.
 *
 *   client -p PORT -k KEY life     -n N         create, first output, exec, kill, one after the other
 *   client -p PORT -k KEY exec     -n N         /bin/true in one running sandbox
 *   client -p PORT -k KEY parallel -c N         N creates at once
 *   client -p PORT -k KEY lives    -c N -s SEC  full lives per second with N clients
 *   client -p PORT -k KEY many     -n N -f FILE create N and leave them; their ids go to FILE
 *   client -p PORT -k KEY kill     -c N -f FILE end those
 *   client -p PORT -k KEY files    -n N -m MB   upload and download
 *   client -p PORT load -c N -s SEC [-H LINE]...  GET / as fast as N clients can, with these header lines */
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "calls.h"
#include "http.h"
#include "samples.h"

#define WARM_UPS 5
#define CLIENTS_MAX 1000

static struct {
        uint32_t port, rounds, clients, seconds, mbytes;
        const char *key, *file;
        char headers[2048];
} opt = {.rounds = 100, .clients = 8, .seconds = 5, .mbytes = 100};

static void print(json_t *o)
{
        (void)json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(8));
        (void)putchar('\n');
        json_decref(o);
}

/* ---- the modes ---- */

static void mode_life(void)
{
        struct samples made = {0}, first = {0}, exec = {0}, gone = {0};
        struct sandbox s;
        struct http h;

        http_open(&h, (uint16_t)opt.port);
        for (unsigned i = 0; i < opt.rounds + WARM_UPS; i++) {
                double t[5];

                t[0] = now_us();
                call_create(&h, opt.key, &s);
                t[1] = now_us();
                call_run(&h, &s, "/bin/echo", "hello");
                t[2] = now_us();
                double output = h.marked_us;
                call_run(&h, &s, "/bin/true", "");
                t[3] = now_us();
                call_kill(&h, opt.key, s.id);
                t[4] = now_us();
                if (i < WARM_UPS)
                        continue;
                samples_add(&made, t[1] - t[0]);
                samples_add(&first, output - t[0]);
                samples_add(&exec, t[3] - t[2]);
                samples_add(&gone, t[4] - t[3]);
        }
        http_close(&h);
        print(json_pack("{so so so so}", "create", samples_json(&made), "first_output", samples_json(&first), "exec",
                        samples_json(&exec), "kill", samples_json(&gone)));
}

static void mode_exec(void)
{
        struct samples exec = {0};
        struct sandbox s;
        struct http h;

        http_open(&h, (uint16_t)opt.port);
        call_create(&h, opt.key, &s);
        for (unsigned i = 0; i < opt.rounds + WARM_UPS; i++) {
                double t = now_us();

                call_run(&h, &s, "/bin/true", "");
                if (i >= WARM_UPS)
                        samples_add(&exec, now_us() - t);
        }
        call_kill(&h, opt.key, s.id);
        http_close(&h);
        print(json_pack("{so}", "exec", samples_json(&exec)));
}

struct worker {
        pthread_t thread;
        struct http http;
        struct sandbox sandbox;
        double took_us;
        uint64_t done;
        struct samples times;
};
static struct worker workers[CLIENTS_MAX];
static pthread_barrier_t together;
static double stop_at_us;

static double run_workers(void *(*body)(void *))
{
        double t;

        pthread_barrier_init(&together, NULL, opt.clients + 1);
        for (unsigned i = 0; i < opt.clients; i++) {
                http_open(&workers[i].http, (uint16_t)opt.port);
                if (pthread_create(&workers[i].thread, NULL, body, &workers[i]) != 0)
                        errx(1, "thread");
        }
        stop_at_us = now_us() + opt.seconds * 1e6;
        pthread_barrier_wait(&together);
        t = now_us();
        for (unsigned i = 0; i < opt.clients; i++)
                pthread_join(workers[i].thread, NULL);
        t = now_us() - t;
        for (unsigned i = 0; i < opt.clients; i++)
                http_close(&workers[i].http);
        return t;
}

static void *create_one(void *arg)
{
        struct worker *w = arg;
        double t;

        pthread_barrier_wait(&together);
        t = now_us();
        call_create(&w->http, opt.key, &w->sandbox);
        w->took_us = now_us() - t;
        return NULL;
}

static void mode_parallel(void)
{
        struct samples each = {0};
        struct http h;
        double wall = run_workers(create_one);

        http_open(&h, (uint16_t)opt.port);
        for (unsigned i = 0; i < opt.clients; i++) {
                samples_add(&each, workers[i].took_us);
                call_kill(&h, opt.key, workers[i].sandbox.id);
        }
        http_close(&h);
        print(json_pack("{sf so}", "wall", wall, "each", samples_json(&each)));
}

static void *live(void *arg)
{
        struct worker *w = arg;

        pthread_barrier_wait(&together);
        while (now_us() < stop_at_us) {
                call_create(&w->http, opt.key, &w->sandbox);
                call_run(&w->http, &w->sandbox, "/bin/true", "");
                call_kill(&w->http, opt.key, w->sandbox.id);
                w->done++;
        }
        return NULL;
}

static uint64_t total_done(void)
{
        uint64_t sum = 0;

        for (unsigned i = 0; i < opt.clients; i++)
                sum += workers[i].done;
        return sum;
}

static void mode_lives(void)
{
        double wall = run_workers(live);

        print(json_pack("{sI sf}", "lives", (json_int_t)total_done(), "per_second", (double)total_done() / wall * 1e6));
}

static void mode_many(void)
{
        FILE *out = opt.file ? fopen(opt.file, "ae") : NULL;
        struct samples each = {0};
        struct sandbox s;
        struct http h;
        double begin;

        if (!out)
                err(2, "many: -f");
        http_open(&h, (uint16_t)opt.port);
        begin = now_us();
        for (unsigned i = 0; i < opt.rounds; i++) {
                double t = now_us();

                call_create(&h, opt.key, &s);
                samples_add(&each, now_us() - t);
                (void)fprintf(out, "%s\n", s.id);
        }
        double wall = now_us() - begin;
        http_close(&h);
        if (fclose(out) != 0)
                err(1, "%s", opt.file);
        print(json_pack("{sf so}", "per_second", opt.rounds / wall * 1e6, "create", samples_json(&each)));
}

static FILE *id_file;
static pthread_mutex_t id_lock = PTHREAD_MUTEX_INITIALIZER;

static void *kill_some(void *arg)
{
        struct worker *w = arg;
        char id[64];

        pthread_barrier_wait(&together);
        for (;;) {
                pthread_mutex_lock(&id_lock);
                bool is_there = fscanf(id_file, "%63s", id) == 1;
                pthread_mutex_unlock(&id_lock);
                if (!is_there)
                        return NULL;
                call_kill(&w->http, opt.key, id);
                w->done++;
        }
}

static void mode_kill(void)
{
        id_file = opt.file ? fopen(opt.file, "re") : NULL;
        if (!id_file)
                err(2, "kill: -f");
        double wall = run_workers(kill_some);
        (void)fclose(id_file);
        print(json_pack("{sI sf}", "killed", (json_int_t)total_done(), "per_second",
                        (double)total_done() / wall * 1e6));
}

static void mode_files(void)
{
        struct samples up = {0}, down = {0};
        size_t size = (size_t)opt.mbytes << 20;
        AUTO_FREE char *bytes = malloc(size);
        char headers[700];
        struct sandbox s;
        struct http h;

        if (!bytes)
                err(1, "memory");
        memset(bytes, 'x', size);
        http_open(&h, (uint16_t)opt.port);
        call_create(&h, opt.key, &s);
        (void)snprintf(headers, sizeof(headers), "%sContent-Type: application/octet-stream\r\n", s.headers);
        for (unsigned i = 0; i < opt.rounds; i++) {
                double t = now_us();

                http_exchange(&h, "POST", "/files?path=/tmp/big", headers, bytes, size);
                if (h.status != 200)
                        errx(1, "upload: %u", h.status);
                samples_add(&up, now_us() - t);
                h.is_counting = true;
                t = now_us();
                http_exchange(&h, "GET", "/files?path=/tmp/big", s.headers, NULL, 0);
                if (h.status != 200 || h.body_bytes != size)
                        errx(1, "download: %u", h.status);
                samples_add(&down, now_us() - t);
                h.is_counting = false;
        }
        call_kill(&h, opt.key, s.id);
        http_close(&h);
        print(json_pack("{sI so so}", "mbytes", (json_int_t)opt.mbytes, "upload", samples_json(&up), "download",
                        samples_json(&down)));
}

static void *get_again(void *arg)
{
        struct worker *w = arg;

        w->http.is_counting = true;
        pthread_barrier_wait(&together);
        for (double t = now_us(), now; t < stop_at_us; t = now) {
                http_exchange(&w->http, "GET", "/", opt.headers, NULL, 0);
                if (w->http.status != 200)
                        errx(1, "GET /: %u", w->http.status);
                now = now_us();
                samples_add(&w->times, now - t);
                w->done++;
        }
        return NULL;
}

static void mode_load(void)
{
        struct samples all = {0};
        double wall = run_workers(get_again);

        for (unsigned i = 0; i < opt.clients; i++)
                for (size_t k = 0; k < workers[i].times.count; k++)
                        samples_add(&all, workers[i].times.us[k]);
        print(json_pack("{sf so}", "per_second", (double)total_done() / wall * 1e6, "each", samples_json(&all)));
}

static void number(const char *text, uint32_t most, uint32_t *ret)
{
        if (parse_u32(str_of(text), 1, most, ret) < 0)
                errx(2, "'%s': a number from 1 to %u", text, most);
}

static void read_options(int argc, char **argv)
{
        int c;

        while ((c = getopt(argc, argv, "p:k:n:c:s:m:f:H:")) != -1)
                switch (c) {
                case 'p': number(optarg, 65535, &opt.port); break;
                case 'k': opt.key = optarg; break;
                case 'n': number(optarg, 1000000, &opt.rounds); break;
                case 'c': number(optarg, CLIENTS_MAX, &opt.clients); break;
                case 's': number(optarg, 3600, &opt.seconds); break;
                case 'm': number(optarg, 4096, &opt.mbytes); break;
                case 'f': opt.file = optarg; break;
                case 'H': {
                        size_t used = strlen(opt.headers);
                        (void)snprintf(opt.headers + used, sizeof(opt.headers) - used, "%s\r\n", optarg);
                        break;
                }
                default: exit(2);
                }
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                void (*run)(void);
        } modes[] = {{"life", mode_life}, {"exec", mode_exec}, {"parallel", mode_parallel}, {"lives", mode_lives},
                     {"many", mode_many}, {"kill", mode_kill}, {"files", mode_files},       {"load", mode_load}};

        read_options(argc, argv);
        for (size_t i = 0; opt.port && optind < argc && i < ARRAY_LEN(modes); i++)
                if (strcmp(argv[optind], modes[i].name) == 0) {
                        modes[i].run();
                        return 0;
                }
        errx(2, "usage: client -p PORT -k KEY life|exec|parallel|lives|many|kill|files|load [-n -c -s -m -f -H]");
}
