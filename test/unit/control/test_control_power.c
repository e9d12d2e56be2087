/* What the rows and the engine may say after a power cut, in every mixture that it may leave. */
#include "control_copy.h"

#include "store/db.h"

static bool boot_again(void)
{
        control_stop();
        engine.log[0] = 0;
        return control_start() && run_until(engine_is_up, NULL);
}

/* Its files are there, neither paused nor running. */
static void end_with_the_machine(const char *id, bool is_of_before)
{
        (void)json_object_set_new(engine.alive, id, json_pack("{s:s,s:b}", "state", "ended", "rebooted", is_of_before));
}

static bool engine_has_no_sandbox(void *arg)
{
        (void)arg;
        return json_object_size(engine.alive) == 0;
}

static bool set_row(const char *sql)
{
        return sqlite3_exec(rig.control.store->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static void one_that_ran_is_gone_with_a_reason_whatever_its_row_says(void)
{
        static const enum sandbox_state rows[] = {SANDBOX_PAUSED, SANDBOX_RESUMING, SANDBOX_RUNNING, SANDBOX_PAUSING,
                                                  SANDBOX_SNAPSHOTTING};

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char id[SANDBOX_ID_MAX], sql[128];

                CHECK(create(BASE, id) && pause_it(id) == 204);
                (void)snprintf(sql, sizeof(sql), "UPDATE sandbox SET state = %d, end_ns = end_ns + 60000000000",
                               (int)rows[i]);
                CHECK(set_row(sql));
                end_with_the_machine(id, true);
                CHECK(boot_again());
                CHECK_INT(connect_to(id, "{}"), ==, 404);
                CHECK(is_error(404, say("Sandbox \"%s\" is gone: it was running when the machine stopped", id)));
                CHECK_INT(ask("GET", path_of(id, ""), NULL), ==, 404);
                CHECK_INT(row_state(id), ==, SANDBOX_GONE);
                CHECK(run_until(nothing_is_left, NULL));
                CHECK(!strstr(engine.log, "kill:")); /* its files go after its row is gone on disk: "drop" */
        }
}

/* One that ended is listed so.  Of one that is not listed the files are not there: that ends nothing. */
static void one_whose_files_are_missing_in_the_middle_of_a_resume_is_kept(void)
{
        char id[SANDBOX_ID_MAX], sql[64];
        json_t *files;

        CHECK(create(BASE, id) && pause_it(id) == 204);
        (void)snprintf(sql, sizeof(sql), "UPDATE sandbox SET state = %d", (int)SANDBOX_RESUMING);
        CHECK(set_row(sql));
        files = json_incref(json_object_get(engine.alive, id));
        (void)json_object_del(engine.alive, id);
        CHECK(boot_again());
        CHECK_INT(connect_to(id, "{}"), ==, 404);
        CHECK_INT(row_state(id), ==, SANDBOX_PAUSED);
        CHECK(!strstr(engine.log, "drop"));
        (void)json_object_set_new(engine.alive, id, files);
        CHECK(boot_again());
        CHECK_INT(connect_to(id, "{}"), ==, 201);
}

static void one_that_ended_by_itself_has_no_such_reason(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        end_with_the_machine(id, false);
        CHECK(boot_again());
        CHECK_INT(connect_to(id, "{}"), ==, 404);
        CHECK(is_error(404, say("Sandbox \"%s\" doesn't exist or you don't have access to it", id)));
        CHECK(run_until(nothing_is_left, NULL));
}

static void what_ended_and_nobody_knows_is_dropped(void)
{
        end_with_the_machine("i00000000000000000000", true);
        CHECK(boot_again());
        CHECK(run_until(engine_has_no_sandbox, NULL));
        CHECK(!strstr(engine.log, "kill:"));
}

static void the_files_of_one_that_ends_are_dropped_when_its_row_is_gone(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        end_with_the_machine(id, false);
        (void)channel_send(engine.channel, json_pack("{s:s,s:s}", "event", "exited", "id", id), NULL, 0);
        CHECK(run_until(engine_has_no_sandbox, NULL));
        CHECK_INT(row_state(id), ==, SANDBOX_GONE);
}

static void the_files_of_one_that_ends_and_has_no_row_are_dropped(void)
{
        end_with_the_machine("i00000000000000000000", false);
        (void)channel_send(engine.channel, json_pack("{s:s,s:s}", "event", "exited", "id", "i00000000000000000000"),
                           NULL, 0);
        CHECK(run_until(engine_has_no_sandbox, NULL));
}

/* All it is made of is in the row: layers and checkpoint.  What had begun on a new upper directory goes. */
static void one_on_a_new_upper_directory_is_paused_as_before(void)
{
        static const enum sandbox_state rows[] = {SANDBOX_PAUSED, SANDBOX_RESUMING};

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char id[SANDBOX_ID_MAX], copy[SANDBOX_ID_MAX], sql[128];

                CHECK(create(BASE, id) && pause_it(id) == 204);
                CHECK_INT(fork_it(id, "{\"count\":1}"), ==, 201);
                (void)snprintf(copy, sizeof(copy), "%s", forked(0));
                CHECK_INT(ask("DELETE", path_of(copy, ""), NULL), ==, 204);
                (void)snprintf(sql, sizeof(sql), "UPDATE sandbox SET state = %d", (int)rows[i]);
                CHECK(set_row(sql));
                end_with_the_machine(id, true);
                CHECK(boot_again());
                CHECK(run_until(engine_has_logged, "kill:"));
                CHECK(until(id, SANDBOX_PAUSED));
                CHECK_STR(shown(id, "state"), "paused");
                CHECK_INT(connect_to(id, "{}"), ==, 201);
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                CHECK(run_until(nothing_is_left, NULL));
        }
}

/* The link is lost before the files in the way are removed, or before control knows that they are: they are removed all the
 * same, and the sandbox can be resumed. */
static void files_in_the_way_are_removed_although_the_link_is_lost(void)
{
        for (int done = 0; done < 2; done++) {
                char id[SANDBOX_ID_MAX], copy[SANDBOX_ID_MAX];

                CHECK(create(BASE, id) && pause_it(id) == 204);
                CHECK_INT(fork_it(id, "{\"count\":1}"), ==, 201);
                (void)snprintf(copy, sizeof(copy), "%s", forked(0));
                CHECK_INT(ask("DELETE", path_of(copy, ""), NULL), ==, 204);
                end_with_the_machine(id, true);
                *(done ? &engine.dies_on : &engine.dies_before) = "kill";
                CHECK(boot_again());
                CHECK(until(id, SANDBOX_PAUSED));
                CHECK(!engine.dies_on && !engine.dies_before && !engine_lives(id));
                CHECK_INT(row_state(id), ==, SANDBOX_PAUSED);
                CHECK_INT(connect_to(id, "{}"), ==, 201);
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                CHECK(run_until(nothing_is_left, NULL));
        }
}

/* The engine knows that it had been resumed: its memory is used up, and the row says RESUMING. */
static void memory_that_is_used_up_is_used_up_for_the_row_too(void)
{
        char id[SANDBOX_ID_MAX], sql[80];

        CHECK(create(BASE, id) && pause_it(id) == 204);
        (void)snprintf(sql, sizeof(sql), "UPDATE sandbox SET state = %d", (int)SANDBOX_RESUMING);
        CHECK(set_row(sql));
        (void)json_object_del(json_object_get(engine.alive, id), "checkpoint");
        CHECK(boot_again());
        CHECK_STR(shown(id, "state"), "paused");
        CHECK_INT(connect_to(id, "{}"), ==, 201);
}

/* ---- the order, while there is power ---- */

static bool is_flushed_before_killed(void *arg)
{
        (void)arg;
        return engine_has_logged("kill:");
}

/* No flush of the store comes through: neither does the order to remove files. */
static void files_of_one_that_was_paused_go_after_its_row(void)
{
        static const char *const how[] = {"paused", "resumed"};

        for (size_t i = 0; i < ARRAY_LEN(how); i++) {
                char id[SANDBOX_ID_MAX];
                struct client a;

                CHECK(create(BASE, id) && pause_it(id) == 204);
                if (i == 1)
                        CHECK_INT(connect_to(id, "{}"), ==, 201);
                engine.log[0] = 0;
                rig.control.durable.is_busy = true; /* as if one were under way */
                start(&a, "DELETE", path_of(id, ""), NULL);
                CHECK(until(id, SANDBOX_KILLING));
                run_rounds(20);
                CHECK(!strstr(engine.log, "kill:"));
                rig.control.durable.is_busy = false;
                loop_post(rig.control.loop, &rig.control.durable.go);
                CHECK(run_until(is_flushed_before_killed, NULL));
                CHECK(run_until(client_is_done, &a));
                CHECK_INT(a.status, ==, 204);
                client_close(&a);
                CHECK(run_until(nothing_is_left, NULL));
        }
}

int main(void)
{
        RUN_IN_RIG(one_that_ran_is_gone_with_a_reason_whatever_its_row_says);
        RUN_IN_RIG(one_whose_files_are_missing_in_the_middle_of_a_resume_is_kept);
        RUN_IN_RIG(one_that_ended_by_itself_has_no_such_reason);
        RUN_IN_RIG(what_ended_and_nobody_knows_is_dropped);
        RUN_IN_RIG(the_files_of_one_that_ends_and_has_no_row_are_dropped);
        RUN_IN_RIG(the_files_of_one_that_ends_are_dropped_when_its_row_is_gone);
        RUN_IN_RIG(one_on_a_new_upper_directory_is_paused_as_before);
        RUN_IN_RIG(files_in_the_way_are_removed_although_the_link_is_lost);
        RUN_IN_RIG(memory_that_is_used_up_is_used_up_for_the_row_too);
        RUN_IN_RIG(files_of_one_that_was_paused_go_after_its_row);
        return tap_done();
}
