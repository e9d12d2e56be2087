/* Rows of templates, builds, tags, cached steps and images live through reopening, and hold together. */
#include "store/store.h"
#include "store/templates.h"

#include <unistd.h>

#include "base/err.h"

#include "tap.h"

static char dir[] = "/tmp/sandglass-store-templates-XXXXXX", path[96];
static struct store *s;

#define T "abcdefghij0123456789"
#define B1 "00000000-0000-4000-8000-000000000001"
#define B2 "00000000-0000-4000-8000-000000000002"
#define LAYER "u-aaaaaaaaaaaaaaaaaaa1"

static bool reopen(void)
{
        s = store_close(s);
        return store_open(path, &s, NULL) == 0;
}

static bool begin(void) /* each case starts with no database, and a team */
{
        static const char *const also[] = {"", "-wal", "-shm", "-journal"};
        const struct store_team team = {.id = "t-1", .slug = "default", .name = "Default"};
        int64_t no;

        s = store_close(s);
        for (size_t i = 0; i < ARRAY_LEN(also); i++) {
                char name[112];

                (void)snprintf(name, sizeof(name), "%s%s", path, also[i]);
                (void)unlink(name);
        }
        return store_open(path, &s, NULL) == 0 && store_team_add(s, &team, &no, NULL) == 0;
}

static const struct store_template sample = {
        .id = T, .team = 1, .alias = "app", .is_public = true, .created_ns = 5, .updated_ns = 6, .build_count = 2};

static struct build sample_build(const char *id, uint32_t number)
{
        struct build b = {.template_id = T, .number = number, .cpu_count = 2, .memory_mb = 512, .disk_mb = 1024};

        (void)snprintf(b.id, sizeof(b.id), "%s", id);
        b.tags = json_pack("[s,s]", "default", "v1");
        b.created_ns = number;
        return b;
}

static int take_template(const struct store_template *t, void *arg)
{
        struct store_template *out = arg;

        *out = *t;
        out->alias = t->alias && strcmp(t->alias, "app") == 0 ? "app" : NULL; /* what is borrowed goes */
        return 0;
}

static int take_build(struct build *b, void *arg)
{
        struct build *out = arg;

        build_done(out);
        *out = *b;
        *b = (struct build){0};
        return 0;
}

static int count_tags(const struct store_tag *t, void *arg)
{
        *(int *)arg += strcmp(t->tag, "v1") == 0 && strcmp(t->build_id, B2) == 0 && t->created_ns == 8;
        return 0;
}

static void templates_and_builds_survive(void)
{
        AUTO(build_done) struct build b = sample_build(B1, 1), out = {0};
        struct store_template t = sample, back = {0};
        json_t *request = json_pack("{s:s}", "fromImage", "a"), *got = NULL;
        int r;

        CHECK(begin());
        CHECK_INT(store_build_add(s, &b, NULL), <, 0); /* no such template */
        CHECK_INT(store_template_add(s, &t, NULL), ==, 0);
        CHECK_INT(store_build_add(s, &b, NULL), ==, 0);
        r = store_build_set_request(s, B1, request, NULL);
        json_decref(request);
        CHECK_INT(r, ==, 0);
        b.status = BUILD_READY;
        b.finished_ns = 9;
        b.layers = json_pack("[s,s]", "l1", LAYER);
        b.env = json_pack("{s:s}", "A", "b");
        b.start_cmd = strdup("serve");
        b.default_user = strdup("user");
        (void)snprintf(b.image_of, sizeof(b.image_of), "i00000000000000000000");
        CHECK_INT(store_build_update(s, &b, NULL), ==, 0);
        t.is_bare = true;
        t.spawn_count = 7;
        t.last_spawned_ns = 70;
        CHECK_INT(store_template_update(s, &t, NULL), ==, 0);
        CHECK(reopen());
        CHECK_INT(store_template_each(s, take_template, &back, NULL), ==, 0);
        CHECK_STR(back.alias, "app");
        CHECK(back.is_public && back.is_bare && back.spawn_count == 7 && back.last_spawned_ns == 70 &&
              back.build_count == 2 && back.created_ns == 5);
        CHECK_INT(store_build_each(s, take_build, &out, NULL), ==, 0);
        CHECK(out.status == BUILD_READY && out.number == 1 && out.finished_ns == 9 && out.memory_mb == 512);
        CHECK(json_equal(out.tags, b.tags) && json_equal(out.layers, b.layers) && json_equal(out.env, b.env));
        CHECK_STR(out.start_cmd, "serve");
        CHECK_STR(out.default_user, "user");
        CHECK_STR(out.image_of, b.image_of);
        CHECK(!out.ready_cmd && !out.reason && !out.checkpoint[0]);
        CHECK_INT(store_build_request(s, B1, &got, NULL), ==, 0);
        CHECK_STR(json_string_value(json_object_get(got, "fromImage")), "a");
        json_decref(got);
        got = NULL;
        CHECK_INT(store_build_set_request(s, B1, NULL, NULL), ==, 0);
        CHECK_INT(store_build_request(s, B1, &got, NULL), ==, 0);
        CHECK(!got);
}

static void aliases_and_numbers_are_unique(void)
{
        AUTO(build_done) struct build b = sample_build(B1, 1), same = sample_build(B2, 1);
        struct store_template other = sample;
        struct err err = {0};

        CHECK(begin());
        CHECK_INT(store_template_add(s, &sample, NULL), ==, 0);
        other.id[0] = 'z';
        CHECK_INT(store_template_add(s, &other, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_CONFLICT);
        other.alias = NULL;
        CHECK_INT(store_template_add(s, &other, NULL), ==, 0);
        CHECK_INT(store_build_add(s, &b, NULL), ==, 0);
        CHECK_INT(store_build_add(s, &same, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_CONFLICT);
}

static void tags_hold_their_builds(void)
{
        AUTO(build_done) struct build b1 = sample_build(B1, 1), b2 = sample_build(B2, 2);
        struct store_tag tag = {.template_id = T, .tag = "v1", .build_id = B1, .created_ns = 7};
        int tags = 0;

        CHECK(begin());
        CHECK_INT(store_template_add(s, &sample, NULL), ==, 0);
        CHECK_INT(store_tag_put(s, &tag, NULL), <, 0); /* no such build */
        CHECK_INT(store_build_add(s, &b1, NULL), ==, 0);
        CHECK_INT(store_build_add(s, &b2, NULL), ==, 0);
        CHECK_INT(store_tag_put(s, &tag, NULL), ==, 0);
        CHECK_INT(store_build_remove(s, B1, NULL), <, 0);
        (void)snprintf(tag.build_id, sizeof(tag.build_id), B2);
        tag.created_ns = 8;
        CHECK_INT(store_tag_put(s, &tag, NULL), ==, 0);
        CHECK_INT(store_build_remove(s, B1, NULL), ==, 0);
        CHECK(reopen());
        CHECK_INT(store_tag_each(s, count_tags, &tags, NULL), ==, 0);
        CHECK_INT(tags, ==, 1);
        CHECK_INT(store_template_remove(s, T, NULL), <, 0); /* it has a build */
        CHECK_INT(store_tags_remove(s, T, NULL), ==, 0);
        CHECK_INT(store_build_remove(s, B2, NULL), ==, 0);
        CHECK_INT(store_template_remove(s, T, NULL), ==, 0);
}

static int note_key(const struct store_cached *c, void *arg)
{
        char *keys = arg;

        keys[strlen(keys) + 1] = 0;
        keys[strlen(keys)] = c->key[0];
        return 0;
}

static void cached_steps_are_found_by_team_and_key(void)
{
        json_t *context = json_pack("{s:s}", "user", "u"), *got = NULL;
        struct store_cached c = {.team = 1, .key = "a", .layer = LAYER, .context = context, .used_ns = 5};
        char layer[SEALED_ID_MAX] = "x", keys[32] = "";

        CHECK(begin());
        CHECK_INT(store_cached_put(s, &c, NULL), ==, 0);
        c = (struct store_cached){.team = 0, .key = "b", .context = context, .used_ns = 3};
        CHECK_INT(store_cached_put(s, &c, NULL), ==, 0);
        json_decref(context);
        CHECK(reopen());
        CHECK_INT(store_cached_get(s, 0, "a", layer, &got, NULL), ==, 0); /* another team's */
        CHECK_INT(store_cached_get(s, 1, "a", layer, &got, NULL), ==, 1);
        CHECK_STR(layer, LAYER);
        CHECK_STR(json_string_value(json_object_get(got, "user")), "u");
        json_decref(got);
        CHECK_INT(store_cached_get(s, 0, "b", layer, &got, NULL), ==, 1);
        json_decref(got);
        CHECK_STR(layer, "");
        CHECK_INT(store_cached_each(s, note_key, keys, NULL), ==, 0);
        CHECK_STR(keys, "ba"); /* least recently used first */
        CHECK_INT(store_cached_used(s, 0, "b", 9, NULL), ==, 0);
        keys[0] = 0;
        CHECK_INT(store_cached_each(s, note_key, keys, NULL), ==, 0);
        CHECK_STR(keys, "ab");
        CHECK_INT(store_cached_remove(s, 1, "a", NULL), ==, 0);
        CHECK_INT(store_cached_get(s, 1, "a", layer, &got, NULL), ==, 0);
}

static int check_image(const struct store_image *i, void *arg)
{
        *(int *)arg += strcmp(i->name, "debian:12") == 0 && strcmp(i->digest, "sha256:2") == 0 && i->bytes == 7 &&
                       json_array_size(i->layers) == 1 && strcmp(i->source, "recipe") == 0;
        return 0;
}

static void images_survive_and_are_replaced(void)
{
        json_t *layers = json_pack("[s]", LAYER), *config = json_object();
        struct store_image i = {
                .name = "debian:12", .digest = "sha256:1", .layers = layers, .config = config, .source = "recipe"};
        int found = 0, r;

        CHECK(begin());
        r = store_image_put(s, &i, NULL);
        i.digest = "sha256:2";
        i.bytes = 7;
        if (r == 0)
                r = store_image_put(s, &i, NULL);
        json_decref(layers);
        json_decref(config);
        CHECK_INT(r, ==, 0);
        CHECK(reopen());
        CHECK_INT(store_image_each(s, check_image, &found, NULL), ==, 0);
        CHECK_INT(found, ==, 1);
        CHECK_INT(store_image_remove(s, "debian:12", NULL), ==, 0);
        found = 0;
        CHECK_INT(store_image_each(s, check_image, &found, NULL), ==, 0);
        CHECK_INT(found, ==, 0);
}

int main(void)
{
        char command[128];

        if (!mkdtemp(dir))
                return 1;
        (void)snprintf(path, sizeof(path), "%s/db", dir);
        RUN(templates_and_builds_survive);
        RUN(aliases_and_numbers_are_unique);
        RUN(tags_hold_their_builds);
        RUN(cached_steps_are_found_by_team_and_key);
        RUN(images_survive_and_are_replaced);
        s = store_close(s);
        (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
        return system(command) == 0 ? tap_done() : 1;
}
