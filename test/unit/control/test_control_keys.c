/* API keys: the operator makes, lists and revokes them; users of the machine get their own. */
#include "base/buf.h"
#include "control/access/user_door.h"
#include "model/envfile.h"
#include "wire/sha256.h"

#include "control_rig.h"

static char made_key[KEY_LEN + 1], made_id[UUID_MAX];

static unsigned ask_as(const char *key, const char *method, const char *path, const char *body)
{
        char more[128];

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", key);
        return ask_with(method, path, more, body);
}

static bool make(const char *name)
{
        char body[200];

        (void)snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name);
        if (ask("POST", "/api-keys", body) != 201 || !text_at("key") || !text_at("id"))
                return false;
        (void)snprintf(made_key, sizeof(made_key), "%s", text_at("key"));
        (void)snprintf(made_id, sizeof(made_id), "%s", text_at("id"));
        return true;
}

static unsigned revoke_key(const char *id)
{
        char path[96];

        (void)snprintf(path, sizeof(path), "/api-keys/%s", id);
        return ask("DELETE", path, NULL);
}

/* The one of the last list with that name. */
static json_t *listed(const char *name)
{
        json_t *key;
        size_t i;

        json_array_foreach (last.json, i, key)
                if (strcmp(json_string_value(json_object_get(key, "name")), name) == 0)
                        return key;
        return NULL;
}

static const char *listed_text(const char *name, const char *field)
{
        return json_string_value(json_object_get(listed(name), field));
}

static bool restart(void)
{
        control_stop();
        return control_start() && run_until(engine_is_up, NULL);
}

static void a_key_is_shown_once_and_listed_by_its_mask(void)
{
        const json_t *mask;

        CHECK(make("ci"));
        CHECK(key_is_wellformed(str_of(made_key)));
        CHECK_INT(ask("GET", "/api-keys", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 2);
        CHECK_STR(listed_text("first", "kind"), "operator");
        CHECK_STR(listed_text("ci", "kind"), "given");
        CHECK_STR(listed_text("ci", "id"), made_id);
        CHECK(listed_text("ci", "createdAt") && !json_object_get(listed("ci"), "key"));
        CHECK(!json_object_get(listed("ci"), "lastUsed") && json_object_get(listed("first"), "lastUsed"));
        mask = json_object_get(listed("ci"), "mask");
        CHECK_STR(json_string_value(json_object_get(mask, "prefix")), "e2b_");
        CHECK_INT(json_integer_value(json_object_get(mask, "valueLength")), ==, 40);
        CHECK(strncmp(json_string_value(json_object_get(mask, "maskedValuePrefix")), made_key + 4, 2) == 0);
        CHECK_STR(json_string_value(json_object_get(mask, "maskedValueSuffix")), made_key + KEY_LEN - 4);
        CHECK_INT(ask_as(made_key, "GET", "/sandboxes", NULL), ==, 200);
        CHECK(restart());
        CHECK_INT(ask_as(made_key, "GET", "/sandboxes", NULL), ==, 200);
}

static void a_revoked_key_is_refused_at_once_and_for_good(void)
{
        CHECK(make("ci"));
        CHECK_INT(ask_as(made_key, "GET", "/sandboxes", NULL), ==, 200);
        CHECK_INT(revoke_key(made_id), ==, 204);
        CHECK_INT(ask_as(made_key, "GET", "/sandboxes", NULL), ==, 401);
        CHECK_INT(revoke_key(made_id), ==, 404);
        CHECK(restart());
        CHECK_INT(ask_as(made_key, "GET", "/sandboxes", NULL), ==, 401);
        CHECK_INT(ask("GET", "/api-keys", NULL), ==, 200);
        CHECK(!listed("ci"));
}

static void only_the_operator_manages_keys(void)
{
        char more[128], own[UUID_MAX];

        CHECK(make("ci"));
        CHECK_INT(ask_as(made_key, "GET", "/api-keys", NULL), ==, 403);
        CHECK_INT(ask_as(made_key, "POST", "/api-keys", "{\"name\":\"x\"}"), ==, 403);
        CHECK_INT(ask_as(made_key, "DELETE", "/api-keys/x", NULL), ==, 403);
        CHECK_INT(ask_as(made_key, "GET", "/sandglass/lost", NULL), ==, 403); /* it may be any team's */
        CHECK_INT(ask_with("GET", "/api-keys", "", NULL), ==, 401);
        (void)snprintf(more, sizeof(more), "X-Admin-Token: %s\r\n", rig.key);
        CHECK_INT(ask_with("GET", "/api-keys", more, NULL), ==, 200);
        CHECK_INT(ask_with("GET", "/sandboxes", more, NULL), ==, 401); /* no other route knows that header */
        CHECK_INT(ask("GET", "/api-keys", NULL), ==, 200);
        (void)snprintf(own, sizeof(own), "%s", listed_text("first", "id"));
        CHECK_INT(revoke_key(own), ==, 409);
        CHECK_INT(ask("GET", "/api-keys", NULL), ==, 200);
}

static void names_are_checked(void)
{
        char body[300], name[KEY_NAME_MAX + 2] = {0};

        CHECK_INT(ask("POST", "/api-keys", "{}"), ==, 400);
        CHECK_INT(ask("POST", "/api-keys", "{\"name\":\"\"}"), ==, 400);
        CHECK_INT(ask("POST", "/api-keys", "{\"name\":7}"), ==, 400);
        CHECK_INT(ask("POST", "/api-keys", "{\"name\":\"a\\nb\"}"), ==, 400);
        memset(name, 'x', KEY_NAME_MAX + 1);
        (void)snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name);
        CHECK_INT(ask("POST", "/api-keys", body), ==, 400);
        CHECK(make("caf\xc3\xa9 1"));
}

static void keys_of_another_team_are_its_own(void)
{
        const struct store_team other = {
                .id = "6f1c0000-0000-4000-8000-000000000002", .slug = "other", .name = "Other"};
        char more[160], path[96];
        int64_t no;

        CHECK_INT(store_team_add(rig.control.store, &other, &no, NULL), ==, 0);
        CHECK(restart());
        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\nX-Team-ID: other\r\n", rig.key);
        CHECK_INT(ask_with("POST", "/api-keys", more, "{\"name\":\"theirs\"}"), ==, 201);
        (void)snprintf(path, sizeof(path), "/api-keys/%s", text_at("id"));
        CHECK_INT(ask("GET", "/api-keys", NULL), ==, 200);
        CHECK(!listed("theirs"));
        CHECK_INT(ask("DELETE", path, NULL), ==, 404);
        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\nX-Team-ID: %s\r\n", rig.key, other.id);
        CHECK_INT(ask_with("GET", "/api-keys", more, NULL), ==, 200);
        CHECK(listed("theirs") && json_array_size(last.json) == 1);
        CHECK_INT(ask_with("DELETE", path, more, NULL), ==, 204);
        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\nX-Team-ID: nobody\r\n", rig.key);
        CHECK_INT(ask_with("GET", "/api-keys", more, NULL), ==, 404);
}

static void when_a_key_was_used_is_kept(void)
{
        const char *shown;
        char first[CLOCK_TEXT_MAX];

        CHECK(make("ci"));
        CHECK_INT(ask_as(made_key, "GET", "/sandboxes", NULL), ==, 200);
        rig.now_ns += 60 * S_NS;
        CHECK_INT(ask_as(made_key, "GET", "/sandboxes", NULL), ==, 200);
        clock_format(rig.now_ns, first);
        rig.now_ns += 60 * S_NS;
        CHECK_INT(ask("GET", "/api-keys", NULL), ==, 200);
        shown = listed_text("ci", "lastUsed");
        CHECK_STR(shown, first);
        CHECK(restart());
        CHECK_INT(ask("GET", "/api-keys", NULL), ==, 200);
        shown = listed_text("ci", "lastUsed");
        CHECK_STR(shown, first);
}

/* ---- users of the machine ---- */

static struct envfile exports_for(uint32_t uid)
{
        const struct user_door d = {.conf = &rig.conf, .keys = &rig.control.keys, .tokens = &rig.control.tokens};
        AUTO_BUF struct buf text = BUF_INIT(ENVFILE_MAX);
        struct envfile e = {0};

        if (user_door_answer(&d, uid, &text) < 0 ||
            envfile_parse((struct str){(const char *)buf_at(&text), text.len}, &e) < 0)
                abort();
        return e;
}

static void a_user_always_gets_the_same_key_and_no_other_users(void)
{
        AUTO(envfile_done) struct envfile a = {0}, again = {0}, b = {0}, later = {0};

        rig.conf.exports = strdup("export E2B_API_URL='http://127.0.0.1:1'\n");
        a = exports_for(1000);
        again = exports_for(1000);
        b = exports_for(1001);
        CHECK(a.api_key && b.api_key && again.api_key);
        CHECK_STR(a.api_url, "http://127.0.0.1:1");
        CHECK_STR(a.api_key, again.api_key);
        CHECK(strcmp(a.api_key, b.api_key) != 0);
        CHECK_INT(ask_as(a.api_key, "GET", "/sandboxes", NULL), ==, 200);
        CHECK_INT(ask_as(a.api_key, "GET", "/api-keys", NULL), ==, 403);
        CHECK(restart());
        later = exports_for(1000);
        CHECK_STR(a.api_key, later.api_key);
        CHECK_INT(ask("GET", "/api-keys", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 3);
        CHECK_STR(listed_text("user 1000", "kind"), "user");
        CHECK_INT(json_integer_value(json_object_get(listed("user 1001"), "uid")), ==, 1001);
}

static void a_users_revoked_key_is_replaced_by_another(void)
{
        AUTO(envfile_done) struct envfile old = exports_for(1000), new = {0};

        CHECK_INT(ask("GET", "/api-keys", NULL), ==, 200);
        CHECK_INT(revoke_key(listed_text("user 1000", "id")), ==, 204);
        CHECK_INT(ask_as(old.api_key, "GET", "/sandboxes", NULL), ==, 401);
        new = exports_for(1000);
        CHECK(strcmp(old.api_key, new.api_key) != 0);
        CHECK_INT(ask_as(new.api_key, "GET", "/sandboxes", NULL), ==, 200);
}

static void roles_and_nobody_get_no_key(void)
{
        const struct conf *c = &rig.conf;
        const uint32_t none[] = {65534,          UINT32_MAX,    c->control_uid, c->edge_uid,
                                 c->builder_uid, c->puller_uid, c->agent_uid};

        for (size_t i = 0; i < ARRAY_LEN(none); i++) {
                AUTO(envfile_done) struct envfile e = exports_for(none[i]);

                CHECK(!e.api_key);
        }
        CHECK_INT(ask("GET", "/api-keys", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1);
}

static bool has_ended(void *arg)
{
        char piece[ENVFILE_MAX];
        ssize_t n;

        do {
                n = recv(*(int *)arg, piece, sizeof(piece), MSG_DONTWAIT);
        } while (n > 0);
        return n == 0;
}

static void the_door_answers_and_closes(void)
{
        AUTO_CLOSE int fd = -1;
        char path[96];
        struct err err = {0};

        (void)snprintf(path, sizeof(path), "%s/run/users.sock", rig.dir);
        CHECK_INT(listen_unix(path, 0660, &rig.conf.fds.users, &err), ==, 0);
        rig.control.user_door =
                (struct user_door){.conf = &rig.conf, .keys = &rig.control.keys, .tokens = &rig.control.tokens};
        CHECK_INT(user_door_open(&rig.control.user_door, rig.loop, &err), ==, 0);
        CHECK_INT(connect_unix(path, &fd), ==, 0);
        CHECK(run_until(has_ended, &fd));
        CHECK_INT(ask("GET", "/api-keys", NULL), ==, 200);
        (void)snprintf(path, sizeof(path), "user %u", geteuid());
        CHECK(listed(path));
}

int main(void)
{
        RUN_IN_RIG(a_key_is_shown_once_and_listed_by_its_mask);
        RUN_IN_RIG(a_revoked_key_is_refused_at_once_and_for_good);
        RUN_IN_RIG(only_the_operator_manages_keys);
        RUN_IN_RIG(names_are_checked);
        RUN_IN_RIG(keys_of_another_team_are_its_own);
        RUN_IN_RIG(when_a_key_was_used_is_kept);
        RUN_IN_RIG(a_user_always_gets_the_same_key_and_no_other_users);
        RUN_IN_RIG(a_users_revoked_key_is_replaced_by_another);
        RUN_IN_RIG(roles_and_nobody_get_no_key);
        RUN_IN_RIG(the_door_answers_and_closes);
        return tap_done();
}
