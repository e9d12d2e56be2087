/* fake_builder.h - a builder that says what it is told to say, on a real channel, and a build to be carried out with it. */
#pragma once
#include "control/catalogue/builds.h"
#include "control_rig.h"
#include "model/build/build_request.h"

static struct fake_builder {
        struct listener listener;
        struct channel *channel;
        const char *fails;     /* steps of this kind, or a RUN with this command */
        const char *fail_kind; /* NULL: "invalid" */
        const char *holds;     /* the same */
        const char *dies_on;   /* the same, as often as `deaths` says */
        unsigned deaths;
        bool creates;   /* users and directories are not there yet */
        json_t *steps;  /* all that came */
        char log[8192]; /* "run copy ..." */
} builder;

static bool builder_is(const char *wanted, const json_t *step)
{
        const char *kind = json_string_value(json_object_get(step, "kind"));
        const char *cmd = json_string_value(json_object_get(step, "cmd"));

        return wanted && ((kind && strcmp(kind, wanted) == 0) || (cmd && strcmp(cmd, wanted) == 0));
}

static void builder_hang_up(struct task *t)
{
        (void)t;
        builder.channel = channel_free(builder.channel);
}
static struct task builder_hang_up_task = {.run = builder_hang_up};

static void builder_say(const json_t *msg, json_t *answer)
{
        (void)json_object_set(answer, "req", json_object_get(msg, "req"));
        (void)channel_send(builder.channel, answer, NULL, 0);
}

static void builder_take(const json_t *msg, const int *fds, size_t nfds)
{
        const json_t *step = json_object_get(msg, "step");
        size_t n = strlen(builder.log);

        (void)json_array_append(builder.steps, (json_t *)(uintptr_t)step);
        (void)snprintf(builder.log + n, sizeof(builder.log) - n, "%s%s", n ? " " : "",
                       json_string_value(json_object_get(step, "kind")));
        if (builder_is("archive", step) && (nfds != 2 || write(fds[1], "tar", 3) != 3))
                engine.broken = "no file for an archive";
        if (builder_is("start", step) && nfds != 2)
                engine.broken = "a start step needs two sockets";
        if (builder_is(builder.dies_on, step) && builder.deaths > 0) {
                builder.deaths--;
                loop_post(rig.loop, &builder_hang_up_task);
        } else if (builder_is(builder.fails, step)) {
                builder_say(msg, json_pack("{s:{s:s,s:s}}", "error", "kind",
                                           builder.fail_kind ? builder.fail_kind : "invalid", "message", "it failed"));
        } else if (!builder_is(builder.holds, step)) {
                builder_say(msg, json_pack("{s:s,s:[{s:I,s:s,s:s}]}", "event", "log", "entries", "t", (json_int_t)1,
                                           "l", "info", "m", "[stdout]: word"));
                builder_say(msg, json_pack("{s:b,s:b}", "ok", 1, "created", builder.creates));
        }
}

static void builder_on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        (void)ch, (void)arg;
        RIG_OWN(builder_take(msg, fds, nfds));
}

static void builder_on_close(struct channel *ch, const char *reason, void *arg)
{
        (void)ch, (void)reason, (void)arg;
        builder.channel = channel_free(builder.channel);
}

static void builder_accept(struct listener *ln, int fd)
{
        static const struct channel_ops ops = {.on_message = builder_on_message, .on_close = builder_on_close};

        (void)ln;
        builder.channel = channel_free(builder.channel);
        (void)channel_create(rig.loop, fd, &ops, NULL, &builder.channel);
}

static void builder_start(void)
{
        char path[128];
        int fd = -1;

        builder = (struct fake_builder){.steps = json_array()};
        (void)snprintf(path, sizeof(path), "%s/run/builder.sock", rig.dir);
        if (listen_unix(path, 0600, &fd, NULL) < 0 ||
            listener_start(&builder.listener, rig.loop, fd, builder_accept, NULL) < 0)
                abort();
}

static void builder_stop(void)
{
        listener_stop(&builder.listener);
        builder.channel = channel_free(builder.channel);
        json_decref(builder.steps);
}

/* ---- builds ---- */

/* The build of a template `t`, BUILDING; NULL: the request is wrong. */
static const char *begin_build(const char *request)
{
        static char id[UUID_MAX];
        struct template_rows *rows = &rig.control.template_rows;
        struct template_row *t = template_rows_by_alias(rows, 1, "t");
        struct build b = {.tags = json_pack("[s]", "default"), .cpu_count = 2, .memory_mb = 512, .disk_mb = 1024};
        struct build_request r = {0};
        struct build_entry *e = NULL;
        struct err err = {0};
        json_t *body = json_loads(request, 0, NULL);

        if (!body || build_request_decode(body, &r, &err) < 0 ||
            (!t && template_rows_add(rows, 1, "t", &t, &err) < 0) || builds_add(rows, t, &b, &e, &err) < 0 ||
            build_begin(rows, e, &r, &err) < 0) {
                printf("# build: %s\n", err.msg);
                e = NULL;
        }
        json_decref(body);
        build_request_done(&r);
        build_done(&b);
        if (!e)
                return NULL;
        memcpy(id, e->build.id, sizeof(id));
        builds_start(&rig.control.builds, id);
        return id;
}

static const struct build *build_of(const char *id)
{
        const struct build_entry *e = builds_find(&rig.control.template_rows, id);

        return e ? &e->build : NULL;
}

static bool no_build_runs(void *arg)
{
        (void)arg;
        return builds_run_count(&rig.control.builds) == 0;
}

static bool nothing_is_alive(void *arg)
{
        (void)arg;
        return json_object_size(engine.alive) == 0;
}

/* Carried out to its end. */
static const struct build *run_build(const char *request)
{
        const char *id = begin_build(request);

        return id && run_until(no_build_runs, NULL) && run_until(nothing_is_alive, NULL) ? build_of(id) : NULL;
}

static const json_t *step_at(size_t n)
{
        return json_array_get(builder.steps, n);
}

static bool reason_is(const struct build *b, const char *message, const char *step)
{
        const char *m = b ? json_string_value(json_object_get(b->reason, "message")) : NULL;
        const char *s = b ? json_string_value(json_object_get(b->reason, "step")) : NULL;
        bool is = m && strcmp(m, message) == 0 && strcmp(s ? s : "", step) == 0;

        if (!is)
                printf("# reason \"%s\", step \"%s\"\n", m ? m : "(none)", s ? s : "(none)");
        return is;
}

/* Does the log of the build have a message that begins with this text? */
static bool build_said(const char *id, const char *text)
{
        json_t *all = build_log_read(&rig.control.build_logs, id, BUILD_LOG_DEBUG, 0, 100), *v;
        bool found = false;
        size_t i;

        json_array_foreach (all, i, v)
                found |= strncmp(json_string_value(json_object_get(v, "message")), text, strlen(text)) == 0;
        json_decref(all);
        return found;
}
