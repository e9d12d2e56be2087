/* control_life.h - what tests of lives share, on top of control_rig.h: asking for transitions, waiting for states, and an
 * edge. */
#pragma once
#include "control_rig.h"

#define BASE "{\"templateID\":\"base\",\"timeout\":60}"
#define NO_SANDBOX "Sandbox \"%s\" doesn't exist or you don't have access to it"

__attribute__((unused)) static const char *path_of(const char *id, const char *what)
{
        static char path[128];

        (void)snprintf(path, sizeof(path), "/sandboxes/%s%s", id, what);
        return path;
}

__attribute__((unused)) static const char *say(const char *fmt, const char *id)
{
        static char text[200];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(text, sizeof(text), fmt, id);
#pragma GCC diagnostic pop
        return text;
}

__attribute__((unused)) static unsigned pause_it(const char *id)
{
        return ask("POST", path_of(id, "/pause"), "{}");
}

__attribute__((unused)) static unsigned connect_to(const char *id, const char *body)
{
        char path[128];

        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        return ask("POST", path, body);
}

__attribute__((unused)) static void start(struct client *c, const char *method, const char *path, const char *body)
{
        char more[128];

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", rig.key);
        client_send(c, method, path, more, body);
}

__attribute__((unused)) static const char *shown(const char *id, const char *field)
{
        return ask("GET", path_of(id, ""), NULL) == 200 ? text_at(field) : "none";
}

__attribute__((unused)) static enum sandbox_state state_of(const char *id)
{
        struct life *l = lives_find(&rig.control.lives, id);

        return l ? l->sandbox.state : SANDBOX_GONE;
}

struct want {
        const char *id;
        enum sandbox_state state;
};

__attribute__((unused)) static bool has_state(void *arg)
{
        const struct want *w = arg;

        return state_of(w->id) == w->state;
}

__attribute__((unused)) static bool until(const char *id, enum sandbox_state state)
{
        struct want w = {id, state};

        return run_until(has_state, &w);
}

__attribute__((unused)) static bool nothing_is_left(void *arg)
{
        (void)arg;
        return json_object_size(engine.checkpoints) == 0 && json_object_size(engine.layers) == 0;
}

__attribute__((unused)) static size_t team_count(void)
{
        return LIST_ENTRY(rig.control.keys.teams.next, struct team, node)->sandbox_count;
}

struct seen {
        const char *id;
        struct sandbox row;
};

__attribute__((unused)) static int find_row(struct sandbox *sb, void *arg)
{
        struct seen *seen = arg;

        if (strcmp(sb->id, seen->id) == 0) {
                sandbox_done(&seen->row);
                seen->row = *sb;
                *sb = (struct sandbox){0};
        }
        return 0;
}

__attribute__((unused)) static enum sandbox_state row_state(const char *id)
{
        struct seen seen = {.id = id, .row.state = SANDBOX_GONE};
        enum sandbox_state state;

        (void)store_sandbox_each(rig.control.store, find_row, &seen, NULL);
        state = seen.row.state;
        sandbox_done(&seen.row);
        return state;
}

/* ---- an edge ---- */

static struct fake_edge {
        struct channel *channel;
        char log[8192];
} edge;

__attribute__((unused)) static void edge_on_message(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg)
{
        AUTO_FREE char *text = json_dumps(msg, JSON_COMPACT | JSON_SORT_KEYS);
        size_t n = strlen(edge.log);

        (void)ch, (void)fds, (void)nfds, (void)arg;
        (void)snprintf(edge.log + n, sizeof(edge.log) - n, "%s\n", text);
}

__attribute__((unused)) static void edge_on_close(struct channel *ch, const char *reason, void *arg)
{
        (void)reason, (void)arg;
        edge.channel = ch = channel_free(ch);
}

__attribute__((unused)) static bool edge_start(void)
{
        static const struct channel_ops ops = {.on_message = edge_on_message, .on_close = edge_on_close};
        int sv[2];

        edge = (struct fake_edge){0};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) < 0)
                return false;
        return channel_create(rig.loop, sv[0], &ops, NULL, &edge.channel) == 0 &&
               route_feed_accept(&rig.control.routes.feed, sv[1]) == 0;
}

__attribute__((unused)) static bool edge_has_heard(void *arg)
{
        return strstr(edge.log, arg);
}
