/* control_rig.h - a whole control in the test's own loop: with a fake engine on a real channel, edges, and clients. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "control/control.h"
#include "http/server.h"
#include "io/channel.h"
#include "io/listener.h"
#include "io/loop.h"
#include "model/conf.h"

#include "tap.h"

#ifndef RIG_OWN /* around what is the test's own and not control's, for tests that make things fail */
#define RIG_OWN(statement) statement
#endif

#ifndef GUARD_MS
#define GUARD_MS 10000
#endif
#define S_NS INT64_C(1000000000)
#define TEMPLATE_ID "abcdefghij0123456789"

static struct rig {
        char dir[64];
        struct loop *loop;
        struct conf conf;
        struct control control;
        bool is_up;
        char key[KEY_LEN + 1];
        int64_t now_ns; /* the clock that control sees */
} rig;

static int64_t rig_now(void)
{
        return rig.now_ns;
}

/* ---- running the loop until something holds ---- */

struct watch {
        struct task task;
        bool (*holds)(void *arg);
        void *arg;
        uint64_t until_ms;
        bool held;
};

static void watch_step(struct task *t)
{
        struct watch *w = CONTAINER_OF(t, struct watch, task);

        w->held = w->holds(w->arg);
        if (w->held || clock_mono_ms() > w->until_ms)
                loop_stop(rig.loop);
        else
                loop_post(rig.loop, t);
}

static bool run_until(bool (*holds)(void *arg), void *arg)
{
        struct watch w = {.task.run = watch_step, .holds = holds, .arg = arg, .until_ms = clock_mono_ms() + GUARD_MS};

        loop_post(rig.loop, &w.task);
        (void)loop_run(rig.loop);
        return w.held;
}

static bool count_down(void *arg)
{
        return --*(int *)arg <= 0;
}

__attribute__((unused)) static void run_rounds(int n) /* enough for messages on their way to arrive */
{
        (void)run_until(count_down, &n);
}

/* ---- the engine ---- */

static struct fake_engine {
        struct listener listener;
        struct channel *channel;
        bool holds_create, holds_kill, holds_list, fails_create, fails_kill;
        const char *fail_kind, *fail_message;
        json_t *alive;  /* ids */
        json_t *plan;   /* the last one */
        json_t *held;   /* the last message that was held */
        char log[4096]; /* "list create:<id> kill:<id> ..." of what came */
} engine;

static void engine_note(const char *op, const char *id)
{
        size_t n = strlen(engine.log);

        (void)snprintf(engine.log + n, sizeof(engine.log) - n, "%s%s%s%s", n ? " " : "", op, id ? ":" : "",
                       id ? id : "");
}

static void engine_answer(const json_t *msg, json_t *answer)
{
        (void)json_object_set(answer, "req", json_object_get(msg, "req"));
        (void)channel_send(engine.channel, answer, NULL, 0);
}

static json_t *engine_ok(void)
{
        return json_pack("{s:b}", "ok", 1);
}

static json_t *engine_error(void)
{
        return json_pack("{s:{s:s,s:s}}", "error", "kind", engine.fail_kind, "message", engine.fail_message);
}

static json_t *engine_list(void)
{
        json_t *list = json_array(), *v;
        const char *id;

        json_object_foreach (engine.alive, id, v)
                (void)json_array_append_new(list, json_pack("{s:s,s:i}", "id", id, "pid", 1));
        return json_pack("{s:b,s:o}", "ok", 1, "sandboxes", list);
}

static void engine_kill(const json_t *msg, const char *id)
{
        if (engine.fails_kill) {
                engine_answer(msg, engine_error());
        } else if (json_object_del(engine.alive, id) < 0) {
                engine_answer(msg,
                              json_pack("{s:{s:s,s:s}}", "error", "kind", "not_found", "message", "no such sandbox"));
        } else {
                engine_answer(msg, engine_ok());
        }
}

static void engine_create(const json_t *msg)
{
        const char *id = json_string_value(json_object_get(json_object_get(msg, "plan"), "id"));

        if (engine.fails_create) {
                engine_answer(msg, engine_error());
                return;
        }
        (void)json_object_set_new(engine.alive, id, json_true());
        engine_answer(msg, json_pack("{s:b,s:i,s:i}", "ok", 1, "pid", 1, "create_us", 1));
}

static void engine_carry_out(const json_t *msg)
{
        const char *op = json_string_value(json_object_get(msg, "op"));
        const char *id = json_string_value(json_object_get(msg, "id"));

        if (!op)
                op = "";
        if (strcmp(op, "create") == 0)
                engine_create(msg);
        else if (strcmp(op, "kill") == 0)
                engine_kill(msg, id);
        else if (strcmp(op, "list") == 0)
                engine_answer(msg, engine_list());
        else if (strcmp(op, "stats") == 0)
                engine_answer(msg, json_pack("{s:b,s:i,s:i,s:i,s:i}", "ok", 1, "memory_bytes", 1000, "memory_limit",
                                             2000, "cpu_us", 500000, "pids", 3));
        else
                engine_answer(msg, json_pack("{s:{s:s,s:s}}", "error", "kind", "invalid", "message", "unknown op"));
}

static void engine_take(const json_t *msg)
{
        const char *op = json_string_value(json_object_get(msg, "op"));
        const json_t *plan = json_object_get(msg, "plan");
        const char *id = json_string_value(json_object_get(plan ? plan : msg, "id"));

        op = op ? op : "";
        engine_note(op, id);
        if (plan) {
                json_decref(engine.plan);
                engine.plan = json_deep_copy(plan);
        }
        if ((strcmp(op, "create") == 0 && engine.holds_create) || (strcmp(op, "kill") == 0 && engine.holds_kill) ||
            (strcmp(op, "list") == 0 && engine.holds_list)) {
                json_decref(engine.held);
                engine.held = json_deep_copy(msg);
                return;
        }
        engine_carry_out(msg);
}

static void engine_on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        (void)ch, (void)fds, (void)nfds, (void)arg;
        RIG_OWN(engine_take(msg));
}

__attribute__((unused)) static void engine_release(void) /* what was held is carried out now */
{
        json_t *msg = TAKE_PTR(engine.held);

        engine.holds_create = engine.holds_kill = engine.holds_list = false;
        engine_carry_out(msg);
        json_decref(msg);
}

static void engine_on_close(struct channel *ch, const char *reason, void *arg)
{
        (void)reason, (void)arg;
        engine.channel = ch = channel_free(ch);
}

static void engine_on_conn(struct listener *ln, int fd)
{
        static const struct channel_ops ops = {.on_message = engine_on_message, .on_close = engine_on_close};

        (void)ln;
        RIG_OWN((void)channel_create(rig.loop, fd, &ops, NULL, &engine.channel));
}

static void engine_start(void)
{
        char path[96];
        int fd = -1;

        (void)snprintf(path, sizeof(path), "%s/run/engine.sock", rig.dir);
        if (listen_unix(path, 0600, &fd, NULL) < 0 ||
            listener_start(&engine.listener, rig.loop, fd, engine_on_conn, NULL) < 0)
                abort();
}

static void engine_stop(void) /* its sandboxes live on */
{
        listener_stop(&engine.listener);
        engine.channel = channel_free(engine.channel);
        json_decref(engine.held);
        engine.held = NULL;
}

static bool engine_is_up(void *arg)
{
        (void)arg;
        return rig.control.engine.state == ENGINE_UP;
}

__attribute__((unused)) static bool engine_has_logged(void *arg)
{
        return strstr(engine.log, arg);
}

__attribute__((unused)) static bool engine_lives(const char *id)
{
        return json_object_get(engine.alive, id);
}

/* ---- clients ---- */

struct client {
        struct io io;
        struct buf in;
        bool is_done;
        unsigned status;
        struct http1_head head;
        json_t *json; /* the body */
};

static void client_look(struct client *c)
{
        struct http1_body body;
        AUTO_BUF struct buf text = BUF_INIT(4u << 20);
        size_t used = 0, at;
        struct str piece;
        enum http1_step step;

        c->head = (struct http1_head){0};
        if (http1_parse_response(&c->head, buf_at(&c->in), c->in.len, false, &used) != HTTP1_DONE)
                return;
        http1_body_init(&body, &c->head);
        for (at = used; !http1_body_is_done(&body); at += used) {
                step = http1_body_feed(&body, buf_at(&c->in) + at, c->in.len - at, &used, &piece);
                if (step == HTTP1_DATA)
                        (void)buf_add(&text, piece.p, piece.n);
                else if (step != HTTP1_DONE)
                        return;
        }
        c->status = c->head.status;
        c->json = text.len ? json_loadb((const char *)buf_at(&text), text.len, JSON_DECODE_ANY, NULL) : NULL;
        c->is_done = true;
}

static void client_read(struct io *io)
{
        struct client *c = CONTAINER_OF(io, struct client, io);
        ssize_t n = buf_fill(&c->in, io->fd, 65536);

        if (n == 0 || (n < 0 && n != -EAGAIN)) {
                loop_del(io);
                c->is_done = true;
        }
        if (n > 0 && !c->is_done)
                client_look(c);
}

static void client_on(struct io *io, uint32_t events)
{
        (void)events;
        RIG_OWN(client_read(io));
}

static void client_close(struct client *c)
{
        loop_del(&c->io);
        close_fd(&c->io.fd);
        buf_done(&c->in);
        json_decref(c->json);
        *c = (struct client){.io.fd = -1};
}

/* `more` are header lines, each with its line end. */
static void client_send(struct client *c, const char *method, const char *path, const char *more, const char *body)
{
        AUTO_BUF struct buf text = BUF_INIT(4u << 20);
        int sv[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) < 0)
                abort();
        *c = (struct client){.io.fd = sv[0], .io.on = client_on, .in = BUF_INIT(4u << 20)};
        (void)buf_addf(&text, "%s %s HTTP/1.1\r\nHost: api.localhost\r\n%s", method, path, more);
        if (body)
                (void)buf_addf(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
        (void)buf_addf(&text, "\r\n%s", body ? body : "");
        if (write(sv[0], buf_at(&text), text.len) != (ssize_t)text.len)
                abort();
        (void)loop_add(rig.loop, &c->io, EPOLLIN);
        if (http_server_accept(rig.control.http, sv[1]) < 0)
                abort();
}

static bool client_is_done(void *arg)
{
        return ((struct client *)arg)->is_done;
}

static struct client last; /* the answer to the last ask() */

static unsigned ask_with(const char *method, const char *path, const char *more, const char *body)
{
        client_close(&last);
        client_send(&last, method, path, more, body);
        if (!run_until(client_is_done, &last))
                return 0;
        return last.status;
}

/* With the key; returns the status, 0 when nothing came. */
__attribute__((unused)) static unsigned ask(const char *method, const char *path, const char *body)
{
        char more[128];

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", rig.key);
        return ask_with(method, path, more, body);
}

static const char *text_at(const char *name) /* of the last answer */
{
        return json_string_value(json_object_get(last.json, name));
}

/* Is the last answer {"code":status,"message":message}, and its status that? */
__attribute__((unused)) static bool is_error(unsigned status, const char *message)
{
        bool is = last.status == status && json_integer_value(json_object_get(last.json, "code")) == status &&
                  text_at("message") && strcmp(text_at("message"), message) == 0;

        if (!is)
                printf("# status %u, message \"%s\"\n", last.status,
                       text_at("message") ? text_at("message") : "(none)");
        return is;
}

/* Create one through v2; its id into out. */
__attribute__((unused)) static bool create(const char *body, char out[SANDBOX_ID_MAX])
{
        if (ask("POST", "/v2/sandboxes", body) != 201 || !text_at("sandboxID"))
                return false;
        (void)snprintf(out, SANDBOX_ID_MAX, "%s", text_at("sandboxID"));
        return true;
}

/* ---- setting up and tearing down ---- */

static void write_file(const char *below, const char *text)
{
        char path[160];
        FILE *f;

        (void)snprintf(path, sizeof(path), "%s/%s", rig.dir, below);
        f = fopen(path, "we");
        if (!f)
                abort();
        (void)fputs(text, f);
        (void)fclose(f);
}

static bool read_key(void)
{
        char path[96];
        bool is_read;
        FILE *f;

        (void)snprintf(path, sizeof(path), "%s/store/first-key", rig.dir);
        f = fopen(path, "re");
        if (!f)
                return false;
        is_read = fread(rig.key, 1, KEY_LEN, f) == KEY_LEN;
        (void)fclose(f);
        return is_read;
}

static bool control_start(void) /* also again, over the same directory */
{
        struct err err = {0};

        if (control_init(&rig.control, &rig.conf, rig.loop, rig_now, &err) < 0) {
                printf("# control: %s\n", err.msg);
                return false;
        }
        rig.is_up = true;
        return true;
}

static void control_stop(void)
{
        client_close(&last);
        if (rig.is_up)
                control_done(&rig.control);
        rig.is_up = false;
}

static void make_dirs(void)
{
        static const char *const below[] = {"", "/run", "/images", "/images/templates"};
        char path[160];

        /* In memory where that is possible: nothing here is about the disk. */
        (void)snprintf(rig.dir, sizeof(rig.dir), "%s/sandglass-control-%d-XXXXXX",
                       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
        if (!mkdtemp(rig.dir))
                abort();
        for (size_t i = 1; i < ARRAY_LEN(below); i++) {
                (void)snprintf(path, sizeof(path), "%s%s", rig.dir, below[i]);
                (void)mkdir(path, 0700);
        }
}

/* A control with its engine up, one template `base`, and a clock that stands still. */
static bool rig_start(void)
{
        log_setup("control", LOG_ERROR);
        rig = (struct rig){.now_ns = 1790000000 * S_NS};
        engine = (struct fake_engine){.alive = json_object()};
        last = (struct client){.io.fd = -1};
        make_dirs();
        write_file("images/templates/base.json",
                   "{\"alias\":\"base\",\"templateID\":\"" TEMPLATE_ID "\",\"layers\":[\"l1\",\"l2\"],\"cpuCount\":2,"
                   "\"memoryMB\":512,\"diskSizeMB\":1024,\"defaultUser\":\"user\",\"defaultWorkdir\":\"/home/user\"}");
        if (loop_create(&rig.loop) < 0 || conf_defaults(&rig.conf, rig.dir, NULL) < 0)
                return false;
        engine_start();
        return control_start() && read_key() && run_until(engine_is_up, NULL);
}

static void rig_stop(void)
{
        char command[160];

        control_stop();
        engine_stop();
        json_decref(engine.alive);
        json_decref(engine.plan);
        rig.loop = loop_free(rig.loop);
        conf_done(&rig.conf);
        (void)snprintf(command, sizeof(command), "rm -rf '%s'", rig.dir);
        (void)!system(command);
}

/* A case that runs in a rig of its own, released whatever happens. */
#define RUN_IN_RIG(fn)                                                                                                 \
        do {                                                                                                           \
                rig_case = fn;                                                                                         \
                tap_run(#fn, rig_run);                                                                                 \
        } while (0)
static void (*rig_case)(void);

__attribute__((unused)) static void rig_run(void)
{
        if (rig_start())
                rig_case();
        else
                tap_case_failed = 1;
        rig_stop();
}
