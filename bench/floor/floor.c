/* floor.c - what the operating system charges for the things the benchmark measures.
 *
 *   floor create -n 200 -r ROOT -w WORK -a AGENT   a sandbox from system calls: ready, exec, kill, remove
 *   floor spawn  -n 500                            vfork + exec + wait of /bin/true
 *   floor http   -n 500                            one HTTP request over loopback that runs /bin/true
 *
 * Prints one JSON object, microseconds.  `create` needs root. */
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "floor_cell.h"
#include "samples.h"

#define WARM_UPS 5

static uint32_t rounds = 200;
static const char *root_dir, *work_dir, *agent_file;

static void print(json_t *o)
{
        (void)json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(8));
        (void)putchar('\n');
        json_decref(o);
}

static void mode_create(void)
{
        struct samples ready = {0}, ask = {0}, exec = {0}, gone = {0}, removed = {0};
        struct floor_cell cell;
        struct floor f;

        if (!root_dir || !work_dir || !agent_file)
                errx(2, "create needs -r, -w and -a");
        floor_open(&f, root_dir, work_dir, agent_file, rounds + WARM_UPS);
        for (unsigned i = 0; i < rounds + WARM_UPS; i++) {
                double t[6];

                t[0] = now_us();
                floor_make(&f, i, &cell);
                t[1] = now_us();
                floor_ask(&cell, 'p');
                t[2] = now_us();
                floor_ask(&cell, 'x');
                t[3] = now_us();
                floor_kill(&cell);
                t[4] = now_us();
                floor_remove(&f, &cell);
                t[5] = now_us();
                if (i < WARM_UPS)
                        continue;
                samples_add(&ready, t[1] - t[0]);
                samples_add(&ask, t[2] - t[1]);
                samples_add(&exec, t[3] - t[2]);
                samples_add(&gone, t[4] - t[3]);
                samples_add(&removed, t[5] - t[3]);
        }
        floor_close(&f);
        print(json_pack("{so so so so so}", "ready", samples_json(&ready), "ask", samples_json(&ask), "exec",
                        samples_json(&exec), "kill", samples_json(&gone), "remove", samples_json(&removed)));
}

static void run_true(void)
{
        static char *const argv[] = {(char *)"/bin/true", NULL}, *const envp[] = {NULL};
        pid_t pid;

        if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, envp) != 0)
                errx(1, "spawn /bin/true");
        (void)waitpid(pid, NULL, 0);
}

static void mode_spawn(void)
{
        struct samples s = {0};

        for (unsigned i = 0; i < rounds + WARM_UPS; i++) {
                double t = now_us();

                run_true();
                if (i >= WARM_UPS)
                        samples_add(&s, now_us() - t);
        }
        print(json_pack("{so}", "spawn", samples_json(&s)));
}

/* The least HTTP server that runs a command: one connection, a request is what one read returns. */
static void serve_commands(int listener)
{
        static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        char request[4096];
        int on = 1, conn = accept(listener, NULL, NULL);

        (void)setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        while (read(conn, request, sizeof(request)) > 0) {
                run_true();
                if (write(conn, answer, sizeof(answer) - 1) < 0)
                        break;
        }
        _exit(0);
}

static void mode_http(void)
{
        static const char request[] = "POST /run HTTP/1.1\r\nHost: floor\r\nContent-Length: 0\r\n\r\n";
        struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(addr);
        struct samples s = {0};
        char answer[512];
        int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(listener, 1) < 0 ||
            getsockname(listener, (struct sockaddr *)&addr, &len) < 0)
                err(1, "listen");
        pid_t server = fork();
        if (server == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                serve_commands(listener);
        }
        int conn = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        (void)setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (connect(conn, (struct sockaddr *)&addr, sizeof(addr)) < 0)
                err(1, "connect");
        for (unsigned i = 0; i < rounds + WARM_UPS; i++) {
                double t = now_us();

                if (write(conn, request, sizeof(request) - 1) < 0 || read(conn, answer, sizeof(answer)) <= 0)
                        err(1, "exchange");
                if (i >= WARM_UPS)
                        samples_add(&s, now_us() - t);
        }
        (void)close(conn);
        (void)waitpid(server, NULL, 0);
        print(json_pack("{so}", "http_spawn", samples_json(&s)));
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                void (*run)(void);
        } modes[] = {{"create", mode_create}, {"spawn", mode_spawn}, {"http", mode_http}};
        int c;

        optind = 2;
        while (argc > 1 && (c = getopt(argc, argv, "n:r:w:a:")) != -1)
                switch (c) {
                case 'n':
                        if (parse_u32(str_of(optarg), 1, 100000, &rounds) < 0)
                                errx(2, "-n: a number from 1 to 100000");
                        break;
                case 'r': root_dir = optarg; break;
                case 'w': work_dir = optarg; break;
                case 'a': agent_file = optarg; break;
                default: return 2;
                }
        for (size_t i = 0; argc > 1 && i < ARRAY_LEN(modes); i++)
                if (strcmp(argv[1], modes[i].name) == 0) {
                        modes[i].run();
                        return 0;
                }
        errx(2, "usage: floor create|spawn|http [-n rounds] [-r root -w work -a agent]");
}
