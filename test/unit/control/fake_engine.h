/* fake_engine.h - an engine without sandboxes, on a real channel: keeps books of what control asked for, and refuses or stalls on
 * request. */
#pragma once
#include "control_loop.h"

static struct fake_engine {
        struct listener listener;
        struct channel *channel;
        bool holds_create, holds_kill, holds_list, fails_create, fails_kill;
        const char *holds, *fails;         /* any other op */
        char unmergeable[SEALED_ID_MAX];   /* a layer that no merge gets done with; empty: none */
        const char *dies_before, *dies_on; /* the link goes instead of the op, or of its answer */
        const char *fail_kind, *fail_message;
        json_t *alive;                /* id -> true, or {"state","checkpoint","sealed","layers","fleeting"} */
        json_t *checkpoints, *layers; /* names that are on its disk -> true, or their origin */
        json_t *lost;                 /* what it was told to move aside -> what it was */
        const char *
                envd_silent; /* why envds of sandboxes that are restored with memory do not answer; NULL: they answer */
        bool is_large;       /* sandboxes' files are too many to be copied while they run */
        const char *broken;  /* what control should not have done */
        json_t *plan;        /* the last one */
        json_t *wants;       /* the last list of standbys; NULL: none came */
        json_t *held;        /* the last message that was held */
        char log[16384];     /* "list create:<id> kill:<id> ..." of what came */
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

static json_t *engine_refusal(const char *kind, const char *message)
{
        return json_pack("{s:{s:s,s:s}}", "error", "kind", kind, "message", message);
}

static json_t *names_in(const json_t *set)
{
        json_t *list = json_array(), *v;
        const char *name;

        json_object_foreach ((json_t *)set, name, v)
                (void)json_array_append_new(list, json_string(name));
        return list;
}

static const char *state_at_engine(const char *id)
{
        const json_t *entry = json_object_get(engine.alive, id);
        const char *state = json_string_value(json_object_get(entry, "state"));

        return !entry ? "none" : state ? state : "running";
}

static json_t *engine_list(void)
{
        json_t *list = json_array(), *v;
        const char *id;

        json_object_foreach (engine.alive, id, v)
                (void)json_array_append_new(
                        list, json_pack("{s:s,s:s,s:i,s:O*,s:O*,s:O*}", "id", id, "state", state_at_engine(id), "pid",
                                        1, "checkpoint", json_object_get(v, "checkpoint"), "sealed",
                                        json_object_get(v, "sealed"), "rebooted", json_object_get(v, "rebooted")));
        return json_pack("{s:b,s:o,s:o,s:o}", "ok", 1, "sandboxes", list, "checkpoints", names_in(engine.checkpoints),
                         "layers", names_in(engine.layers));
}

static json_t *engine_kill(const char *id)
{
        if (engine.fails_kill)
                return engine_error();
        return json_object_del(engine.alive, id) < 0 ? engine_refusal("gone", "no such sandbox") : engine_ok();
}

static bool engine_has_layers(const json_t *layers)
{
        size_t i;
        json_t *v;

        json_array_foreach (layers, i, v)
                if (layer_id_is_sealed(json_string_value(v)) && !json_object_get(engine.layers, json_string_value(v)))
                        return false;
        return json_array_size(layers) > 0;
}

static json_t *engine_create(const json_t *plan)
{
        const char *id = json_string_value(json_object_get(plan, "id"));
        const char *checkpoint = json_string_value(json_object_get(plan, "checkpoint"));
        const char *upper = json_string_value(json_object_get(plan, "upper"));
        bool keeps = upper && strcmp(upper, "kept") == 0, is_paused = strcmp(state_at_engine(id), "paused") == 0;
        const json_t *sealed = json_object_get(json_object_get(engine.alive, id), "sealed");

        if (engine.fails_create)
                return engine_error();
        if (checkpoint && !json_object_get(engine.checkpoints, checkpoint))
                return engine_refusal("not_found", "no such checkpoint");
        if (!engine_has_layers(json_object_get(plan, "layers")))
                return engine_refusal("not_found", "no such layer");
        if (keeps && is_paused && checkpoint &&
            !json_equal(json_object_get(plan, "checkpoint"),
                        json_object_get(json_object_get(engine.alive, id), "checkpoint")))
                return engine_refusal("invalid", "checkpoint damaged: of other files");
        if (keeps && !json_object_get(engine.alive, id))
                return engine_refusal("gone", "it is not paused here");
        if (keeps && (!is_paused || sealed))
                return engine_refusal("conflict", "it runs, or is sealed");
        if (!is_paused && json_object_get(engine.alive, id))
                return engine_refusal("conflict", "it exists");
        if (is_paused && !keeps && !sealed)
                engine.broken = "a new upper directory over one that is there";
        (void)json_object_set_new(engine.alive, id,
                                  json_pack("{s:s,s:O,s:O*}", "state", "running", "layers",
                                            json_object_get(plan, "layers"), "origin",
                                            json_object_get(plan, "origin")));
        if (engine.envd_silent && keeps && checkpoint)
                return json_pack("{s:b,s:i,s:{s:s,s:s}}", "ok", 1, "pid", 1, "envd_silent", "kind", "timeout",
                                 "message", engine.envd_silent);
        return json_pack("{s:b,s:i,s:i}", "ok", 1, "pid", 1, "create_us", 1);
}

static json_t *engine_not_running(const char *id)
{
        return engine_refusal(json_object_get(engine.alive, id) ? "conflict" : "gone", "it does not run");
}

static void engine_note_origin(json_t *entry, const json_t *msg)
{
        if (json_object_get(msg, "origin"))
                (void)json_object_set(entry, "origin", json_object_get(msg, "origin"));
}

static json_t *engine_pause(const json_t *msg, const char *id)
{
        const char *checkpoint = json_string_value(json_object_get(msg, "checkpoint"));
        json_t *entry = json_object_get(engine.alive, id);

        if (strcmp(state_at_engine(id), "running") != 0)
                return engine_not_running(id);
        if (!json_is_object(entry)) {
                (void)json_object_set_new(engine.alive, id, json_object());
                entry = json_object_get(engine.alive, id);
        }
        (void)json_object_set_new(entry, "state", json_string("paused"));
        (void)json_object_del(entry, "checkpoint");
        (void)json_object_set_new(entry, "fleeting", json_boolean(json_is_false(json_object_get(msg, "durable"))));
        engine_note_origin(entry, msg);
        if (checkpoint) {
                (void)json_object_set_new(entry, "checkpoint", json_string(checkpoint));
                (void)json_object_set_new(engine.checkpoints, checkpoint, json_true());
        }
        return json_pack("{s:b,s:i,s:i,s:b}", "ok", 1, "bytes", 1, "took_us", 1, "warm", 0);
}

static json_t *engine_copy(const json_t *msg, const char *id)
{
        if (strcmp(state_at_engine(id), "running") != 0)
                return engine_not_running(id);
        if (engine.is_large)
                return engine_refusal("too_large", "its files are too many");
        (void)json_object_set_new(engine.checkpoints, json_string_value(json_object_get(msg, "checkpoint")),
                                  json_object_get(msg, "origin") ? json_incref(json_object_get(msg, "origin"))
                                                                 : json_true());
        (void)json_object_set_new(engine.layers, json_string_value(json_object_get(msg, "layer")), json_true());
        return json_pack("{s:b,s:i,s:i,s:i,s:i}", "ok", 1, "bytes", 1, "layer_bytes", 1, "frozen_us", 1, "took_us", 1);
}

static json_t *engine_seal(const json_t *msg, const char *id)
{
        const char *layer = json_string_value(json_object_get(msg, "layer"));

        if (strcmp(state_at_engine(id), "paused") != 0)
                return engine_refusal("conflict", "it is not paused");
        (void)json_object_set_new(json_object_get(engine.alive, id), "sealed", json_string(layer));
        engine_note_origin(json_object_get(engine.alive, id), msg);
        (void)json_object_set_new(engine.layers, layer, json_true());
        return engine_ok();
}

static json_t *engine_keep(const char *id)
{
        if (!json_object_get(engine.alive, id))
                return engine_refusal("gone", "no such sandbox");
        if (strcmp(state_at_engine(id), "paused") != 0)
                return engine_refusal("conflict", "it is not at rest");
        (void)json_object_set_new(json_object_get(engine.alive, id), "fleeting", json_false());
        return engine_ok();
}

static bool is_listed_in(const json_t *list, const char *name)
{
        size_t i;
        json_t *v;

        json_array_foreach (list, i, v)
                if (strcmp(json_string_value(v), name) == 0)
                        return true;
        return false;
}

static json_t *engine_drop(const json_t *msg)
{
        const char *id;
        json_t *v, *name;
        size_t i;

        json_array_foreach (json_object_get(msg, "checkpoints"), i, name)
                (void)json_object_del(engine.checkpoints, json_string_value(name));
        json_array_foreach (json_object_get(msg, "sandboxes"), i, name)
                if (strcmp(state_at_engine(json_string_value(name)), "ended") == 0)
                        (void)json_object_del(engine.alive, json_string_value(name));
        json_array_foreach (json_object_get(msg, "layers"), i, name) {
                (void)json_object_del(engine.layers, json_string_value(name));
                json_object_foreach (engine.alive, id, v)
                        if (strcmp(state_at_engine(id), "running") == 0 &&
                            is_listed_in(json_object_get(v, "layers"), json_string_value(name)))
                                engine.broken = "dropped a layer that is in use";
        }
        return json_pack("{s:b,s:[]}", "ok", 1, "left");
}

/* Move one of a set to another. */
static void engine_move(json_t *from, json_t *to, const char *name)
{
        if (!json_object_get(from, name))
                return;
        (void)json_object_set(to, name, json_object_get(from, name));
        (void)json_object_del(from, name);
}

static void engine_move_listed(json_t *from, json_t *to, const json_t *names)
{
        json_t *v;
        size_t i;

        json_array_foreach (names, i, v)
                engine_move(from, to, json_string_value(v));
}

static json_t *engine_lose(const json_t *msg, const char *id)
{
        if (id && !json_object_get(engine.alive, id))
                return engine_refusal("not_found", "no such sandbox");
        if (id)
                engine_move(engine.alive, engine.lost, id);
        engine_move_listed(engine.checkpoints, engine.lost, json_object_get(msg, "checkpoints"));
        engine_move_listed(engine.layers, engine.lost, json_object_get(msg, "layers"));
        return engine_ok();
}

static json_t *engine_lost(const char *id)
{
        const json_t *entry = id ? json_object_get(engine.lost, id) : NULL;
        const char *checkpoint = json_string_value(json_object_get(entry, "checkpoint")), *name;
        json_t *list = NULL, *v;

        if (!id) {
                list = json_array();
                json_object_foreach (engine.lost, name, v)
                        (void)json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s,s:s,s:i}", "id", name, "kind",
                                                                    name[0] == 'i' ? "sandbox" : "checkpoint", "was",
                                                                    "paused", "why", "w", "lostAt", "t", "bytes", 1));
                return json_pack("{s:b,s:o,s:b}", "ok", 1, "lost", list, "more", 0);
        }
        if (!entry)
                return engine_refusal("not_found", "is not among what was lost");
        if (id[0] == 'c')
                return json_pack("{s:b,s:s,s:O,s:s}", "ok", 1, "kind", "checkpoint", "origin", entry, "checkpoint", id);
        if (checkpoint && !json_object_get(engine.lost, checkpoint) && !json_object_get(engine.checkpoints, checkpoint))
                checkpoint = NULL;
        return json_pack("{s:b,s:s,s:O,s:s*,s:O*}", "ok", 1, "kind", "sandbox", "origin",
                         json_object_get(entry, "origin"), "checkpoint", checkpoint, "sealed",
                         json_object_get(entry, "sealed"));
}

static bool engine_can_have(const json_t *home, const json_t *names)
{
        json_t *v;
        size_t i;

        json_array_foreach (names, i, v)
                if (!json_object_get(home, json_string_value(v)) && !json_object_get(engine.lost, json_string_value(v)))
                        return false;
        return true;
}

static json_t *engine_restore(const json_t *msg, const char *id)
{
        const json_t *checkpoints = json_object_get(msg, "checkpoints"), *layers = json_object_get(msg, "layers");

        if (!engine_can_have(engine.checkpoints, checkpoints) || !engine_can_have(engine.layers, layers))
                return engine_refusal("conflict", "is neither here nor lost");
        engine_move_listed(engine.lost, engine.checkpoints, checkpoints);
        engine_move_listed(engine.lost, engine.layers, layers);
        if (!id)
                return engine_ok();
        engine_move(engine.lost, engine.alive, id);
        (void)json_object_set_new(json_object_get(engine.alive, id), "state", json_string("paused"));
        return engine_ok();
}

static json_t *engine_flatten(const json_t *msg)
{
        if (!engine_has_layers(json_object_get(msg, "layers")))
                return engine_refusal("not_found", "no such layer");
        if (engine.unmergeable[0] && is_listed_in(json_object_get(msg, "layers"), engine.unmergeable))
                return engine_refusal("limit", "it does not fit");
        (void)json_object_set_new(engine.layers, json_string_value(json_object_get(msg, "into")), json_true());
        return engine_ok();
}

/* Everything has 10 bytes. */
static json_t *engine_sizes(const json_t *set)
{
        json_t *sizes = json_object(), *v;
        const char *name;

        json_object_foreach ((json_t *)(uintptr_t)set, name, v)
                (void)json_object_set_new(sizes, name, json_integer(10));
        return sizes;
}

static json_t *engine_usage(void)
{
        return json_pack("{s:b,s:o,s:o,s:o,s:{s:i},s:i,s:i,s:i,s:i}", "ok", 1, "sandboxes", engine_sizes(engine.alive),
                         "checkpoints", engine_sizes(engine.checkpoints), "layers", engine_sizes(engine.layers),
                         "bases", "l1", 100, "lost", 1, "trash", 2, "free", 3, "total", 4);
}

static json_t *engine_do(const char *op, const json_t *msg)
{
        const char *id = json_string_value(json_object_get(msg, "id"));

        if (engine.fails && strcmp(op, engine.fails) == 0)
                return engine_error();
        if (strcmp(op, "create") == 0)
                return engine_create(json_object_get(msg, "plan"));
        if (strcmp(op, "kill") == 0)
                return engine_kill(id);
        if (strcmp(op, "list") == 0)
                return engine_list();
        if (strcmp(op, "pause") == 0)
                return engine_pause(msg, id);
        if (strcmp(op, "copy") == 0)
                return engine_copy(msg, id);
        if (strcmp(op, "seal") == 0)
                return engine_seal(msg, id);
        if (strcmp(op, "keep") == 0)
                return engine_keep(id);
        if (strcmp(op, "flush") == 0)
                return engine_ok();
        if (strcmp(op, "drop") == 0)
                return engine_drop(msg);
        if (strcmp(op, "merge") == 0)
                return engine_flatten(msg);
        if (strcmp(op, "origin") == 0)
                return engine_ok();
        if (strcmp(op, "lose") == 0)
                return engine_lose(msg, id);
        if (strcmp(op, "lost") == 0)
                return engine_lost(id);
        if (strcmp(op, "restore") == 0)
                return engine_restore(msg, id);
        if (strcmp(op, "remove") == 0)
                return json_object_del(engine.lost, id) < 0 ? engine_refusal("not_found", "not there") : engine_ok();
        if (strcmp(op, "usage") == 0)
                return engine_usage();
        if (strcmp(op, "standbys") == 0) {
                json_decref(engine.wants);
                engine.wants = json_deep_copy(json_object_get(msg, "wants"));
                return engine_ok();
        }
        if (strcmp(op, "info") == 0)
                return json_pack("{s:b,s:i,s:i,s:i,s:i,s:i,s:i,s:i}", "ok", 1, "pool_ready", 16, "pool_hits", 5,
                                 "pool_misses", 0, "standbys", 2, "standby_bytes", 4096, "standby_hits", 3,
                                 "standby_misses", 1);
        if (strcmp(op, "stats") == 0)
                return json_pack("{s:b,s:i,s:i,s:i,s:i}", "ok", 1, "memory_bytes", 1000, "memory_limit", 2000, "cpu_us",
                                 500000, "pids", 3);
        return engine_refusal("invalid", "unknown op");
}

static bool engine_is_op(const char *wanted, const char *op)
{
        return wanted && strcmp(wanted, op) == 0;
}

static void engine_hang_up(struct task *t) /* not inside the channel's own callback */
{
        (void)t;
        engine.channel = channel_free(engine.channel);
}
static struct task engine_hang_up_task = {.run = engine_hang_up};

/* A socket whose other end nobody has: nothing is said over it here. */
static void engine_dial(const json_t *msg)
{
        const char *id = json_string_value(json_object_get(msg, "id"));
        json_t *answer = strcmp(state_at_engine(id), "running") == 0 ? engine_ok() : engine_not_running(id);
        AUTO_CLOSE int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

        (void)json_object_set(answer, "req", json_object_get(msg, "req"));
        (void)channel_send(engine.channel, answer, &fd, json_object_get(answer, "ok") ? 1 : 0);
}

static void engine_carry_out(const json_t *msg)
{
        const char *op = json_string_value(json_object_get(msg, "op"));
        json_t *answer;

        op = op ? op : "";
        if (engine_is_op(engine.dies_before, op)) {
                engine.dies_before = NULL;
                loop_post(rig.loop, &engine_hang_up_task);
                return;
        }
        if (strcmp(op, "dial") == 0 && !engine_is_op(engine.fails, op) && !engine_is_op(engine.dies_on, op)) {
                engine_dial(msg);
                return;
        }
        answer = engine_do(op, msg);
        if (engine_is_op(engine.dies_on, op)) {
                engine.dies_on = NULL;
                json_decref(answer);
                loop_post(rig.loop, &engine_hang_up_task);
                return;
        }
        engine_answer(msg, answer);
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
            (strcmp(op, "list") == 0 && engine.holds_list) || engine_is_op(engine.holds, op)) {
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
        engine.holds = NULL;
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
        loop_unpost(&engine_hang_up_task);
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

__attribute__((unused)) static bool engine_has(const char *id, const char *state)
{
        return strcmp(state_at_engine(id), state) == 0;
}
