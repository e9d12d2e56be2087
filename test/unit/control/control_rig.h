/* control_rig.h - a whole control in the test's own loop: with a fake engine on a real channel, edges, and clients. */
#pragma once
#include "fake_engine.h"

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
        if (http_server_accept(rig.control.api.http, sv[1]) < 0)
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

        if (control_init(&rig.control, &rig.conf, rig.loop, rig_now, rig_boot, &err) < 0) {
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
        static const char *const below[] = {"", "/run", "/images", "/images/templates", "/builds", "/uploads"};
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
static bool rig_is_large; /* all its sandboxes are */

static bool rig_start(void)
{
        log_setup("control", LOG_ERROR);
        rig = (struct rig){.now_ns = 1790000000 * S_NS};
        engine = (struct fake_engine){.alive = json_object(),
                                      .checkpoints = json_object(),
                                      .layers = json_object(),
                                      .lost = json_object(),
                                      .is_large = rig_is_large};
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
        json_decref(engine.checkpoints);
        json_decref(engine.layers);
        json_decref(engine.lost);
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
        if (engine.broken) {
                printf("# control: %s\n", engine.broken);
                tap_case_failed = 1;
        }
        rig_stop();
}
