/* Credentials: set, listed, replaced and removed, for a team and for users; what a sandbox of which key gets; lost and new keys. */
#include <fcntl.h>

#include "control/credentials/credential_socket.h"
#include "control/credentials/credentials.h"
#include "model/credential/credential.h"
#include "store/credentials.h"

#include "control_rig.h"

#define KEY_A "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
#define KEY_B "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100\n"
#define CREDENTIALS "/sandglass/credentials"

static char made_key[KEY_LEN + 1], made_id[UUID_MAX];

/* Control again, with this secret-key; NULL: none. */
static bool start_with(const char *secret_key)
{
        char path[160];

        control_stop();
        close_fd(&rig.conf.fds.secret_key);
        (void)snprintf(path, sizeof(path), "%s/secret-key", rig.dir);
        if (secret_key) {
                write_file("secret-key", secret_key);
                rig.conf.fds.secret_key = open(path, O_RDONLY | O_CLOEXEC);
        }
        return control_start() && run_until(engine_is_up, NULL);
}

static unsigned ask_as(const char *key, const char *method, const char *path, const char *body)
{
        char more[128];

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", key);
        return ask_with(method, path, more, body);
}

static bool make_key(void)
{
        if (ask("POST", "/api-keys", "{\"name\":\"ci\"}") != 201)
                return false;
        (void)snprintf(made_key, sizeof(made_key), "%s", text_at("key"));
        (void)snprintf(made_id, sizeof(made_id), "%s", text_at("id"));
        return true;
}

/* set("openai?scope=user", "abc") */
static unsigned set_as(const char *key, const char *name, const char *value)
{
        json_t *body = json_pack("{s:s}", "value", value);
        char path[160], *text = json_dumps(body, 0);
        unsigned status;

        (void)snprintf(path, sizeof(path), CREDENTIALS "/%s", name);
        status = ask_as(key, "PUT", path, text);
        free(text);
        json_decref(body);
        return status;
}

static unsigned set(const char *name, const char *value)
{
        return set_as(rig.key, name, value);
}

static unsigned drop(const char *name)
{
        char path[160];

        (void)snprintf(path, sizeof(path), CREDENTIALS "/%s", name);
        return ask("DELETE", path, NULL);
}

/* "team openai, user git": what is listed for the key. */
static const char *listed_for(const char *key)
{
        static char out[512];
        json_t *item;
        size_t i;

        out[0] = 0;
        if (ask_as(key, "GET", CREDENTIALS, NULL) != 200)
                return "(refused)";
        json_array_foreach (last.json, i, item) {
                size_t n = strlen(out);

                (void)snprintf(out + n, sizeof(out) - n, "%s%s %s%s", n ? ", " : "",
                               json_string_value(json_object_get(item, "scope")),
                               json_string_value(json_object_get(item, "name")),
                               json_is_true(json_object_get(item, "readable")) ? "" : " unreadable");
        }
        return out;
}

/* What a sandbox of this key would get, by the socket's server; the status. */
static unsigned fetch(const char *key)
{
        struct http_server *api = rig.control.api.http;
        struct credential_socket *s = &rig.control.credential_socket;
        char path[160];
        unsigned status;
        int fd = -1;

        if (!s->http) {
                (void)snprintf(path, sizeof(path), "%s/run/credentials.sock", rig.dir);
                s->credentials = &rig.control.credentials;
                s->keys = &rig.control.keys;
                s->uid = geteuid();
                if (listen_unix(path, 0660, &fd, NULL) < 0 || credential_socket_open(s, rig.loop, fd, NULL) < 0)
                        abort();
        }
        rig.control.api.http = s->http; /* where ask() goes */
        status = ask_as(key, "GET", "/credentials", NULL);
        rig.control.api.http = api;
        return status;
}

static const char *fetched_variable(const char *name)
{
        const char *found = NULL;
        json_t *item;
        size_t i;

        json_array_foreach (json_object_get(last.json, "credentials"), i, item) {
                const char *text = json_string_value(json_object_get(json_object_get(item, "env"), name));

                if (text)
                        found = text;
        }
        return found;
}

static size_t fetched_count(void)
{
        return json_array_size(json_object_get(last.json, "credentials"));
}

static const char *of_user(uint32_t uid)
{
        static char key[KEY_LEN + 1];

        if (keys_of_user(&rig.control.keys, &rig.control.tokens, uid, key, NULL) < 0)
                abort();
        return key;
}

/* ---- cases ---- */

static void one_is_set_listed_replaced_and_removed(void)
{
        char first[CLOCK_TEXT_MAX], later[CLOCK_TEXT_MAX];

        CHECK(start_with(KEY_A));
        clock_format(rig.now_ns, first);
        CHECK_INT(set("openai", "sk-one"), ==, 204);
        CHECK_STR(listed_for(rig.key), "team openai");
        CHECK_INT(fetch(rig.key), ==, 200);
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "sk-one");
        rig.now_ns += 60 * S_NS;
        clock_format(rig.now_ns, later);
        CHECK_INT(set("openai", "sk-two"), ==, 204);
        CHECK(start_with(KEY_A));
        CHECK_INT(ask("GET", CREDENTIALS "/openai", NULL), ==, 200);
        CHECK_STR(text_at("createdAt"), first);
        CHECK_STR(text_at("updatedAt"), later);
        CHECK_STR(text_at("scope"), "team");
        CHECK_INT(json_object_size(last.json), ==, 5); /* and no value */
        CHECK_INT(fetch(rig.key), ==, 200);
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "sk-two");
        CHECK_INT(drop("openai"), ==, 204);
        CHECK_INT(drop("openai"), ==, 404);
        CHECK_INT(ask("GET", CREDENTIALS "/openai", NULL), ==, 404);
        CHECK_INT(fetch(rig.key), ==, 200);
        CHECK_INT(fetched_count(), ==, 0);
}

static void a_value_may_be_the_object_itself(void)
{
        CHECK(start_with(KEY_A));
        CHECK_INT(ask("PUT", CREDENTIALS "/codex", "{\"value\":{\"OPENAI_API_KEY\":\"sk\"}}"), ==, 204);
        CHECK_INT(fetch(rig.key), ==, 200);
        CHECK_STR(json_string_value(json_object_get(
                          json_array_get(json_object_get(json_array_get(json_object_get(last.json, "credentials"), 0),
                                                         "files"),
                                         0),
                          "content")),
                  "{\"OPENAI_API_KEY\":\"sk\"}");
}

static void a_users_own_is_there_instead_of_the_teams(void)
{
        CHECK(start_with(KEY_A));
        CHECK(make_key());
        CHECK_INT(set("openai", "of-team"), ==, 204);
        CHECK_INT(set("gemini", "of-team"), ==, 204);
        CHECK_INT(set_as(made_key, "openai?scope=user", "of-ci"), ==, 204);
        CHECK_INT(set_as(of_user(1000), "openai?scope=user", "of-1000"), ==, 204);
        CHECK_STR(listed_for(made_key), "team gemini, team openai, user openai");
        CHECK_STR(listed_for(rig.key), "team gemini, team openai");
        CHECK_INT(ask_as(made_key, "GET", CREDENTIALS "/openai", NULL), ==, 200);
        CHECK_STR(text_at("scope"), "user");
        CHECK_INT(ask_as(made_key, "GET", CREDENTIALS "/openai?scope=team", NULL), ==, 200);
        CHECK_STR(text_at("scope"), "team");
        CHECK_INT(fetch(made_key), ==, 200);
        CHECK_INT(fetched_count(), ==, 2);
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "of-ci");
        CHECK_STR(fetched_variable("GEMINI_API_KEY"), "of-team");
        CHECK_INT(fetch(of_user(1000)), ==, 200);
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "of-1000");
        CHECK_INT(fetch(of_user(1001)), ==, 200);
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "of-team");
        CHECK_INT(fetch(rig.key), ==, 200);
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "of-team");
        CHECK_INT(ask_as(made_key, "DELETE", CREDENTIALS "/openai?scope=user", NULL), ==, 204);
        CHECK_INT(fetch(made_key), ==, 200);
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "of-team");
}

static void they_go_with_the_key_but_a_user_of_the_machine_keeps_them(void)
{
        char path[96];

        CHECK(start_with(KEY_A));
        CHECK(make_key());
        CHECK_INT(set_as(made_key, "openai?scope=user", "of-ci"), ==, 204);
        CHECK_INT(set_as(of_user(1000), "openai?scope=user", "of-1000"), ==, 204);
        (void)snprintf(path, sizeof(path), "/api-keys/%s", made_id);
        CHECK_INT(ask("DELETE", path, NULL), ==, 204);
        CHECK_INT(fetch(made_key), ==, 401);
        {
                const struct store_credential gone = {.team = 1, .owner = "", .name = "none"};
                struct store_credential_usage usage;

                CHECK_INT(store_credential_usage(rig.control.store, &gone, &usage, NULL), ==, 0);
                CHECK_INT(usage.team_count, ==, 1);
        }
        (void)snprintf(path, sizeof(path), "/api-keys/%s", keys_find(&rig.control.keys, str_of(of_user(1000)))->id);
        CHECK_INT(ask("DELETE", path, NULL), ==, 204);
        CHECK_INT(fetch(of_user(1000)), ==, 200); /* with another key */
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "of-1000");
}

static void another_team_has_its_own(void)
{
        const struct store_team other = {
                .id = "6f1c0000-0000-4000-8000-000000000002", .slug = "other", .name = "Other"};
        char more[160], theirs[KEY_LEN + 1];
        int64_t no;

        CHECK_INT(store_team_add(rig.control.store, &other, &no, NULL), ==, 0);
        CHECK(start_with(KEY_A));
        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\nX-Team-ID: other\r\n", rig.key);
        CHECK_INT(ask_with("POST", "/api-keys", more, "{\"name\":\"theirs\"}"), ==, 201);
        (void)snprintf(theirs, sizeof(theirs), "%s", text_at("key"));
        CHECK_INT(set("openai", "ours"), ==, 204);
        CHECK_INT(set_as(theirs, "openai", "theirs"), ==, 204);
        CHECK_INT(fetch(theirs), ==, 200);
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "theirs");
        CHECK_INT(ask_as(theirs, "DELETE", CREDENTIALS "/openai", NULL), ==, 204);
        CHECK_STR(listed_for(theirs), "");
        CHECK_INT(fetch(rig.key), ==, 200);
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "ours");
}

static void what_is_wrong_is_said_without_the_value(void)
{
        static const struct {
                const char *path, *body;
                unsigned status;
        } rows[] = {
                {"/openai", "{}", 400},
                {"/openai", "{\"value\":7}", 400},
                {"/openai", "{\"value\":null}", 400},
                {"/openai", "{\"value\":\"\"}", 400},
                {"/openai", "{\"value\":\"SECRET two\"}", 400},
                {"/openai", "{\"value\":\"SECRET", 400},
                {"/openai", "{\"value\":SECRET}", 400},
                {"/openai", "SECRET", 400},
                {"/openai", "[\"SECRET\"]", 400},
                {"/openai", "", 400},
                {"/a%2Fb", "{\"value\":\"SECRET\"}", 400},
                {"/a%zz", "{\"value\":\"SECRET\"}", 400},
                {"/a%00b", "{\"value\":\"SECRET\"}", 400},
                {"/openai?scope=all", "{\"value\":\"SECRET\"}", 400},
        };
        char path[96];

        CHECK(start_with(KEY_A));
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                (void)snprintf(path, sizeof(path), CREDENTIALS "%s", rows[i].path);
                printf("# row %zu\n", i);
                CHECK_INT(ask("PUT", path, rows[i].body), ==, rows[i].status);
                CHECK(text_at("message") && !strstr(text_at("message"), "SECRET"));
        }
        CHECK_INT(ask_with("GET", CREDENTIALS, "", NULL), ==, 401);
        CHECK_INT(ask("POST", CREDENTIALS, "{}"), ==, 405);
        CHECK_STR(listed_for(rig.key), "");
}

static void there_is_a_limit_to_their_number_and_size(void)
{
        static char big[CREDENTIAL_VALUE_MAX + 1];
        char name[32];

        CHECK(start_with(KEY_A));
        memset(big, 'x', sizeof(big) - 1);
        memcpy(big, "a=", 2);
        for (unsigned i = 0; i < CREDENTIALS_MAX; i++) {
                (void)snprintf(name, sizeof(name), "A%u", i);
                CHECK_INT(set(name, "x"), ==, 204);
        }
        CHECK_INT(set("openai", "x"), ==, 409);
        CHECK_INT(set("A3", "y"), ==, 204); /* one that is there may be replaced */
        CHECK_INT(set("openai?scope=user", "x"), ==, 204);
        for (unsigned i = 0; i < CREDENTIALS_MAX; i++) {
                (void)snprintf(name, sizeof(name), "A%u", i);
                CHECK_INT(drop(name), ==, 204);
        }
        CHECK_INT(set("npm", big), ==, 204);
        big[1] = 0;
        CHECK_INT(set("npm", big), ==, 204);
}

static char big_object[CREDENTIAL_VALUE_MAX + 1];

static void all_values_together_are_bounded(void)
{
        static const char begin[] = "{\"files\":{\"x\":\"", end[] = "\"}}";
        size_t n = sizeof(big_object) - 1;
        unsigned most = CREDENTIALS_BYTES_MAX / (CREDENTIAL_VALUE_MAX + SECRET_BOX_EXTRA);
        char name[16];

        memset(big_object, 'x', n);
        memcpy(big_object, begin, sizeof(begin) - 1);
        memcpy(big_object + n - (sizeof(end) - 1), end, sizeof(end) - 1);
        CHECK(start_with(KEY_A));
        for (unsigned i = 0; i <= most; i++) {
                (void)snprintf(name, sizeof(name), "big%u", i);
                CHECK_INT(set(name, big_object), ==, i < most ? 204 : 409);
        }
        CHECK_INT(fetch(rig.key), ==, 200);
        CHECK_INT(fetched_count(), ==, most);
}

static void without_a_key_nothing_is_set_and_the_server_runs(void)
{
        CHECK(start_with(NULL));
        CHECK_INT(set("openai", "x"), ==, 503);
        CHECK(strstr(text_at("message"), "secret-key"));
        CHECK_STR(listed_for(rig.key), "");
        CHECK_INT(fetch(rig.key), ==, 200);
}

static void with_another_key_nothing_is_lost_and_nothing_given(void)
{
        CHECK(start_with(KEY_A));
        CHECK_INT(set("openai", "sk-one"), ==, 204);
        CHECK_INT(set("gemini", "sk-one"), ==, 204);
        CHECK(start_with(KEY_B));
        CHECK_STR(listed_for(rig.key), "team gemini unreadable, team openai unreadable");
        CHECK_INT(fetch(rig.key), ==, 503);
        CHECK(strstr(text_at("message"), "secret-key") && strstr(text_at("message"), "'gemini'"));
        CHECK_INT(set("openai", "sk-two"), ==, 204);
        CHECK_INT(drop("gemini"), ==, 204);
        CHECK_INT(fetch(rig.key), ==, 200);
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "sk-two");
        CHECK(start_with(NULL));
        CHECK_STR(listed_for(rig.key), "team openai unreadable");
        CHECK(start_with(KEY_B));
        CHECK_INT(fetch(rig.key), ==, 200);
}

static void a_readable_one_of_the_user_hides_an_unreadable_one_of_the_team(void)
{
        CHECK(start_with(KEY_A));
        CHECK_INT(set("openai", "sk-team"), ==, 204);
        CHECK(start_with(KEY_B));
        CHECK_INT(set("openai?scope=user", "sk-own"), ==, 204);
        CHECK_INT(fetch(rig.key), ==, 200);
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "sk-own");
}

static void a_new_key_in_front_encrypts_all_anew(void)
{
        CHECK(start_with(KEY_A));
        CHECK_INT(set("openai", "sk-one"), ==, 204);
        CHECK_INT(set("git?scope=user", "https://a:b@c"), ==, 204);
        CHECK(start_with(KEY_B KEY_A));
        CHECK(start_with(KEY_B));
        CHECK_STR(listed_for(rig.key), "team openai, user git");
        CHECK_INT(fetch(rig.key), ==, 200);
        CHECK_STR(fetched_variable("OPENAI_API_KEY"), "sk-one");
        CHECK_INT(fetched_count(), ==, 2);
}

static void a_damaged_key_file_is_named(void)
{
        char path[160];
        struct err err = {0};

        control_stop();
        (void)snprintf(path, sizeof(path), "%s/secret-key", rig.dir);
        write_file("secret-key", "0011\n");
        rig.conf.fds.secret_key = open(path, O_RDONLY | O_CLOEXEC);
        rig.is_up = true;
        CHECK_INT(control_init(&rig.control, &rig.conf, rig.loop, rig_now, rig_boot, &err), <, 0);
        CHECK(err.kind == ERR_INVALID && strstr(err.msg, "secret-key"));
}

/* ---- rows changed by somebody who can write to the store, and has no key ---- */

struct copied {
        char owner[64], name[64];
        uint8_t sealed[256];
        size_t n;
};

static int copy_first(const struct store_credential *row, void *arg)
{
        struct copied *c = arg;

        if (c->n == 0) {
                (void)snprintf(c->owner, sizeof(c->owner), "%s", row->owner);
                (void)snprintf(c->name, sizeof(c->name), "%s", row->name);
                memcpy(c->sealed, row->sealed.p, row->sealed.n);
                c->n = row->sealed.n;
        }
        return 0;
}

static int put_copy(const struct copied *c, const char *owner, const char *name)
{
        const struct store_credential row = {
                .team = 1, .owner = owner, .name = name, .sealed = {(const char *)c->sealed, c->n}};

        return store_credential_put(rig.control.store, &row, NULL);
}

static void a_row_moved_or_changed_is_refused(void)
{
        static const struct {
                const char *owner, *name;
        } places[] = {{"", "gemini"}, {"operator", "openai"}};
        struct copied c = {.n = 0};

        CHECK(start_with(KEY_A));
        CHECK_INT(set("openai", "sk-one"), ==, 204);
        CHECK_INT(store_credential_each(rig.control.store, copy_first, &c, NULL), ==, 0);
        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
                const struct store_credential there = {.team = 1, .owner = places[i].owner, .name = places[i].name};

                CHECK_INT(put_copy(&c, places[i].owner, places[i].name), ==, 0);
                CHECK_INT(fetch(rig.key), ==, 503);
                CHECK(strstr(text_at("message"), "damaged"));
                CHECK_INT(store_credential_remove(rig.control.store, &there, NULL, NULL), ==, 0);
        }
        CHECK_INT(fetch(rig.key), ==, 200);
        c.sealed[c.n - 1] ^= 1;
        CHECK_INT(put_copy(&c, "", "openai"), ==, 0);
        CHECK_INT(fetch(rig.key), ==, 503);
        c.n = 3;
        CHECK_INT(put_copy(&c, "", "openai"), ==, 0);
        CHECK_STR(listed_for(rig.key), "team openai unreadable");
        CHECK_INT(fetch(rig.key), ==, 503);
        CHECK_INT(drop("openai"), ==, 204);
        CHECK_INT(fetch(rig.key), ==, 200);
}

/* ---- the socket ---- */

static bool has_ended(void *arg)
{
        char piece[4096];
        ssize_t n;

        do {
                n = recv(*(int *)arg, piece, sizeof(piece), MSG_DONTWAIT);
        } while (n > 0);
        return n == 0;
}

static bool has_answer(void *arg)
{
        char piece[4096];

        return recv(*(int *)arg, piece, sizeof(piece), MSG_DONTWAIT | MSG_PEEK) > 0;
}

static void only_the_one_user_may_connect(void)
{
        static const char ask_it[] = "GET /credentials HTTP/1.1\r\nHost: x\r\n\r\n";
        AUTO_CLOSE int own = -1, other = -1;
        char path[160];

        log_setup("control", LOG_ERROR);
        CHECK(start_with(KEY_A));
        CHECK_INT(fetch(rig.key), ==, 200); /* opens the socket */
        (void)snprintf(path, sizeof(path), "%s/run/credentials.sock", rig.dir);
        rig.control.credential_socket.uid = geteuid() + 1;
        CHECK_INT(connect_unix(path, &other), ==, 0);
        CHECK(run_until(has_ended, &other));
        rig.control.credential_socket.uid = geteuid();
        CHECK_INT(connect_unix(path, &own), ==, 0);
        CHECK_INT(write(own, ask_it, sizeof(ask_it) - 1), ==, sizeof(ask_it) - 1);
        CHECK(run_until(has_answer, &own));
}

static void the_socket_serves_one_call_with_a_key(void)
{
        struct http_server *api;
        unsigned status[3];

        CHECK(start_with(KEY_A));
        api = rig.control.api.http;
        CHECK_INT(fetch("e2b_0000000000000000000000000000000000000000"), ==, 401);
        CHECK_INT(fetch("x"), ==, 401);
        rig.control.api.http = rig.control.credential_socket.http;
        status[0] = ask_with("GET", "/credentials", "", NULL);
        status[1] = ask("GET", "/sandboxes", NULL);
        status[2] = ask("PUT", "/credentials", "{}");
        rig.control.api.http = api;
        CHECK_INT(status[0], ==, 401);
        CHECK_INT(status[1], ==, 404);
        CHECK_INT(status[2], ==, 404);
}

int main(void)
{
        RUN_IN_RIG(one_is_set_listed_replaced_and_removed);
        RUN_IN_RIG(a_value_may_be_the_object_itself);
        RUN_IN_RIG(a_users_own_is_there_instead_of_the_teams);
        RUN_IN_RIG(they_go_with_the_key_but_a_user_of_the_machine_keeps_them);
        RUN_IN_RIG(another_team_has_its_own);
        RUN_IN_RIG(what_is_wrong_is_said_without_the_value);
        RUN_IN_RIG(there_is_a_limit_to_their_number_and_size);
        RUN_IN_RIG(all_values_together_are_bounded);
        RUN_IN_RIG(without_a_key_nothing_is_set_and_the_server_runs);
        RUN_IN_RIG(with_another_key_nothing_is_lost_and_nothing_given);
        RUN_IN_RIG(a_readable_one_of_the_user_hides_an_unreadable_one_of_the_team);
        RUN_IN_RIG(a_new_key_in_front_encrypts_all_anew);
        RUN_IN_RIG(a_damaged_key_file_is_named);
        RUN_IN_RIG(a_row_moved_or_changed_is_refused);
        RUN_IN_RIG(only_the_one_user_may_connect);
        RUN_IN_RIG(the_socket_serves_one_call_with_a_key);
        close_fd(&rig.conf.fds.secret_key);
        return tap_done();
}
