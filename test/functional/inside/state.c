/* The program: makes all items, then answers every HTTP request on 127.0.0.1:PORT with one line per item.
 *
 *   gcc -O1 -o state state.c state_*.c -lpthread && STATE_ENV=kept ./state PORT [item ...] */
#include "state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct item *const all[] = {file_items, socket_items, memory_items, process_items, clock_items};
static int wanted_count;
static char **wanted;

const char *why(const char *what)
{
        static char text[300];

        (void)snprintf(text, sizeof(text), "%s (%s)", what, strerror(errno));
        return text;
}

static bool is_wanted(const char *name)
{
        for (int i = 0; i < wanted_count; i++)
                if (strcmp(wanted[i], name) == 0)
                        return true;
        return wanted_count == 0;
}

static bool each(FILE *out, bool is_check)
{
        bool ok = true;

        for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
                for (const struct item *i = all[k]; i->name; i++) {
                        const char *wrong;

                        if (!is_wanted(i->name))
                                continue;
                        errno = 0;
                        wrong = is_check ? i->check() : i->make();
                        ok = ok && !wrong;
                        if (wrong || is_check)
                                fprintf(out, "%s: %s%s\n", i->name, wrong ? "FAILED " : "ok", wrong ? wrong : "");
                }
        return ok;
}

static void answer(int client)
{
        char request[2048];
        FILE *out = fdopen(client, "r+");

        setlinebuf(out); /* what hangs is named by what came before it */
        (void)!read(client, request, sizeof(request));
        fprintf(out, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n");
        (void)each(out, true);
        (void)fclose(out);
}

int main(int argc, char **argv)
{
        struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

        wanted = argv + 2;
        wanted_count = argc - 2;
        here.sin_port = htons((unsigned short)atoi(argv[1]));
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        (void)signal(SIGPIPE, SIG_IGN);
        if (bind(fd, (struct sockaddr *)&here, sizeof(here)) < 0 || listen(fd, 16) < 0 || !each(stdout, false))
                return 1;
        printf("ready %d\n", getpid());
        fflush(stdout);
        for (;;) {
                int client = accept(fd, NULL, NULL);

                if (client >= 0)
                        answer(client);
        }
}
