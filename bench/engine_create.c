/* engine_create.c - create and kill through the engine's own socket: what a sandbox costs before HTTP comes into it.
 *
 *   engine_create SOCKET LAYER [-n COUNT] [-a ALIVE] [-p PARALLEL] [-g GAP_MS]
 *
 * COUNT lives one after the other (create, kill), GAP_MS apart (long enough, and the pool is full each time), with ALIVE
 * idle sandboxes around; with -p, PARALLEL creates are under way at a time.  Prints one JSON object: microseconds, as seen
 * from here and as the engine counts them; and memory_kib, what each idle one took from the machine's available memory. */
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "model/ids.h"
#include "samples.h"

static int sock;
static const char *layer;
static json_int_t last_req;

static void die(const char *what)
{
        fprintf(stderr, "engine_create: %s\n", what);
        exit(1);
}

static void send_all(const void *p, size_t n)
{
        const char *at = p;

        while (n > 0) {
                ssize_t w = send(sock, at, n, MSG_NOSIGNAL);

                if (w <= 0)
                        die("the engine hung up");
                at += w;
                n -= (size_t)w;
        }
}

static void receive_all(void *p, size_t n)
{
        char *at = p;

        while (n > 0) {
                ssize_t r = recv(sock, at, n, 0);

                if (r <= 0)
                        die("the engine hung up");
                at += r;
                n -= (size_t)r;
        }
}

static void ask(json_t *msg)
{
        uint8_t head[5] = {0};
        char *text;
        size_t len;

        (void)json_object_set_new(msg, "req", json_integer(++last_req));
        text = json_dumps(msg, JSON_COMPACT);
        len = strlen(text);
        for (int i = 0; i < 4; i++)
                head[i] = (uint8_t)(len >> (24 - 8 * i));
        send_all(head, sizeof(head));
        send_all(text, len);
        free(text);
        json_decref(msg);
}

static json_t *answer(void) /* the next one; facts are dropped */
{
        for (;;) {
                uint8_t head[5];
                size_t len;
                char *text;
                json_t *msg;

                receive_all(head, sizeof(head));
                len = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
                text = malloc(len);
                receive_all(text, len);
                msg = json_loadb(text, len, 0, NULL);
                free(text);
                if (json_object_get(msg, "error")) {
                        fprintf(stderr, "engine_create: %s\n",
                                json_string_value(json_object_get(json_object_get(msg, "error"), "message")));
                        exit(1);
                }
                if (json_object_get(msg, "req"))
                        return msg;
                json_decref(msg);
        }
}

static void ask_create(const char *id)
{
        ask(json_pack("{s:s,s:{s:s,s:[s],s:{s:I,s:i,s:i},s:{s:b,s:[],s:[]},s:{s:s}}}", "op", "create", "plan", "id", id,
                      "layers", layer, "limits", "memory_bytes", (json_int_t)1024 << 20, "cpu_count", 2, "pids", 4096,
                      "net", "internet", 1, "allow", "deny", "init", "sandboxID", id));
}

static void ask_kill(const char *id)
{
        ask(json_pack("{s:s,s:s}", "op", "kill", "id", id));
}

static uint64_t finish_create(void)
{
        json_t *a = answer();
        uint64_t us = (uint64_t)json_integer_value(json_object_get(a, "create_us"));

        json_decref(a);
        return us;
}

static long available_kib(void)
{
        FILE *f = fopen("/proc/meminfo", "re");
        char line[128];
        long kib = 0;

        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, "MemAvailable: %ld", &kib) == 1)
                        break;
        if (f)
                (void)fclose(f);
        return kib;
}

static void connect_engine(const char *path)
{
        struct sockaddr_un a = {.sun_family = AF_UNIX};

        sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        if (sock < 0 || connect(sock, (struct sockaddr *)(void *)&a, sizeof(a)) < 0)
                die("cannot connect");
}

static void one_by_one(unsigned count, unsigned gap_ms, json_t *out)
{
        const struct timespec gap = {.tv_sec = gap_ms / 1000, .tv_nsec = gap_ms % 1000 * 1000000l};

        struct samples seen = {0}, counted = {0}, ended = {0};

        for (unsigned i = 0; i < count; i++) {
                char id[SANDBOX_ID_MAX];
                uint64_t t0, t1;

                sandbox_id_make(id);
                t0 = clock_mono_us();
                ask_create(id);
                samples_add(&counted, (double)finish_create());
                t1 = clock_mono_us();
                samples_add(&seen, (double)(t1 - t0));
                ask_kill(id);
                json_decref(answer());
                samples_add(&ended, (double)(clock_mono_us() - t1));
                if (gap_ms)
                        (void)nanosleep(&gap, NULL);
        }
        (void)json_object_set_new(out, "create_us", samples_json(&counted));
        (void)json_object_set_new(out, "create_seen_us", samples_json(&seen));
        (void)json_object_set_new(out, "kill_us", samples_json(&ended));
}

/* PARALLEL creates at a time, all killed afterwards: how many a second. */
static void in_bursts(unsigned count, unsigned parallel, json_t *out)
{
        char(*ids)[SANDBOX_ID_MAX] = calloc(parallel, sizeof(*ids));
        struct samples counted = {0};
        uint64_t t0 = clock_mono_us();
        unsigned done = 0;

        while (done < count) {
                for (unsigned i = 0; i < parallel; i++) {
                        sandbox_id_make(ids[i]);
                        ask_create(ids[i]);
                }
                for (unsigned i = 0; i < parallel; i++)
                        samples_add(&counted, (double)finish_create());
                for (unsigned i = 0; i < parallel; i++)
                        ask_kill(ids[i]);
                for (unsigned i = 0; i < parallel; i++)
                        json_decref(answer());
                done += parallel;
        }
        (void)json_object_set_new(out, "burst_create_us", samples_json(&counted));
        (void)json_object_set_new(out, "lives_per_s", json_real(done * 1e6 / (double)(clock_mono_us() - t0)));
        free(ids);
}

int main(int argc, char **argv)
{
        unsigned count = 200, alive = 0, parallel = 0, gap_ms = 0;
        json_t *out = json_object();
        char(*ids)[SANDBOX_ID_MAX];
        long before_kib;
        int c;

        while ((c = getopt(argc, argv, "n:a:p:g:")) != -1) {
                uint32_t v = 0;

                if (!optarg || parse_u32(str_of(optarg), 0, 1000000, &v) < 0)
                        die("usage: engine_create SOCKET LAYER [-n COUNT] [-a ALIVE] [-p PARALLEL] [-g GAP_MS]");
                *(c == 'n' ? &count : c == 'a' ? &alive : c == 'p' ? &parallel : &gap_ms) = v;
        }
        if (argc - optind != 2)
                die("usage: engine_create SOCKET LAYER [-n COUNT] [-a ALIVE] [-p PARALLEL] [-g GAP_MS]");
        connect_engine(argv[optind]);
        layer = argv[optind + 1];
        ids = calloc(alive + 1, sizeof(*ids));
        before_kib = available_kib();
        for (unsigned i = 0; i < alive; i++) {
                sandbox_id_make(ids[i]);
                ask_create(ids[i]);
                (void)finish_create();
        }
        (void)json_object_set_new(out, "alive", json_integer(alive));
        if (alive)
                (void)json_object_set_new(out, "memory_kib",
                                          json_integer((before_kib - available_kib()) / (long)alive));
        if (parallel)
                in_bursts(count, parallel, out);
        else
                one_by_one(count, gap_ms, out);
        for (unsigned i = 0; i < alive; i++) {
                ask_kill(ids[i]);
                json_decref(answer());
        }
        puts(json_dumps(out, JSON_INDENT(1) | JSON_REAL_PRECISION(6)));
        return 0;
}
