#include "control/control.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "model/conf.h"

#define DISK_MB_DEFAULT 10240

/* ---- what the parts below tell those above them ---- */

static void engine_listed(const json_t *answer, void *arg)
{
        struct control *c = arg;

        lives_reconcile(&c->lives, answer);
        standby_wishes_connected(&c->standby_wishes);
        builds_resume_all(&c->builds);
}

static void engine_rechecked(const json_t *fact, void *arg)
{
        lives_rechecked(&((struct control *)arg)->lives, fact);
}

static void engine_sandbox_exited(const char *id, void *arg)
{
        lives_exited(&((struct control *)arg)->lives, id);
}

static void name_dropped(const char *name, void *arg)
{
        token_of_checkpoint_remove(&((struct control *)arg)->tokens, name);
}

static void sandbox_changed(const struct sandbox *s, void *arg)
{
        route_server_tell_changed(&((struct control *)arg)->routes, s);
}

static void sandbox_gone(const char *id, void *arg)
{
        route_server_tell_gone(&((struct control *)arg)->routes, id);
}

static void layers_are_many(void *arg)
{
        layer_chains_look(&((struct control *)arg)->layer_chains);
}

static void build_run_is_over(const char *build_id, void *arg)
{
        first_use_build_over(&((struct control *)arg)->first_use, build_id);
}

/* ---- the parts ---- */

/* <data>/store: the database, the secrets in it, and at first start a team with a key. */
static int open_store(struct control *c, int64_t (*now_ns)(void), struct err *err)
{
        AUTO_FREE char *dir = conf_path(c->conf, "store"), *path = conf_path(c->conf, "store/sandglass.db");
        int r;

        if (!dir || !path)
                return err_sys(err, -ENOMEM, "open store");
        if (mkdir(dir, 0700) < 0 && errno != EEXIST)
                return err_sys(err, -errno, "create '%s'", dir);
        r = store_open(path, &c->store, err);
        if (r == 0)
                r = tokens_load(&c->tokens, c->store, err);
        if (r == 0)
                r = keys_load(&c->keys, c->store, err);
        if (r == 0)
                r = keys_ensure_first(&c->keys, c->store, dir, c->conf->make_key, err);
        if (r == 0)
                r = credentials_init(&c->credentials, c->store, &c->keys, c->conf->fds.secret_key, now_ns, err);
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
                .on_list = engine_listed, .on_exited = engine_sandbox_exited, .on_rechecked = engine_rechecked};
        AUTO_FREE char *path = conf_path(c->conf, "run/engine.sock");

        if (!path || engine_link_start(&c->engine, c->loop, path, &ops, c) < 0)
                return err_sys(err, -ENOMEM, "engine link");
        return 0;
}

static int open_build_files(struct control *c, struct err *err)
{
        AUTO_FREE char *logs = conf_path(c->conf, "builds"), *uploads = conf_path(c->conf, "uploads");
        int r;

        if (!logs || !uploads)
                return err_sys(err, -ENOMEM, "open files of builds");
        r = build_logs_init(&c->build_logs, logs, err);
        return r < 0 ? r : uploads_init(&c->uploads, c->loop, uploads, err);
}

static int start_catalogue(struct control *c, int64_t (*now_ns)(void), struct err *err)
{
        int r;

        if (durable_init(&c->durable, c->loop, store_log_fd(c->store)) < 0)
                return err_sys(err, -errno, "event fd");
        refs_init(&c->refs, c->loop, c->store, &c->engine, &c->durable);
        c->refs.on_dropped = name_dropped;
        c->refs.arg = c;
        r = refs_load(&c->refs, err);
        if (r == 0)
                r = snapshots_init(&c->snapshots, c->store, &c->refs, err);
        if (r == 0)
                r = template_rows_init(&c->template_rows, c->store, &c->refs, now_ns, err);
        if (r == 0)
                r = layer_cache_init(&c->layer_cache, c->store, &c->refs, now_ns, err);
        if (r == 0)
                r = images_init(&c->images, c->store, &c->refs, err);
        if (r == 0)
                r = open_build_files(c, err);
        if (r < 0)
                return r;
        template_gc_init(&c->template_gc, &(struct template_gc_options){.loop = c->loop,
                                                                        .rows = &c->template_rows,
                                                                        .logs = &c->build_logs,
                                                                        .uploads = &c->uploads,
                                                                        .cache = &c->layer_cache,
                                                                        .builds_kept = c->conf->builds_kept,
                                                                        .cached_days = c->conf->build_cache_days,
                                                                        .data_dir = c->conf->data_dir,
                                                                        .free_mb = c->conf->build_cache_free_mb,
                                                                        .now_ns = now_ns});
        standby_wishes_init(&c->standby_wishes, &(struct standby_wishes){.loop = c->loop,
                                                                         .conf = c->conf,
                                                                         .tokens = &c->tokens,
                                                                         .rows = &c->template_rows,
                                                                         .engine = &c->engine,
                                                                         .now_ns = now_ns});
        return 0;
}

static int start_lives(struct control *c, int64_t (*now_ns)(void), int64_t (*boot_ns)(void), struct err *err)
{
        const struct lives_options o = {
                .loop = c->loop,
                .conf = c->conf,
                .store = c->store,
                .keys = &c->keys,
                .tokens = &c->tokens,
                .engine = &c->engine,
                .durable = &c->durable,
                .refs = &c->refs,
                .ended = &c->ended,
                .on_changed = sandbox_changed,
                .on_gone = sandbox_gone,
                .on_many_layers = layers_are_many,
                .arg = c,
                .now_ns = now_ns,
                .boot_ns = boot_ns,
        };

        ended_files_init(&c->ended, c->loop, &c->engine, &c->durable);
        layer_chains_init(&c->layer_chains, c->loop, &c->engine, &c->refs, &c->lives, &c->snapshots);
        return lives_init(&c->lives, &o, err);
}

static int start_builds(struct control *c, int64_t (*now_ns)(void), struct err *err)
{
        const struct builds_run_options o = {
                .loop = c->loop,
                .conf = c->conf,
                .keys = &c->keys,
                .tokens = &c->tokens,
                .engine = &c->engine,
                .durable = &c->durable,
                .refs = &c->refs,
                .lives = &c->lives,
                .templates = &c->templates,
                .snapshots = &c->snapshots,
                .rows = &c->template_rows,
                .cache = &c->layer_cache,
                .images = &c->images,
                .logs = &c->build_logs,
                .uploads = &c->uploads,
                .now_ns = now_ns,
                .on_over = build_run_is_over,
                .arg = c,
        };

        first_use_init(&c->first_use, &c->builds, &c->uploads);
        c->template_rows.other_names = c->first_use.other_names;
        return builds_run_init(&c->builds, &o, err);
}

static int start_api(struct control *c, int64_t (*now_ns)(void), struct err *err)
{
        c->api = (struct api){
                .conf = c->conf,
                .loop = c->loop,
                .store = c->store,
                .keys = &c->keys,
                .tokens = &c->tokens,
                .credentials = &c->credentials,
                .templates = &c->templates,
                .engine = &c->engine,
                .durable = &c->durable,
                .refs = &c->refs,
                .snapshots = &c->snapshots,
                .lives = &c->lives,
                .layer_chains = &c->layer_chains,
                .runner = &c->builds.runner,
                .first_use = &c->first_use,
                .builds = &c->builds,
                .images = &c->images,
                .template_rows = &c->template_rows,
                .standby_wishes = &c->standby_wishes,
                .build_logs = &c->build_logs,
                .uploads = &c->uploads,
                .sources = {.manifests = &c->templates,
                            .snapshots = &c->snapshots,
                            .rows = &c->template_rows,
                            .keys = &c->keys},
                .now_ns = now_ns,
        };
        return api_init(&c->api, err);
}

int control_init(struct control *c, const struct conf *conf, struct loop *loop, int64_t (*now_ns)(void),
                 int64_t (*boot_ns)(void), struct err *err)
{
        int r;

        *c = (struct control){.conf = conf, .loop = loop};
        route_server_init(&c->routes, loop, conf, &c->lives, &c->tokens);
        r = open_store(c, now_ns, err);
        if (r == 0)
                r = open_templates(c, err);
        if (r == 0)
                r = start_engine_link(c, err);
        if (r == 0)
                r = start_catalogue(c, now_ns, err);
        if (r == 0)
                r = start_lives(c, now_ns, boot_ns, err);
        if (r == 0)
                r = start_builds(c, now_ns, err);
        if (r == 0)
                r = start_api(c, now_ns, err);
        return r;
}

int control_listen(struct control *c, struct err *err)
{
        int r;

        r = route_feed_listen(&c->routes.feed, c->conf->fds.routes);
        if (r < 0)
                return err_sys(err, r, "listen for edges");
        c->user_door.conf = c->conf;
        c->user_door.keys = &c->keys;
        c->user_door.tokens = &c->tokens;
        r = user_door_open(&c->user_door, c->loop, err);
        if (r < 0)
                return r;
        c->credential_socket.credentials = &c->credentials;
        c->credential_socket.keys = &c->keys;
        c->credential_socket.uid = c->conf->agent_uid;
        r = credential_socket_open(&c->credential_socket, c->loop, c->conf->fds.credentials, err);
        return r < 0 ? r : api_listen(&c->api, c->conf->fds.api, err);
}

void control_done(struct control *c)
{
        api_done(&c->api); /* first: its requests wait for the parts below */
        layer_chains_done(&c->layer_chains);
        route_server_done(&c->routes); /* as do edges */
        builds_run_done(&c->builds);
        first_use_done(&c->first_use);
        lives_done(&c->lives);
        standby_wishes_done(&c->standby_wishes);
        template_gc_done(&c->template_gc);
        uploads_done(&c->uploads);
        build_logs_done(&c->build_logs);
        images_done(&c->images);
        template_rows_done(&c->template_rows);
        snapshots_done(&c->snapshots);
        refs_done(&c->refs);
        ended_files_done(&c->ended);
        durable_done(&c->durable);
        engine_link_stop(&c->engine);
        templates_done(&c->templates);
        credential_socket_close(&c->credential_socket);
        credentials_done(&c->credentials);
        user_door_close(&c->user_door);
        tokens_done(&c->tokens);
        keys_done(&c->keys);
        c->store = store_close(c->store);
}
