/* puller_client.c - a puller with little patience, and control's end of its channel on stdin and stdout, for tests in node.
 *
 * usage: puller_client DATA CONFIGURATION
 * Each line on stdin is a message; its member "@file" names a file that goes with it.  Each message of the puller is a line on
 * stdout; a file that came with it is shown as "@sha256" and "@bytes".  At the end of stdin the channel is closed, and the
 * puller's exit code is the last line. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "io/channel.h"
#include "io/listener.h"
#include "model/conf.h"
#include "puller/limits.h"
#include "puller/role.h"
#include "wire/sha256.h"

static const struct puller_limits limits = {
        .idle_ms = 500,
        .connect_ms = 2000,
        .stall_s = 2,
        .document_ms = 3000,
        .retry_ms = 20,
        .retry_max_ms = 2000,
        .failures_max = 4,
        .attempts_max = 30,
        .blobs_at_once = 3,
        .jobs_at_once = 2,
        .jobs_max = 8,
        .progress_ms = 20,
        .kept_s = 3600,
};

struct client {
        struct loop *loop;
        struct channel *channel;
        struct io in;
        struct buf text;
};

static void die(const char *what)
{
        (void)fprintf(stderr, "puller_client: %s\n", what);
        exit(1);
}

static void print(json_t *msg)
{
        AUTO_FREE char *text = json_dumps(msg, JSON_COMPACT);

        (void)puts(text);
        (void)fflush(stdout);
}

static void show_file(json_t *msg, int fd)
{
        char hex[2 * SHA256_LEN + 1];
        uint8_t piece[65536], sum[SHA256_LEN];
        struct sha256 s;
        json_int_t bytes = 0;
        ssize_t n;

        if (write(fd, "x", 1) >= 0)
                die("a blob can be written");
        sha256_init(&s);
        while ((n = read(fd, piece, sizeof(piece))) > 0) {
                sha256_add(&s, piece, (size_t)n);
                bytes += n;
        }
        sha256_end(&s, sum);
        hex_encode(sum, sizeof(sum), hex);
        (void)json_object_set_new(msg, "@sha256", json_string(hex));
        (void)json_object_set_new(msg, "@bytes", json_integer(bytes));
}

static void on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        (void)ch, (void)arg;
        if (nfds == 1)
                show_file(msg, fds[0]);
        print(msg);
}

static void on_close(struct channel *ch, const char *reason, void *arg)
{
        struct client *c = arg;

        (void)reason;
        c->channel = channel_free(ch);
        loop_stop(c->loop);
}

static void send_line(struct client *c, struct str line)
{
        json_t *msg = json_loadb(line.p, line.n, 0, NULL);
        const char *path = json_string_value(json_object_get(msg, "@file"));
        AUTO_CLOSE int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

        if (!msg || (path && fd < 0))
                die("bad line");
        (void)json_object_del(msg, "@file");
        (void)channel_send(c->channel, msg, &fd, path ? 1 : 0);
}

static void on_input(struct io *io, uint32_t events)
{
        struct client *c = CONTAINER_OF(io, struct client, in);
        const uint8_t *end;
        ssize_t n = buf_fill(&c->text, io->fd, 65536);

        (void)events;
        while (c->text.len > 0 && (end = memchr(buf_at(&c->text), '\n', c->text.len))) {
                size_t len = (size_t)(end - buf_at(&c->text));

                send_line(c, (struct str){(const char *)buf_at(&c->text), len});
                buf_consume(&c->text, len + 1);
        }
        if (n <= 0) {
                loop_del(io);
                loop_stop(c->loop);
        }
}

static void talk(const char *path)
{
        static const struct channel_ops ops = {.on_message = on_message, .on_close = on_close};
        struct client c = {.in.on = on_input, .in.fd = STDIN_FILENO};
        int fd;

        buf_init(&c.text, 1u << 20);
        if (loop_create(&c.loop) < 0 || connect_unix(path, &fd) < 0 ||
            channel_create(c.loop, fd, &ops, &c, &c.channel) < 0 || loop_add(c.loop, &c.in, EPOLLIN) < 0 ||
            loop_run(c.loop) < 0)
                die("no connection");
        c.channel = channel_free(c.channel);
        loop_del(&c.in);
        c.loop = loop_free(c.loop);
        buf_done(&c.text);
}

int main(int argc, char **argv)
{
        AUTO_FREE char *path = NULL;
        struct err err = {0};
        json_t *given = argc == 3 ? json_loads(argv[2], 0, NULL) : NULL;
        struct conf conf;
        int status;
        pid_t pid;

        if (!given || conf_defaults(&conf, argv[1], &err) < 0 || conf_apply_json(&conf, given, &err) < 0 ||
            conf_check(&conf, &err) < 0)
                die(given ? err.msg : "usage: puller_client DATA CONFIGURATION");
        json_decref(given);
        path = conf_path(&conf, "puller.sock");
        if (listen_unix(path, 0600, &conf.fds.puller, &err) < 0)
                die(err.msg);
        pid = fork();
        if (pid == 0) {
                conf.control_uid = geteuid() ? geteuid() : conf.control_uid;
                log_setup("puller", LOG_DEBUG);
                status = puller_run(&conf, &limits);
                conf_done(&conf);
                exit(status);
        }
        (void)close(conf.fds.puller);
        talk(path);
        if (waitpid(pid, &status, 0) != pid)
                die("waitpid");
        (void)printf("{\"exit\":%d}\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        conf_done(&conf);
        return 0;
}
