#include "control/control.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "control/origins.h"
#include "control/handlers.h"
#include "control/plans.h"
#include "control/router.h"
#include "control/show.h"
#include "control/signers.h"
#include "control/waking.h"
#include "http/server.h"
#include "model/conf.h"

#define HEAD_TIMEOUT_MS 30000
#define IDLE_TIMEOUT_MS 300000 /* edges keep their connections */
#define CONNS_MAX 4096
#define DISK_MB_DEFAULT 10240

static json_t *route_of(const struct sandbox *s, void *arg)
{
        return show_route(arg, s);
}

static json_t *find_route(const char *id, void *arg)
{
        struct control *c = arg;
        struct life *l = lives_find(&c->lives, id);

        return l && sandbox_is_visible(&l->sandbox) ? show_route(c, &l->sandbox) : NULL;
}

static void on_wake(struct feed_wake *w, const json_t *msg, void *arg)
{
        waking_begin(arg, w, msg);
}

static void on_forget(struct feed_wake *w, void *arg)
{
        (void)arg;
        waking_forget(w);
}

static int make_plan(const struct sandbox *s, bool with_memory, json_t **ret, void *arg, struct err *err)
{
        return plan_for(arg, s, with_memory, ret, err);
}

static json_t *make_origin(const struct sandbox *s, const json_t *layers, void *arg)
{
        return origin_encode(arg, s, layers);
}

static int take_image_token(const char *checkpoint, const char *token, void *arg)
{
        struct control *c = arg;

        return json_object_set_new(c->image_tokens, checkpoint, json_string(token)) < 0 ? -ENOMEM : 0;
}

static void on_dropped(const char *name, void *arg)
{
        struct control *c = arg;
        struct err err;

        if (json_object_del(c->image_tokens, name) == 0 && store_image_token_remove(c->store, name, &err) < 0)
                log_warn("store.remove", "image_token=%s failed=\"%s\"", name, err.msg);
}

static void on_long(void *arg)
{
        chains_look(&((struct control *)arg)->chains);
}

static void on_list(const json_t *answer, void *arg)
{
        lives_reconcile(&((struct control *)arg)->lives, answer);
}

static void on_settled(const json_t *fact, void *arg)
{
        lives_settled(&((struct control *)arg)->lives, fact);
}

static void on_exited(const char *id, void *arg)
{
        lives_exited(&((struct control *)arg)->lives, id);
}

/* <data>/store: the database, the seed in it, and at first start a team with a key. */
static int open_store(struct control *c, struct err *err)
{
        AUTO_FREE char *dir = conf_path(c->conf, "store"), *path = conf_path(c->conf, "store/sandglass.db");
        int r;

        if (!dir || !path)
                return err_sys(err, -ENOMEM, "open store");
        if (mkdir(dir, 0700) < 0 && errno != EEXIST)
                return err_sys(err, -errno, "create '%s'", dir);
        r = store_open(path, &c->store, err);
        if (r == 0)
                r = store_seed(c->store, c->seed, err);
        if (r == 0)
                r = keys_load(&c->keys, c->store, err);
        if (r == 0)
                r = keys_ensure_first(&c->keys, c->store, dir, c->conf->make_key, err);
        return r;
}

static int open_templates(struct control *c, struct err *err)
{
        const struct template_defaults defaults = {
                .cpu_count = c->conf->default_cpus,
                .memory_mb = c->conf->default_memory_mb,
                .disk_mb = DISK_MB_DEFAULT,
        };
        AUTO_FREE char *dir = NULL;

        if (asprintf(&dir, "%s/templates", c->conf->images_dir) < 0) {
                dir = NULL;
                return err_sys(err, -ENOMEM, "open templates");
        }
        return templates_init(&c->templates, dir, &defaults, err);
}

static int start_engine_link(struct control *c, struct err *err)
{
        static const struct engine_link_ops ops = {
                .on_list = on_list, .on_exited = on_exited, .on_settled = on_settled};
        AUTO_FREE char *path = conf_path(c->conf, "run/engine.sock");

        if (!path || engine_link_start(&c->engine, c->loop, path, &ops, c) < 0)
                return err_sys(err, -ENOMEM, "engine link");
        return 0;
}

static int start_lives(struct control *c, struct err *err)
{
        const struct lives_options o = {
                .loop = c->loop,
                .store = c->store,
                .feed = &c->feed,
                .keys = &c->keys,
                .engine = &c->engine,
                .durable = &c->durable,
                .refs = &c->refs,
                .ended = &c->ended,
                .route = route_of,
                .plan = make_plan,
                .origin = make_origin,
                .on_long = on_long,
                .arg = c,
                .now_ns = c->now_ns,
                .boot_ns = c->boot_ns,
        };
        int r;

        if (durable_init(&c->durable, c->loop, store_log_fd(c->store)) < 0)
                return err_sys(err, -errno, "event fd");
        refs_init(&c->refs, c->loop, c->store, &c->engine, &c->durable);
        ended_init(&c->ended, c->loop, &c->engine, &c->durable);
        c->refs.on_dropped = on_dropped;
        c->refs.arg = c;
        c->image_tokens = json_object();
        r = refs_load(&c->refs, err);
        if (r == 0)
                r = store_image_token_each(c->store, take_image_token, c, err);
        if (r < 0)
                return r;
        chains_init(&c->chains, c->loop, &c->engine, &c->refs, &c->lives, &c->snapshots);
        r = snapshots_init(&c->snapshots, c->store, &c->refs, err);
        return r < 0 ? r : lives_init(&c->lives, &o, err);
}

static int start_http(struct control *c, struct err *err)
{
        const struct http_server_options o = {
                .loop = c->loop,
                .on_request = router_on_request,
                .arg = c,
                .head_timeout_ms = HEAD_TIMEOUT_MS,
                .idle_timeout_ms = IDLE_TIMEOUT_MS,
                .conns_max = CONNS_MAX,
        };
        int r = http_server_create(&o, &c->http);

        return r < 0 ? err_sys(err, r, "HTTP server") : 0;
}

static const char *find_signer(const char *query, const char *operation, void *arg)
{
        return signers_find(arg, query, operation);
}

static const char *find_bearer(struct str token, void *arg)
{
        return signers_find_token(arg, token);
}

static const struct feed_ops feed_ops = {
        .find = find_route, .signer = find_signer, .bearer = find_bearer, .wake = on_wake, .forget = on_forget};

int control_init(struct control *c, const struct conf *conf, struct loop *loop, int64_t (*now_ns)(void),
                 int64_t (*boot_ns)(void), struct err *err)
{
        int r;

        *c = (struct control){.conf = conf, .loop = loop, .now_ns = now_ns, .boot_ns = boot_ns};
        list_init(&c->restores);
        r = open_store(c, err);
        if (r == 0)
                r = open_templates(c, err);
        if (r == 0)
                r = start_engine_link(c, err);
        feed_init(&c->feed, loop, &feed_ops, c);
        if (r == 0)
                r = start_lives(c, err);
        if (r == 0)
                r = start_http(c, err);
        return r;
}

int control_listen(struct control *c, struct err *err)
{
        int r;

        r = feed_listen(&c->feed, c->conf->fds.routes);
        if (r < 0)
                return err_sys(err, r, "listen for edges");
        r = http_server_listen(c->http, c->conf->fds.api);
        return r < 0 ? err_sys(err, r, "listen for requests") : 0;
}

void control_done(struct control *c)
{
        c->http = http_server_free(c->http); /* first: its requests wait for what follows */
        handle_lost_done(&c->restores);
        chains_done(&c->chains);
        feed_done(&c->feed); /* as do edges */
        lives_done(&c->lives);
        snapshots_done(&c->snapshots);
        refs_done(&c->refs);
        ended_done(&c->ended);
        json_decref(c->image_tokens);
        c->image_tokens = NULL;
        durable_done(&c->durable);
        engine_link_stop(&c->engine);
        templates_done(&c->templates);
        keys_done(&c->keys);
        c->store = store_close(c->store);
}
