/* control_template.h - what tests of templates share, on top of control_rig.h: a runner of builds that does what the test
 * says, and builds that are requested, started and done. */
#pragma once
#include "control_rig.h"

#include "control/catalogue/build_runner.h"
#include "control/catalogue/builds.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NO_ID "00000000-0000-4000-8000-000000000000"
#define LAYER_1 "u-aaaaaaaaaaaaaaaaaaa1"
#define LAYER_2 "u-aaaaaaaaaaaaaaaaaaa2"
#define LAYER_3 "u-aaaaaaaaaaaaaaaaaaa3"

static struct {
        struct build_runner runner;
        int started, cancelled;
        char last[UUID_MAX];
} fake;

static void fake_start(struct build_runner *r, const char *id)
{
        (void)r;
        fake.started++;
        (void)snprintf(fake.last, sizeof(fake.last), "%s", id);
}

static void fake_cancel(struct build_runner *r, const char *id)
{
        (void)r;
        fake.cancelled++;
        (void)snprintf(fake.last, sizeof(fake.last), "%s", id);
}

static void fake_begin(void)
{
        memset(&fake, 0, sizeof(fake));
        fake.runner = (struct build_runner){.start = fake_start, .cancel = fake_cancel};
        rig.control.api.runner = &fake.runner;
}

struct asked { /* a build that was requested */
        char template_id[TEMPLATE_ID_MAX], build_id[UUID_MAX];
};

static bool request_build(const char *body, struct asked *ret)
{
        if (ask("POST", "/v3/templates", body) != 202 || !text_at("templateID") || !text_at("buildID"))
                return false;
        (void)snprintf(ret->template_id, sizeof(ret->template_id), "%s", text_at("templateID"));
        (void)snprintf(ret->build_id, sizeof(ret->build_id), "%s", text_at("buildID"));
        return true;
}

static unsigned at_build(const char *method, const struct asked *a, const char *version, const char *after,
                         const char *body)
{
        char path[256];

        (void)snprintf(path, sizeof(path), "%s/templates/%s/builds/%s%s", version, a->template_id, a->build_id, after);
        return ask(method, path, body);
}

static unsigned start_build(const struct asked *a, const char *body)
{
        return at_build("POST", a, "/v2", "", body);
}

static const char *status_of(const struct asked *a)
{
        return at_build("GET", a, "", "/status", NULL) == 200 ? text_at("status") : "?";
}

/* As the runner does when a build is done: with a layer that the engine has. */
static bool finish_build(const struct asked *a, const char *layer)
{
        struct build_entry *e = builds_find(&rig.control.template_rows, a->build_id);
        json_t *layers = json_pack("[s,s]", "l1", layer), *made = json_pack("[s]", layer);
        json_t *env = json_pack("{s:s,s:s}", "A", "template", "B", "template");
        struct build_result res = {.checkpoint = "",
                                   .layers = layers,
                                   .image_of = "",
                                   .env = env,
                                   .default_user = "builder",
                                   .default_workdir = "/app",
                                   .start_cmd = "serve"};
        struct err err = {0};
        int r;

        (void)json_object_set_new(engine.layers, layer, json_true());
        r = refs_make(&rig.control.refs, "", made, &err);
        if (r == 0)
                r = e ? build_set_ready(&rig.control.template_rows, e, &res, &err) : -1;
        refs_release(&rig.control.refs, "", made);
        if (r < 0)
                printf("# finish: %s\n", err.msg);
        json_decref(layers);
        json_decref(made);
        json_decref(env);
        return r == 0;
}

__attribute__((unused)) static bool build_whole(const char *name, const char *layer, struct asked *ret)
{
        char body[200];

        (void)snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name);
        return request_build(body, ret) && start_build(ret, "{\"fromTemplate\":\"base\"}") == 202 &&
               finish_build(ret, layer);
}
