/* Lives of sandboxes: deadlines, restarts of either side, clients that leave, and what the edges are told. */
#include "control_life.h"

#include "base/buf.h"
#include "store/db.h"
#include "wire/signature.h"
#include "wire/url.h"

static bool is_gone(void *arg)
{
        return !lives_find(&rig.control.lives, arg);
}

static bool is_logged_kill(const char *id)
{
        char entry[64];

        (void)snprintf(entry, sizeof(entry), "kill:%.40s", id);
        return strstr(engine.log, entry);
}

static unsigned get(const char *id)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        return ask("GET", path, NULL);
}

static int count_row(struct sandbox *sb, void *arg)
{
        (void)sb;
        ++*(size_t *)arg;
        return 0;
}

static size_t row_count(void)
{
        size_t n = 0;

        return store_sandbox_each(rig.control.store, count_row, &n, NULL) < 0 ? 999 : n;
}

/* ---- edges ---- */

static void edge_ask(const char *id)
{
        edge.log[0] = 0;
        (void)channel_send(edge.channel, json_pack("{s:s,s:i,s:s}", "op", "route", "req", 7, "id", id), NULL, 0);
}

static void edges_are_told_and_may_ask(void)
{
        char id[SANDBOX_ID_MAX], path[64], text[200];

        CHECK(edge_start());
        CHECK(create(BASE, id));
        (void)snprintf(text, sizeof(text), "\"id\":\"%s\",\"state\":\"running\"}}", id);
        CHECK(run_until(edge_has_heard, "{\"event\":\"route\",\"route\":{\"at\":"));
        CHECK(run_until(edge_has_heard, text));
        edge_ask(id);
        CHECK(run_until(edge_has_heard, "{\"ok\":true,\"req\":7,\"route\":{\"at\":"));
        CHECK(run_until(edge_has_heard, text));
        edge_ask("inone");
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        engine.holds_kill = true;
        edge.log[0] = 0;
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        struct client killer;
        char more[128];
        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", rig.key);
        client_send(&killer, "DELETE", path, more, NULL);
        (void)snprintf(text, sizeof(text), "{\"event\":\"gone\",\"id\":\"%s\"}", id);
        CHECK(run_until(edge_has_heard, text)); /* while the engine has not finished */
        CHECK(engine_lives(id) && !killer.is_done);
        edge_ask(id);
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        CHECK(run_until(engine_has_logged, "kill:"));
        engine_release();
        CHECK(run_until(client_is_done, &killer));
        CHECK_INT(killer.status, ==, 204);
        client_close(&killer);
        edge.channel = channel_free(edge.channel);
}

static void routes_carry_token_and_mask(void)
{
        char id[SANDBOX_ID_MAX], token[65];

        CHECK(create("{\"templateID\":\"base\",\"network\":{\"allowPublicTraffic\":false,\"maskRequestHost\":\"a.b\"}}",
                     id));
        (void)snprintf(token, sizeof(token), "%s", text_at("trafficAccessToken"));
        control_stop(); /* tokens and configuration survive */
        CHECK(control_start() && edge_start());
        edge_ask(id);
        CHECK(run_until(edge_has_heard, "\"mask_host\":\"a.b\""));
        CHECK(strstr(edge.log, token));
        edge.channel = channel_free(edge.channel);
}

static void edge_ask_signer(const char *query, const char *operation)
{
        edge.log[0] = 0;
        (void)channel_send(
                edge.channel,
                json_pack("{s:s,s:i,s:s*,s:s}", "op", "signed", "req", 8, "query", query, "operation", operation), NULL,
                0);
}

static void a_signed_url_is_of_the_sandbox_whose_token_it_was_signed_with(void)
{
        char ids[3][SANDBOX_ID_MAX], token[65], signature[SIGNATURE_MAX], query[256], found[64];
        AUTO_BUF struct buf escaped = BUF_INIT(256);
        struct sha256 begun;

        for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
                CHECK(create(BASE, ids[i]));
                if (i == 1)
                        (void)snprintf(token, sizeof(token), "%s", text_at("envdAccessToken"));
        }
        CHECK_INT(strlen(token), ==, 64);
        signature_begin(&begun, "a b", "read", NULL);
        signature_end(&begun, token, "77", signature);
        CHECK_INT(url_encode(str_of(signature), &escaped), ==, 0);
        (void)snprintf(query, sizeof(query), "signature_expiration=77&path=a+b&signature=%.*s", (int)escaped.len,
                       (const char *)buf_at(&escaped));
        (void)snprintf(found, sizeof(found), "\"id\":\"%s\",\"ok\":true,\"req\":8", ids[1]);
        CHECK(edge_start());
        edge_ask_signer(query, "read");
        CHECK(run_until(edge_has_heard, found));
        CHECK(lives_find(&rig.control.lives, ids[1]) == LIST_ENTRY(rig.control.lives.all.next, struct life, node));
        edge_ask_signer(query, "read"); /* once more: found first */
        CHECK(run_until(edge_has_heard, found));
        edge_ask_signer(query, "write");
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        edge_ask_signer(query + 1, "read"); /* without its expiration */
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        edge_ask_signer("path=a+b", "read");
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        edge_ask_signer("path=%zz&signature=x", "read");
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        edge_ask_signer(NULL, "read");
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        edge.channel = channel_free(edge.channel);
}

static void edge_ask_bearer(const char *token)
{
        edge.log[0] = 0;
        (void)channel_send(edge.channel, json_pack("{s:s,s:i,s:s*}", "op", "token", "req", 9, "access_token", token),
                           NULL, 0);
}

static void a_token_is_of_the_sandbox_that_has_it(void)
{
        char ids[3][SANDBOX_ID_MAX], tokens[3][65], found[128];

        for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
                CHECK(create(BASE, ids[i]));
                (void)snprintf(tokens[i], sizeof(tokens[i]), "%s", text_at("envdAccessToken"));
        }
        CHECK(edge_start());
        for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
                (void)snprintf(found, sizeof(found), "\"id\":\"%s\",\"ok\":true,\"req\":9", ids[i]);
                edge_ask_bearer(tokens[i]);
                CHECK(run_until(edge_has_heard, found));
                CHECK(lives_find(&rig.control.lives, ids[i]) ==
                      LIST_ENTRY(rig.control.lives.all.next, struct life, node));
        }
        tokens[0][63] = tokens[0][63] == '0' ? '1' : '0';
        edge_ask_bearer(tokens[0]);
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        tokens[1][63] = 0;
        edge_ask_bearer(tokens[1]);
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        edge_ask_bearer("");
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        edge_ask_bearer(NULL);
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        edge.channel = channel_free(edge.channel);
}

static void nonsense_from_an_edge_is_answered(void)
{
        CHECK(edge_start());
        (void)channel_send(edge.channel, json_pack("{s:s,s:i}", "op", "dance", "req", 1), NULL, 0);
        CHECK(run_until(edge_has_heard, "\"kind\":\"invalid\""));
        (void)channel_send(edge.channel, json_pack("{s:s,s:i,s:i}", "op", "route", "req", 1, "id", 5), NULL, 0);
        run_rounds(20);
        edge.channel = channel_free(edge.channel);
        run_rounds(20);
        CHECK_INT(rig.control.routes.feed.edge_count, ==, 0);
}

/* ---- deadlines ---- */

static void a_deadline_ends_it_on_time(void)
{
        struct timer *t = &rig.control.lives.timer;
        char early[SANDBOX_ID_MAX], late[SANDBOX_ID_MAX];
        uint64_t due;

        CHECK(create("{\"templateID\":\"base\",\"timeout\":30}", late));
        CHECK(create("{\"templateID\":\"base\",\"timeout\":10}", early));
        CHECK(timer_is_armed(t));
        due = t->due_ms - clock_mono_ms();
        CHECK(due <= 10010 && due > 8000); /* the loop rounds up */
        rig.now_ns += 10 * S_NS - 1;
        t->on(t); /* as if the loop's clock were ahead */
        CHECK_INT(get(early), ==, 200);
        rig.now_ns += 1;
        t->on(t);
        CHECK_INT(get(early), ==, 404);
        CHECK(run_until(is_gone, early));
        CHECK(is_logged_kill(early) && !engine_lives(early));
        CHECK_INT(get(late), ==, 200);
        CHECK(timer_is_armed(t));
        rig.now_ns += 3600 * S_NS;
        t->on(t);
        CHECK(run_until(is_gone, late));
        CHECK(!timer_is_armed(t));
        CHECK_INT(row_count(), ==, 0);
}

static void a_short_deadline_needs_no_help(void)
{
        char id[SANDBOX_ID_MAX], path[64];

        CHECK(create(BASE, id));
        rig.now_ns += 60 * S_NS - 20000000; /* 20 ms before its end */
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/refreshes", id);
        CHECK_INT(ask("POST", path, "{\"duration\":0}"), ==, 204);
        rig.now_ns += 15 * S_NS + 20000000;
        timer_set(rig.loop, &rig.control.lives.timer, 1);
        CHECK(run_until(is_gone, id));
}

/* ---- a clock that is set ---- */

static const char *end_of(const char *id)
{
        return get(id) == 200 ? text_at("endAt") : "gone";
}

static void a_clock_that_is_set_moves_the_ends_along(void)
{
        struct timer *t = &rig.control.lives.timer;
        char first[SANDBOX_ID_MAX], second[SANDBOX_ID_MAX];

        CHECK(create("{\"templateID\":\"base\",\"timeout\":60}", first));
        CHECK(create("{\"templateID\":\"base\",\"timeout\":90}", second));
        CHECK_STR(end_of(first), "2026-09-21T14:14:20.000000Z");
        rig_set_clock(3600);
        t->on(t);
        CHECK_STR(end_of(first), "2026-09-21T15:14:20.000000Z");
        CHECK(t->due_ms - clock_mono_ms() <= 60010);
        rig_set_clock(-86400);
        rig.now_ns += 59 * S_NS;
        t->on(t);
        CHECK_STR(end_of(first), "2026-09-20T15:14:20.000000Z");
        control_stop(); /* on disk as well */
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK_STR(end_of(first), "2026-09-20T15:14:20.000000Z");
        rig.now_ns += S_NS;
        t->on(t);
        CHECK(run_until(is_gone, first));
        CHECK_INT(get(second), ==, 200);
        rig.now_ns += 30 * S_NS;
        t->on(t);
        CHECK(run_until(is_gone, second));
}

static void a_timeout_given_after_that_is_of_the_new_time(void)
{
        struct timer *t = &rig.control.lives.timer;
        char id[SANDBOX_ID_MAX], path[64];

        CHECK(create(BASE, id));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/timeout", id);
        rig_set_clock(7200);
        CHECK_INT(ask("POST", path, "{\"timeout\":100}"), ==, 204); /* before anybody has looked at the clock */
        t->on(t);
        CHECK_STR(end_of(id), "2026-09-21T16:15:00.000000Z");
        rig_set_clock(-7200);
        CHECK_INT(ask("POST", path, "{\"timeout\":10}"), ==, 204);
        CHECK_STR(end_of(id), "2026-09-21T14:13:30.000000Z");
        rig.now_ns += 10 * S_NS;
        t->on(t);
        CHECK(run_until(is_gone, id));
}

/* NTP keeps it right by a little at a time. */
static void a_clock_that_is_kept_right_moves_nothing(void)
{
        struct timer *t = &rig.control.lives.timer;
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        for (int i = 0; i < 100; i++) {
                rig.now_ns += S_NS / 10;
                rig.set_ns += S_NS / 50;
                t->on(t);
        }
        CHECK_STR(end_of(id), "2026-09-21T14:14:20.000000Z");
}

static void overdue_ones_end_right_after_a_restart(void)
{
        char id[SANDBOX_ID_MAX], other[SANDBOX_ID_MAX];

        CHECK(create("{\"templateID\":\"base\",\"timeout\":10}", id));
        CHECK(create("{\"templateID\":\"base\",\"timeout\":1000}", other));
        control_stop();
        rig.now_ns += 100 * S_NS;
        CHECK(control_start());
        CHECK(run_until(is_gone, id));
        CHECK(!engine_lives(id) && engine_lives(other));
        CHECK_INT(get(other), ==, 200);
        CHECK_INT(rig.control.lives.running, ==, 1);
}

/* ---- restarts ---- */

static void a_restart_of_control_keeps_them(void)
{
        char id[SANDBOX_ID_MAX], token[65];

        CHECK(create("{\"templateID\":\"base\",\"metadata\":{\"k\":\"v\"}}", id));
        (void)snprintf(token, sizeof(token), "%s", text_at("envdAccessToken"));
        control_stop();
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK_INT(get(id), ==, 200);
        CHECK_STR(text_at("envdAccessToken"), token);
        CHECK_STR(json_string_value(json_object_get(json_object_get(last.json, "metadata"), "k")), "v");
        CHECK(!is_logged_kill(id));
}

static void what_died_meanwhile_is_gone_after_a_restart(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        control_stop();
        (void)json_object_clear(engine.alive);
        CHECK(control_start() && edge_start());
        CHECK(run_until(engine_is_up, NULL));
        CHECK_INT(get(id), ==, 404);
        CHECK_INT(row_count(), ==, 0);
        CHECK(run_until(edge_has_heard, "\"event\":\"gone\""));
        edge.channel = channel_free(edge.channel);
}

/* Whoever made them, it was not this store. */
static void strangers_are_moved_aside(void)
{
        control_stop();
        (void)json_object_set_new(engine.alive, "i00000000000000000000", json_true());
        (void)json_object_set_new(engine.alive, "../strange", json_true());
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK(run_until(is_gone, "i00000000000000000000"));
        CHECK(json_object_get(engine.lost, "i00000000000000000000"));
        CHECK(!strstr(engine.log, "kill:") && !strstr(engine.log, ":../strange"));
}

static void an_unfinished_start_is_undone_after_a_crash(void)
{
        char *id;
        struct client c;
        char more[128], saved[64];

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", rig.key);
        engine.holds_create = true;
        client_send(&c, "POST", "/v2/sandboxes", more, BASE);
        CHECK(run_until(engine_has_logged, "create:"));
        id = strstr(engine.log, "create:") + 7;
        (void)snprintf(saved, sizeof(saved), "%.21s", id);
        CHECK_INT(row_count(), ==, 1); /* before the engine has done anything */
        client_close(&c);
        control_stop(); /* the row stays, and the engine finishes what it was told */
        (void)json_object_set_new(engine.alive, saved, json_true());
        engine.holds_create = false;
        CHECK(control_start());
        CHECK_INT(row_count(), ==, 1); /* it says what is to be ended */
        CHECK(run_until(engine_is_up, NULL) && run_until(is_gone, saved));
        CHECK(is_logged_kill(saved) && !engine_lives(saved));
        CHECK_INT(row_count(), ==, 0);
        CHECK_INT(json_object_size(engine.lost), ==, 0);
}

static void a_restart_of_the_engine_is_survived(void)
{
        char id[SANDBOX_ID_MAX], dead[SANDBOX_ID_MAX];

        CHECK(create(BASE, id) && create(BASE, dead));
        engine_stop();
        run_rounds(50);
        CHECK_INT(rig.control.engine.state, ==, ENGINE_DOWN);
        CHECK_INT(get(id), ==, 200);
        (void)json_object_del(engine.alive, dead);
        engine_start();
        CHECK(run_until(engine_is_up, NULL));
        CHECK_INT(get(id), ==, 200);
        CHECK_INT(get(dead), ==, 404);
        CHECK_INT(rig.control.keys.teams.next
                          ? LIST_ENTRY(rig.control.keys.teams.next, struct team, node)->sandbox_count
                          : 0,
                  ==, 1);
}

static void a_create_waits_for_an_engine_that_restarts(void)
{
        struct client c;
        char more[128];

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", rig.key);
        engine_stop();
        run_rounds(50);
        client_send(&c, "POST", "/v2/sandboxes", more, BASE);
        run_rounds(50);
        CHECK(!c.is_done);
        engine_start();
        CHECK(run_until(client_is_done, &c));
        CHECK_INT(c.status, ==, 201);
        client_close(&c);
}

static void a_create_lost_with_the_engine_is_503_and_undone(void)
{
        struct client c;
        char more[128], id[SANDBOX_ID_MAX];

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", rig.key);
        engine.holds_create = true;
        client_send(&c, "POST", "/v2/sandboxes", more, BASE);
        CHECK(run_until(engine_has_logged, "create:"));
        (void)snprintf(id, sizeof(id), "%.21s", strstr(engine.log, "create:") + 7);
        engine_stop();
        CHECK(run_until(client_is_done, &c));
        CHECK_INT(c.status, ==, 503);
        CHECK_STR(json_string_value(json_object_get(c.json, "message")),
                  "Failed to place sandbox: the engine went away before it answered");
        client_close(&c);
        (void)json_object_set_new(engine.alive, id, json_true()); /* it had been made after all */
        engine.holds_create = false;
        engine_start();
        CHECK(run_until(engine_is_up, NULL) && run_until(is_gone, id));
        CHECK(is_logged_kill(id) && !engine_lives(id));
        CHECK_INT(row_count(), ==, 0);
        CHECK_INT(json_object_size(engine.lost), ==, 0);
}

static void a_kill_lost_with_the_engine_is_repeated(void)
{
        char id[SANDBOX_ID_MAX], path[64], more[128];
        struct client c;

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", rig.key);
        CHECK(create(BASE, id));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        engine.holds_kill = true;
        client_send(&c, "DELETE", path, more, NULL);
        CHECK(run_until(engine_has_logged, "kill:"));
        engine_stop();
        run_rounds(50);
        CHECK(!c.is_done);
        engine.holds_kill = false;
        engine_start();
        CHECK(run_until(client_is_done, &c));
        CHECK_INT(c.status, ==, 204);
        CHECK(!engine_lives(id));
        client_close(&c);
}

static void a_kill_that_fails_is_reported_and_repeated(void)
{
        char id[SANDBOX_ID_MAX], path[64];

        CHECK(create(BASE, id));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        engine.fails_kill = true;
        engine.fail_kind = "internal";
        engine.fail_message = "stuck";
        CHECK_INT(ask("DELETE", path, NULL), ==, 500);
        CHECK(is_error(500, "stuck"));
        CHECK_INT(get(id), ==, 404);
        engine.fails_kill = false;
        CHECK(run_until(is_gone, id));
        CHECK(!engine_lives(id));
}

static void two_kills_join(void)
{
        char id[SANDBOX_ID_MAX], path[64], more[128], message[96];
        struct client a, b;

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", rig.key);
        CHECK(create(BASE, id));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        engine.holds_kill = true;
        client_send(&a, "DELETE", path, more, NULL);
        client_send(&b, "DELETE", path, more, NULL);
        CHECK(run_until(engine_has_logged, "kill:"));
        run_rounds(20);
        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        (void)snprintf(message, sizeof(message), "Sandbox \"%s\" is being killed", id);
        CHECK_INT(ask("POST", path, "{}"), ==, 409);
        CHECK(is_error(409, message));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/timeout", id);
        CHECK_INT(ask("POST", path, "{\"timeout\":1}"), ==, 409);
        engine_release();
        CHECK(run_until(client_is_done, &a) && run_until(client_is_done, &b));
        CHECK_INT(a.status, ==, 204);
        CHECK_INT(b.status, ==, 204);
        CHECK(!strstr(strstr(engine.log, "kill:") + 1, "kill:"));
        client_close(&a);
        client_close(&b);
}

static void a_death_is_noticed(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(edge_start());
        CHECK(create(BASE, id));
        (void)json_object_del(engine.alive, id);
        (void)channel_send(engine.channel, json_pack("{s:s,s:s}", "event", "exited", "id", id), NULL, 0);
        (void)channel_send(engine.channel, json_pack("{s:s,s:s}", "event", "exited", "id", "inone"), NULL, 0);
        (void)channel_send(engine.channel, json_pack("{s:s,s:i}", "event", "exited", "id", 3), NULL, 0);
        (void)channel_send(engine.channel, json_pack("{s:s,s:s}", "event", "dance", "id", id), NULL, 0);
        CHECK(run_until(is_gone, id));
        CHECK(run_until(edge_has_heard, "\"event\":\"gone\""));
        CHECK_INT(get(id), ==, 404);
        CHECK_INT(row_count(), ==, 0);
        CHECK(!is_logged_kill(id));
        edge.channel = channel_free(edge.channel);
}

/* ---- a store without room ---- */

static void a_full_store_starts_nothing_and_still_ends(void)
{
        char id[SANDBOX_ID_MAX], path[64], more[512];
        unsigned status = 201;

        CHECK(create(BASE, id));
        CHECK_INT(sqlite3_exec(rig.control.store->db, "PRAGMA max_page_count = 1", NULL, NULL, NULL), ==, SQLITE_OK);
        (void)snprintf(more, sizeof(more), "{\"templateID\":\"base\",\"metadata\":{\"k\":\"%0400d\"}}", 0);
        for (int i = 0; status == 201 && i < 200; i++)
                status = ask("POST", "/v2/sandboxes", more);
        CHECK_INT(status, ==, 507);
        CHECK_STR(text_at("error_code"), "sandbox_no_disk_space");
        CHECK_INT(row_count(), ==, json_object_size(engine.alive));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        CHECK_INT(ask("DELETE", path, NULL), ==, 204);
        CHECK(!engine_lives(id));
}

static int forbid_removal(bool yes)
{
        return sqlite3_exec(rig.control.store->db,
                            yes ? "CREATE TRIGGER no BEFORE DELETE ON sandbox BEGIN SELECT RAISE(FAIL, 'no'); END"
                                : "DROP TRIGGER no",
                            NULL, NULL, NULL);
}

static void a_row_that_cannot_be_removed_does_not_keep_its_sandbox(void)
{
        char id[SANDBOX_ID_MAX], other[SANDBOX_ID_MAX], path[64];

        CHECK(create(BASE, id) && create(BASE, other));
        CHECK_INT(forbid_removal(true), ==, SQLITE_OK);
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        CHECK_INT(ask("DELETE", path, NULL), ==, 204);
        CHECK(!engine_lives(id));
        CHECK_INT(ask("GET", path, NULL), ==, 404);
        CHECK_INT(row_count(), ==, 2);
        rig.control.lives.tidy.on(&rig.control.lives.tidy);
        CHECK_INT(row_count(), ==, 2);
        CHECK(timer_is_armed(&rig.control.lives.tidy));
        CHECK_INT(forbid_removal(false), ==, SQLITE_OK);
        rig.control.lives.tidy.on(&rig.control.lives.tidy);
        CHECK_INT(row_count(), ==, 1);
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", other);
        CHECK_INT(ask("GET", path, NULL), ==, 200);
}

/* ---- clients that leave ---- */

static void a_client_that_leaves_during_create_leaves_nothing(void)
{
        struct client c;
        char more[128], id[SANDBOX_ID_MAX];

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", rig.key);
        engine.holds_create = true;
        client_send(&c, "POST", "/v2/sandboxes", more, BASE);
        CHECK(run_until(engine_has_logged, "create:"));
        (void)snprintf(id, sizeof(id), "%.21s", strstr(engine.log, "create:") + 7);
        client_close(&c);
        run_rounds(50);
        engine_release();
        CHECK(run_until(is_gone, id));
        CHECK(is_logged_kill(id) && !engine_lives(id));
        CHECK_INT(row_count(), ==, 0);
}

static void a_client_that_leaves_before_the_engine_is_there_leaves_nothing(void)
{
        struct client c;
        char more[128];

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", rig.key);
        engine_stop();
        run_rounds(50);
        client_send(&c, "POST", "/v2/sandboxes", more, BASE);
        run_rounds(50);
        client_close(&c);
        run_rounds(50);
        CHECK_INT(row_count(), ==, 0);
        engine.log[0] = 0;
        engine_start();
        CHECK(run_until(engine_is_up, NULL));
        run_rounds(50);
        CHECK(!strstr(engine.log, "create"));
}

static void a_client_that_leaves_during_kill_changes_nothing(void)
{
        char id[SANDBOX_ID_MAX], path[64], more[128];
        struct client c;

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", rig.key);
        CHECK(create(BASE, id));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        engine.holds_kill = true;
        client_send(&c, "DELETE", path, more, NULL);
        CHECK(run_until(engine_has_logged, "kill:"));
        client_close(&c);
        run_rounds(50);
        engine_release();
        CHECK(run_until(is_gone, id));
}

/* ---- the first key ---- */

static void the_first_key_is_made_once(void)
{
        char path[96];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%s/store/first-key", rig.dir);
        CHECK_INT(stat(path, &st), ==, 0);
        CHECK_INT(st.st_mode & 0777, ==, 0600);
        CHECK(key_is_wellformed(str_of(rig.key)));
        CHECK(keys_find(&rig.control.keys, str_of(rig.key)));
        (void)unlink(path);
        control_stop();
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK(stat(path, &st) < 0);
        CHECK_INT(ask("GET", "/sandboxes", NULL), ==, 200);
}

static void a_prepared_key_is_finished_after_a_crash(void)
{
        char path[96], new_path[96];

        (void)snprintf(path, sizeof(path), "%s/store/first-key", rig.dir);
        (void)snprintf(new_path, sizeof(new_path), "%s/store/first-key.new", rig.dir);
        control_stop();
        CHECK_INT(rename(path, new_path), ==, 0); /* the store had it, the rename was not reached */
        CHECK(control_start());
        CHECK(read_key() && keys_find(&rig.control.keys, str_of(rig.key)));
        control_stop();
        write_file("store/first-key.new", "e2b_0000000000000000000000000000000000000000\n"); /* the store has it not */
        CHECK(control_start());
        CHECK(access(new_path, F_OK) < 0);
        CHECK(read_key() && keys_find(&rig.control.keys, str_of(rig.key)));
}

int main(void)
{
        RUN_IN_RIG(edges_are_told_and_may_ask);
        RUN_IN_RIG(routes_carry_token_and_mask);
        RUN_IN_RIG(a_signed_url_is_of_the_sandbox_whose_token_it_was_signed_with);
        RUN_IN_RIG(a_token_is_of_the_sandbox_that_has_it);
        RUN_IN_RIG(nonsense_from_an_edge_is_answered);
        RUN_IN_RIG(a_deadline_ends_it_on_time);
        RUN_IN_RIG(a_short_deadline_needs_no_help);
        RUN_IN_RIG(a_clock_that_is_set_moves_the_ends_along);
        RUN_IN_RIG(a_timeout_given_after_that_is_of_the_new_time);
        RUN_IN_RIG(a_clock_that_is_kept_right_moves_nothing);
        RUN_IN_RIG(overdue_ones_end_right_after_a_restart);
        RUN_IN_RIG(a_restart_of_control_keeps_them);
        RUN_IN_RIG(what_died_meanwhile_is_gone_after_a_restart);
        RUN_IN_RIG(strangers_are_moved_aside);
        RUN_IN_RIG(an_unfinished_start_is_undone_after_a_crash);
        RUN_IN_RIG(a_restart_of_the_engine_is_survived);
        RUN_IN_RIG(a_create_waits_for_an_engine_that_restarts);
        RUN_IN_RIG(a_create_lost_with_the_engine_is_503_and_undone);
        RUN_IN_RIG(a_kill_lost_with_the_engine_is_repeated);
        RUN_IN_RIG(a_kill_that_fails_is_reported_and_repeated);
        RUN_IN_RIG(two_kills_join);
        RUN_IN_RIG(a_death_is_noticed);
        RUN_IN_RIG(a_full_store_starts_nothing_and_still_ends);
        RUN_IN_RIG(a_row_that_cannot_be_removed_does_not_keep_its_sandbox);
        RUN_IN_RIG(a_client_that_leaves_during_create_leaves_nothing);
        RUN_IN_RIG(a_client_that_leaves_before_the_engine_is_there_leaves_nothing);
        RUN_IN_RIG(a_client_that_leaves_during_kill_changes_nothing);
        RUN_IN_RIG(the_first_key_is_made_once);
        RUN_IN_RIG(a_prepared_key_is_finished_after_a_crash);
        return tap_done();
}
