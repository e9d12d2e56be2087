/* bulk.c - many bytes over one connection, none of them kept; says how long it took as one JSON object, microseconds.
 *
 *   bulk -p PORT [-H LINE]... -m MB upload METHOD PATH
 *   bulk -p PORT [-H LINE]... -m MB download PATH
 *   bulk -p PORT [-H LINE]... -m MB output           of a command; every byte of it counted
 *   bulk -p PORT [-H LINE]... -n N  exec             /bin/true */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http.h"
#include "samples.h"

#define WARM_UPS 20

static struct {
        uint32_t port, mbytes, rounds;
        char headers[2048];
} opt = {.mbytes = 200, .rounds = 200};

static struct http http;

static void print(json_t *o)
{
        (void)json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(8));
        (void)putchar('\n');
        json_decref(o);
}

static void check(const char *what, bool is_well)
{
        if (!is_well)
                errx(1, "%s: %u %.*s", what, http.status, (int)http.body.len, (const char *)buf_at(&http.body));
}

static void upload(const char *method, const char *path)
{
        double t = now_us();

        http_upload(&http, method, path, opt.headers, (uint64_t)opt.mbytes << 20);
        check("upload", http.status >= 200 && http.status < 300);
        print(json_pack("{sf}", "took", now_us() - t));
}

static void download(const char *path)
{
        double t = now_us();

        http.is_counting = true;
        http_exchange(&http, "GET", path, opt.headers, NULL, 0);
        check("download", http.status == 200 && http.body_bytes == (uint64_t)opt.mbytes << 20);
        print(json_pack("{sf}", "took", now_us() - t));
}

/* ---- commands ---- */

#define DATA "{\"event\":{\"data\":{\"stdout\":\""
#define DATA_WRAP (sizeof(DATA) - 1 + 4) /* around the base64 */

static struct {
        uint8_t head[5];
        size_t head_n, left, at; /* of the message at hand: what is missing, and what was seen of it */
        char begin[sizeof(DATA) - 1];
        uint64_t bytes; /* of output, decoded */
} stream;

static void read_head(struct str *piece)
{
        while (piece->n && stream.head_n < 5) {
                stream.head[stream.head_n++] = (uint8_t)*piece->p++;
                piece->n--;
        }
        if (stream.head_n < 5)
                return;
        stream.left = (size_t)stream.head[1] << 24 | (size_t)stream.head[2] << 16 | (size_t)stream.head[3] << 8 |
                      stream.head[4];
        stream.at = 0;
}

static void read_message(struct str *piece)
{
        size_t n = piece->n < stream.left ? piece->n : stream.left;
        const char *p = piece->p, *end = p + n;

        for (size_t i = 0; i < n && stream.at + i < sizeof(stream.begin); i++)
                stream.begin[stream.at + i] = p[i];
        stream.at += n;
        stream.left -= n;
        while ((p = memchr(p, '=', (size_t)(end - p)))) {
                stream.bytes--;
                p++;
        }
        if (stream.left == 0) {
                if (stream.at > DATA_WRAP && memcmp(stream.begin, DATA, sizeof(stream.begin)) == 0)
                        stream.bytes += (stream.at - DATA_WRAP) / 4 * 3;
                stream.head_n = 0;
        }
        *piece = (struct str){end, piece->n - n};
}

static void on_piece(struct http *h, struct str piece)
{
        (void)h;
        while (piece.n)
                if (stream.head_n < 5)
                        read_head(&piece);
                else
                        read_message(&piece);
}

static void run(const char *command, const char *first, const char *second)
{
        char body[512], headers[3000];
        json_t *o = json_pack("{s{sss[ss]} sb}", "process", "cmd", command, "args", first, second, "stdin", 0);
        size_t n = json_dumpb(o, body + 5, sizeof(body) - 5, JSON_COMPACT);

        json_decref(o);
        memset(body, 0, 5);
        body[3] = (char)(n >> 8);
        body[4] = (char)n;
        (void)snprintf(headers, sizeof(headers), "%sContent-Type: application/connect+json\r\n", opt.headers);
        http_exchange(&http, "POST", "/process.Process/Start", headers, body, n + 5);
}

static void output(void)
{
        uint64_t want = (uint64_t)opt.mbytes * 1000000;
        char script[100];
        double t = now_us();

        (void)snprintf(script, sizeof(script), "head -c %llu /dev/zero", (unsigned long long)want);
        http.is_counting = true;
        http.on_piece = on_piece;
        run("/bin/sh", "-c", script);
        if (http.status != 200 || stream.bytes != want)
                errx(1, "output: %u, %llu bytes of %llu", http.status, (unsigned long long)stream.bytes,
                     (unsigned long long)want);
        print(json_pack("{sf}", "took", now_us() - t));
}

static void exec(void)
{
        struct samples took = {0};

        for (unsigned i = 0; i < opt.rounds + WARM_UPS; i++) {
                double t = now_us();

                run("/bin/true", "", "");
                check("exec", http.status == 200 && memmem(buf_at(&http.body), http.body.len, "exit status 0", 13));
                if (i >= WARM_UPS)
                        samples_add(&took, now_us() - t);
        }
        print(json_pack("{so}", "exec", samples_json(&took)));
}

static void number(const char *text, uint32_t *ret)
{
        if (parse_u32(str_of(text), 1, 1000000, ret) < 0)
                errx(2, "'%s': a number from 1 to 1000000", text);
}

static void read_options(int argc, char **argv)
{
        int c;

        while ((c = getopt(argc, argv, "p:m:n:H:")) != -1)
                switch (c) {
                case 'p': number(optarg, &opt.port); break;
                case 'm': number(optarg, &opt.mbytes); break;
                case 'n': number(optarg, &opt.rounds); break;
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
        const char *mode;

        read_options(argc, argv);
        mode = optind < argc ? argv[optind] : "";
        http_open(&http, (uint16_t)opt.port);
        if (strcmp(mode, "upload") == 0 && argc == optind + 3)
                upload(argv[optind + 1], argv[optind + 2]);
        else if (strcmp(mode, "download") == 0 && argc == optind + 2)
                download(argv[optind + 1]);
        else if (strcmp(mode, "output") == 0)
                output();
        else if (strcmp(mode, "exec") == 0)
                exec();
        else
                errx(2, "usage: bulk -p PORT [-m MB] [-n N] [-H LINE]... upload METHOD PATH|download PATH|output|exec");
        http_close(&http);
        return 0;
}
