/* Builds of templates in control, with an engine and a builder that only keep books. */
#include <string.h>

#include "fake_builder.h"

#define BASE "\"fromTemplate\":\"base\""
#define RUN_A "{\"type\":\"RUN\",\"args\":[\"a\"]}"
#define RUN_B "{\"type\":\"RUN\",\"args\":[\"b\"]}"
#define REQUEST(steps) "{" BASE ",\"steps\":[" steps "]}"

static void (*build_case)(void);

static void with_builder(void)
{
        builder_start();
        build_case();
        control_stop(); /* before its builder */
        builder_stop();
}

#define RUN_BUILD(fn)                                                                                                  \
        do {                                                                                                           \
                build_case = fn;                                                                                       \
                rig_case = with_builder;                                                                               \
                tap_run(#fn, rig_run);                                                                                 \
        } while (0)

static bool is_ready(const struct build *b)
{
        if (b && b->status == BUILD_READY)
                return true;
        printf("# status %d, reason %s\n", b ? (int)b->status : -1,
               b && b->reason ? json_string_value(json_object_get(b->reason, "message")) : "none");
        return false;
}

static void a_step_becomes_a_layer(void)
{
        const struct build *b = run_build(REQUEST(RUN_A));

        CHECK(is_ready(b));
        CHECK_STR(builder.log, "run configure");
        CHECK_INT(json_array_size(b->layers), ==, 4); /* those of base, of the step, and of the last touches */
        CHECK_STR(b->checkpoint, "");
        CHECK_STR(b->default_user, "user");
        CHECK_STR(b->default_workdir, "/home/user");
        CHECK_INT(json_object_size(engine.layers), ==, 2);
        CHECK_STR(json_string_value(json_object_get(step_at(0), "user")), "user");
        CHECK_STR(json_string_value(json_object_get(step_at(0), "workdir")), "/home/user");
        CHECK(build_said(b->id, "[builder 1/1] RUN a"));
        CHECK(build_said(b->id, "[builder 1/1] [stdout]: word"));
        CHECK(build_said(b->id, "Build finished"));
        CHECK(strstr(engine.log, "flush") && !strstr(engine.log, "\"durable\":true"));
}

static void what_was_done_is_not_done_again(void)
{
        const struct build *b = run_build(REQUEST(RUN_A)), *c;
        char first[UUID_MAX];

        CHECK(is_ready(b));
        memcpy(first, b->id, sizeof(first));
        builder.log[0] = 0;
        c = run_build(REQUEST(RUN_A));
        CHECK(is_ready(c) && strcmp(c->id, first) != 0);
        CHECK_STR(builder.log, "");
        CHECK(json_equal(c->layers, build_of(first)->layers));
        CHECK(build_said(c->id, "CACHED [builder 1/1] RUN a"));
        c = run_build(REQUEST(RUN_A "," RUN_B));
        CHECK(is_ready(c));
        CHECK_STR(builder.log, "run configure");
        CHECK_STR(json_string_value(json_object_get(step_at(2), "cmd")), "b");
}

static void a_forced_step_and_all_after_it_are_run(void)
{
        CHECK(is_ready(run_build(REQUEST(RUN_A "," RUN_B))));
        builder.log[0] = 0;
        CHECK(is_ready(run_build(REQUEST(RUN_A ",{\"type\":\"RUN\",\"args\":[\"b\"],\"force\":true}"))));
        CHECK_STR(builder.log, "run configure");
        builder.log[0] = 0;
        CHECK(is_ready(run_build("{" BASE ",\"force\":true,\"steps\":[" RUN_A "," RUN_B "]}")));
        CHECK_STR(builder.log, "run run configure");
}

static void a_step_that_fails_is_named(void)
{
        const struct build *b;

        builder.fails = "b";
        b = run_build(REQUEST(RUN_A "," RUN_B));
        CHECK(b && b->status == BUILD_ERROR);
        CHECK(reason_is(b, "it failed", "2"));
        CHECK(build_said(b->id, "Build failed: it failed"));
        builder.fails = NULL;
        builder.log[0] = 0;
        CHECK(is_ready(run_build(REQUEST(RUN_A "," RUN_B))));
        CHECK_STR(builder.log, "run configure"); /* the step before it was kept */
}

static void the_context_goes_from_step_to_step(void)
{
        const struct build *b =
                run_build(REQUEST("{\"type\":\"ENV\",\"args\":[\"A\",\"1\",\"B\",\"$A\"]},"
                                  "{\"type\":\"ENV\",\"args\":[\"C\",\"${A}:$(x)\\\\\"]},"
                                  "{\"type\":\"WORKDIR\",\"args\":[\"/app\"]},{\"type\":\"WORKDIR\",\"args\":[\"in\"]},"
                                  "{\"type\":\"USER\",\"args\":[\"bob\"]}," RUN_A));
        const json_t *env;

        CHECK(is_ready(b));
        CHECK_STR(builder.log, "workdir workdir user run configure");
        CHECK_STR(json_string_value(json_object_get(step_at(1), "path")), "/app/in");
        env = json_object_get(step_at(3), "env");
        CHECK_STR(json_string_value(json_object_get(env, "A")), "1");
        CHECK_STR(json_string_value(json_object_get(env, "B")), ""); /* as it was before the step */
        CHECK_STR(json_string_value(json_object_get(env, "C")), "1:$(x)\\");
        CHECK_STR(json_string_value(json_object_get(step_at(3), "user")), "bob");
        CHECK_STR(b->default_user, "bob");
        CHECK_STR(b->default_workdir, "/app/in");
        CHECK(json_equal(b->env, env));
        CHECK_INT(json_array_size(b->layers), ==, 4); /* what was there already makes no layer */
}

static void a_start_command_is_kept_in_memory(void)
{
        const struct build *b = run_build("{" BASE ",\"steps\":[],\"startCmd\":\"serve\",\"readyCmd\":\"ask\"}");

        CHECK(is_ready(b));
        CHECK_STR(builder.log, "configure start");
        CHECK(b->checkpoint[0] && json_object_get(engine.checkpoints, b->checkpoint));
        CHECK(b->image_secured && b->image_of[0]);
        CHECK_STR(b->start_cmd, "serve");
        CHECK_STR(json_string_value(json_object_get(step_at(1), "ready_cmd")), "ask");
        b = run_build("{\"fromTemplate\":\"t\",\"steps\":[],\"readyCmd\":\"other\"}"); /* goes on with the parent's */
        CHECK(is_ready(b));
        CHECK_STR(b->start_cmd, "serve");
        CHECK_STR(b->ready_cmd, "other");
}

static void a_builder_that_dies_is_asked_again(void)
{
        const struct build *b;

        builder.dies_on = "b";
        builder.deaths = 2;
        b = run_build(REQUEST(RUN_A "," RUN_B));
        CHECK(is_ready(b));
        CHECK_STR(builder.log, "run run run run configure"); /* the first step once */
        builder.dies_on = "c";
        builder.deaths = 3;
        b = run_build(REQUEST("{\"type\":\"RUN\",\"args\":[\"c\"]}"));
        CHECK(b && b->status == BUILD_ERROR);
        CHECK_INT(b->attempts, ==, 3);
}

static void an_engine_that_dies_costs_one_attempt(void)
{
        static const char *const ops[] = {"create", "dial", "pause", "seal", "flush", "kill"};

        for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
                char request[200];

                (void)snprintf(request, sizeof(request), "{" BASE ",\"steps\":[{\"type\":\"RUN\",\"args\":[\"%s\"]}]}",
                               ops[i]);
                engine.dies_on = ops[i];
                CHECK(is_ready(run_build(request)));
                engine.dies_before = ops[i];
                (void)snprintf(request, sizeof(request), "{" BASE ",\"steps\":[{\"type\":\"RUN\",\"args\":[\"2%s\"]}]}",
                               ops[i]);
                CHECK(is_ready(run_build(request)));
        }
        CHECK_INT(json_object_size(engine.lost), ==, 0);
}

static bool builder_was_asked(void *arg)
{
        return strcmp(builder.log, arg) == 0;
}

static void a_build_goes_on_after_control(void)
{
        const char *begun;
        char id[UUID_MAX];

        builder.holds = "b";
        begun = begin_build(REQUEST(RUN_A "," RUN_B));
        CHECK(begun && run_until(builder_was_asked, "run run"));
        memcpy(id, begun, sizeof(id));
        control_stop();
        builder.holds = NULL;
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK(run_until(no_build_runs, NULL) && run_until(nothing_is_alive, NULL));
        CHECK(is_ready(build_of(id)));
        CHECK_INT(build_of(id)->attempts, ==, 2);
}

static void a_build_that_is_cancelled_ends(void)
{
        const char *id;

        builder.holds = "b";
        id = begin_build(REQUEST(RUN_A "," RUN_B));
        CHECK(id && run_until(builder_was_asked, "run run"));
        builds_cancel(&rig.control.builds, id);
        CHECK(no_build_runs(NULL) && run_until(nothing_is_alive, NULL));
}

static void a_full_disk_is_a_reason(void)
{
        const struct build *b;

        engine.fails = "pause";
        engine.fail_kind = "no_space";
        engine.fail_message = "no room";
        b = run_build(REQUEST(RUN_A));
        CHECK(reason_is(b, "the disk of the server is full: no room", "1"));
        engine.fails = NULL;
        CHECK_INT(json_object_size(engine.layers), ==, 0);
        CHECK(is_ready(run_build(REQUEST(RUN_A))));
}

static void a_copy_needs_its_upload(void)
{
        const char *request = REQUEST("{\"type\":\"COPY\",\"args\":[\"a\",\"/a\",\"\",\"\"],\"filesHash\":\""
                                      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}");
        const struct build *b = run_build(request);
        char path[160];

        CHECK(b && b->status == BUILD_ERROR);
        CHECK_STR(json_string_value(json_object_get(b->reason, "step")), "1");
        (void)snprintf(path, sizeof(path), "%s/uploads/1", rig.dir);
        (void)mkdir(path, 0700);
        write_file("uploads/1/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "tar");
        CHECK(is_ready(run_build(request)));
        CHECK_STR(builder.log, "copy configure");
}

static void stages_are_made_when_they_are_needed(void)
{
        const struct build *b =
                run_build("{\"stages\":[{\"name\":\"x\"," BASE ",\"steps\":[" RUN_A "]},{\"name\":\"y\"," BASE
                          ",\"steps\":[" RUN_B "]}]," BASE
                          ",\"steps\":[{\"type\":\"COPY\",\"args\":[\"/out\",\"/in\"],\"fromStage\":\"x\"}]}");

        CHECK(is_ready(b));
        CHECK_STR(builder.log, "run archive copy configure"); /* nobody needs y */
        CHECK_STR(json_string_value(json_object_get(step_at(2), "src")), "out");
        CHECK(build_said(b->id, "[x 1/1] RUN a"));
}

static void many_layers_are_merged(void)
{
        AUTO_BUF struct buf text = BUF_INIT(64u << 10);
        const struct build *b;

        (void)buf_addf(&text, "{" BASE ",\"steps\":[");
        for (int i = 0; i < 60; i++)
                (void)buf_addf(&text, "%s{\"type\":\"RUN\",\"args\":[\"n%d\"]}", i ? "," : "", i);
        (void)buf_addf(&text, "]}");
        (void)buf_add(&text, "", 1);
        b = run_build((const char *)buf_at(&text));
        CHECK(is_ready(b));
        CHECK(strstr(engine.log, "merge"));
        CHECK_INT(json_array_size(b->layers), <, 48);
        builder.log[0] = 0;
        CHECK(is_ready(run_build((const char *)buf_at(&text))));
        CHECK_STR(builder.log, "");
}

static void a_template_that_is_not_there_is_a_reason(void)
{
        CHECK(reason_is(run_build("{\"fromTemplate\":\"nope\",\"steps\":[]}"), "template 'nope' not found", "base"));
}

static void sandboxes_of_builds_are_hidden(void)
{
        const char *id;
        json_t *v;

        builder.holds = "a";
        CHECK(begin_build(REQUEST(RUN_A)) && run_until(builder_was_asked, "run"));
        CHECK_INT(json_object_size(engine.alive), ==, 1);
        CHECK_INT(ask("GET", "/v2/sandboxes", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 0);
        json_object_foreach (engine.alive, id, v) {
                char path[64];

                (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
                CHECK_INT(ask("GET", path, NULL), ==, 404);
                CHECK_INT(ask("DELETE", path, NULL), ==, 404);
        }
        CHECK_INT(keys_first_team(&rig.control.keys)->sandbox_count, ==, 0);
}

static json_int_t held(const char *kind, const char *member)
{
        json_int_t sum = 0;
        json_t *v;
        size_t i;

        json_array_foreach (json_object_get(last.json, "holders"), i, v)
                if (strcmp(json_string_value(json_object_get(v, "kind")), kind) == 0)
                        sum += json_integer_value(json_object_get(v, member));
        return sum;
}

static void df_says_who_holds_what(void)
{
        char id[SANDBOX_ID_MAX];
        const json_t *cache;

        CHECK(is_ready(run_build("{" BASE ",\"steps\":[" RUN_A "],\"startCmd\":\"serve\",\"readyCmd\":\"ask\"}")));
        CHECK_INT(ask("GET", "/sandglass/df", NULL), ==, 200);
        CHECK_INT(held("template", "bytes"), ==, 30); /* two layers and a checkpoint */
        CHECK_INT(held("template", "alone"), ==, 20); /* the cache has the layer of the step */
        cache = json_object_get(last.json, "cache");
        CHECK_INT(json_integer_value(json_object_get(cache, "bytes")), ==, 10);
        CHECK_INT(json_integer_value(json_object_get(cache, "alone")), ==, 0);
        CHECK_INT(json_integer_value(json_object_get(last.json, "bases")), ==, 100);
        CHECK(create("{\"templateID\":\"t\"}", id));
        CHECK_INT(ask("GET", "/sandglass/df", NULL), ==, 200);
        CHECK_INT(held("sandbox", "bytes"), ==, 30); /* the layers, and files of its own */
        CHECK_INT(held("sandbox", "alone"), ==, 10);
        CHECK_INT(held("template", "alone"), ==, 10); /* the checkpoint */
}

#define WITH_START "{" BASE ",\"steps\":[" RUN_A "],\"startCmd\":\"serve\",\"readyCmd\":\"ask\"}"

static bool wants_are(void *arg) /* as many as this */
{
        return engine.wants && json_array_size(engine.wants) == *(size_t *)arg;
}

static const json_t *wanted_plan(void)
{
        return json_object_get(json_array_get(engine.wants, 0), "plan");
}

static bool is_wanted_otherwise(void *arg) /* with another checkpoint than this */
{
        return strcmp(json_string_value(json_object_get(wanted_plan(), "checkpoint")), arg) != 0;
}

static void standbys_are_wanted_of_what_was_used(void)
{
        const struct build *b = run_build(WITH_START);
        char id[SANDBOX_ID_MAX], first[CHECKPOINT_ID_MAX], path[64];
        size_t one = 1, none = 0;

        CHECK(is_ready(b));
        memcpy(first, b->checkpoint, sizeof(first));
        CHECK(!engine.wants);
        CHECK(create("{\"templateID\":\"t\",\"envVars\":{\"SECRET\":\"x\"}}", id));
        CHECK(run_until(wants_are, &one));
        CHECK_INT(json_integer_value(json_object_get(json_array_get(engine.wants, 0), "count")), ==, 2);
        CHECK_STR(json_string_value(json_object_get(wanted_plan(), "checkpoint")), first);
        CHECK(json_equal(json_object_get(wanted_plan(), "layers"), json_object_get(engine.plan, "layers")));
        CHECK(json_equal(json_object_get(wanted_plan(), "limits"), json_object_get(engine.plan, "limits")));
        CHECK(json_equal(json_object_get(wanted_plan(), "token_before"), json_object_get(engine.plan, "token_before")));
        CHECK_INT(json_object_size(json_object_get(wanted_plan(), "init")), ==, 0);
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        CHECK_INT(ask("DELETE", path, NULL), ==, 204);
        CHECK(is_ready(run_build("{" BASE ",\"steps\":[" RUN_B "],\"startCmd\":\"serve\",\"readyCmd\":\"ask\"}")));
        CHECK(run_until(is_wanted_otherwise, first));
        CHECK_INT(ask("DELETE", "/sandglass/snapshots/t", NULL), ==, 404); /* a template is no snapshot */
        CHECK_INT(ask("DELETE", "/templates/t", NULL), ==, 204);
        CHECK(run_until(wants_are, &none));
}

static void an_engine_that_comes_back_is_told_again(void)
{
        char id[SANDBOX_ID_MAX];
        size_t one = 1;

        CHECK(is_ready(run_build(WITH_START)));
        CHECK(create("{\"templateID\":\"t\"}", id));
        CHECK(run_until(wants_are, &one));
        json_decref(engine.wants);
        engine.wants = NULL;
        engine.channel = channel_free(engine.channel);
        CHECK(run_until(wants_are, &one));
}

static void a_template_without_memory_has_no_standbys(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(is_ready(run_build(REQUEST(RUN_A))));
        CHECK(create("{\"templateID\":\"t\"}", id));
        CHECK_INT(rig.control.standby_wishes.use_count, ==, 0);
        CHECK(!engine.wants);
}

static void how_often_one_was_ready_is_told(void)
{
        const json_t *s;

        CHECK_INT(ask("GET", "/sandglass/ahead", NULL), ==, 200);
        s = json_object_get(last.json, "standbys");
        CHECK_INT(json_integer_value(json_object_get(s, "ready")), ==, 2);
        CHECK_INT(json_integer_value(json_object_get(s, "memoryBytes")), ==, 4096);
        CHECK_INT(json_integer_value(json_object_get(s, "hits")), ==, 3);
        CHECK(json_real_value(json_object_get(s, "hitRate")) == 0.75);
        CHECK(json_real_value(json_object_get(json_object_get(last.json, "cells"), "hitRate")) == 1.0);
}

int main(void)
{
        RUN_BUILD(standbys_are_wanted_of_what_was_used);
        RUN_BUILD(an_engine_that_comes_back_is_told_again);
        RUN_BUILD(a_template_without_memory_has_no_standbys);
        RUN_BUILD(how_often_one_was_ready_is_told);
        RUN_BUILD(a_step_becomes_a_layer);
        RUN_BUILD(what_was_done_is_not_done_again);
        RUN_BUILD(a_forced_step_and_all_after_it_are_run);
        RUN_BUILD(a_step_that_fails_is_named);
        RUN_BUILD(the_context_goes_from_step_to_step);
        RUN_BUILD(a_start_command_is_kept_in_memory);
        RUN_BUILD(a_builder_that_dies_is_asked_again);
        RUN_BUILD(an_engine_that_dies_costs_one_attempt);
        RUN_BUILD(a_build_goes_on_after_control);
        RUN_BUILD(a_build_that_is_cancelled_ends);
        RUN_BUILD(a_full_disk_is_a_reason);
        RUN_BUILD(a_copy_needs_its_upload);
        RUN_BUILD(stages_are_made_when_they_are_needed);
        RUN_BUILD(many_layers_are_merged);
        RUN_BUILD(a_template_that_is_not_there_is_a_reason);
        RUN_BUILD(sandboxes_of_builds_are_hidden);
        RUN_BUILD(df_says_who_holds_what);
        return tap_done();
}
