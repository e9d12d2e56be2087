/* What happened to sandboxes lately. */
#include "base/auto.h"
#include "control/access/keys.h"
#include "control/life/journal.h"
#include "io/loop.h"
#include "model/request/create_request.h"
#include "tap.h"

#define ID "i0123456789abcdefghij"
#define OTHER "i9876543210abcdefghij"

struct rig {
        struct loop *loop;
        struct journal journal;
        struct team team, stranger;
        struct journal_listener listener;
        enum journal_kind heard[8];
        size_t heard_count;
};

static void rig_heard(struct journal_listener *l, const struct journal_event *e)
{
        struct rig *rig = CONTAINER_OF(l, struct rig, listener);

        if (rig->heard_count < ARRAY_LEN(rig->heard))
                rig->heard[rig->heard_count++] = e->kind;
        if (e->kind == JOURNAL_ENDED)
                journal_leave(l);
}

static void rig_open(struct rig *rig)
{
        *rig = (struct rig){.listener = {.id = ID, .on = rig_heard}};
        (void)loop_create(&rig->loop);
        journal_init(&rig->journal, rig->loop);
        rig->listener.team = &rig->team;
        journal_listen(&rig->journal, &rig->listener);
}

static void rig_close(struct rig *rig)
{
        journal_leave(&rig->listener);
        journal_done(&rig->journal);
        rig->loop = loop_free(rig->loop);
}

static void note(struct rig *rig, const char *id, enum sandbox_state before, enum sandbox_state now, const char *why)
{
        struct sandbox s = {.state = now, .started_ns = 1000000000};

        memcpy(s.id, id, sizeof(s.id));
        journal_note(&rig->journal, &s, &rig->team, before, why, 2000000000);
}

static void changes_become_events(void)
{
        static const enum journal_kind want[] = {JOURNAL_CREATED, JOURNAL_COPIED,      JOURNAL_PAUSED,
                                                 JOURNAL_RESUMED, JOURNAL_ROLLED_BACK, JOURNAL_ENDED};
        struct rig rig;

        rig_open(&rig);
        note(&rig, ID, SANDBOX_STARTING, SANDBOX_RUNNING, NULL);
        note(&rig, OTHER, SANDBOX_STARTING, SANDBOX_RUNNING, NULL);
        note(&rig, ID, SANDBOX_RUNNING, SANDBOX_COPYING, NULL);
        note(&rig, ID, SANDBOX_COPYING, SANDBOX_RUNNING, NULL);
        note(&rig, ID, SANDBOX_RUNNING, SANDBOX_PAUSING, NULL);
        note(&rig, ID, SANDBOX_PAUSING, SANDBOX_RUNNING, NULL); /* it could not be paused */
        note(&rig, ID, SANDBOX_PAUSING, SANDBOX_PAUSED, NULL);
        note(&rig, ID, SANDBOX_PAUSED, SANDBOX_RESUMING, NULL);
        note(&rig, ID, SANDBOX_RESUMING, SANDBOX_PAUSED, NULL); /* nor resumed */
        note(&rig, ID, SANDBOX_RESUMING, SANDBOX_RUNNING, NULL);
        note(&rig, ID, SANDBOX_ROLLING_BACK, SANDBOX_RUNNING, NULL);
        note(&rig, ID, SANDBOX_RUNNING, SANDBOX_KILLING, "deleted");
        note(&rig, ID, SANDBOX_KILLING, SANDBOX_GONE, NULL); /* the same end */
        CHECK_INT(rig.heard_count, ==, ARRAY_LEN(want));
        for (size_t i = 0; i < ARRAY_LEN(want); i++)
                CHECK_INT(rig.heard[i], ==, want[i]);
        rig_close(&rig);
}

static void ends_are_told_to_their_team(void)
{
        const struct journal_event *e;
        struct rig rig;
        json_t *shown;

        rig_open(&rig);
        note(&rig, ID, SANDBOX_RUNNING, SANDBOX_GONE, "exited");
        note(&rig, OTHER, SANDBOX_RUNNING, SANDBOX_KILLING, NULL);
        e = journal_find_end(&rig.journal, ID, &rig.team);
        CHECK(e && strcmp(e->reason, "exited") == 0);
        shown = journal_show_end(e);
        CHECK_STR(json_string_value(json_object_get(shown, "endedAt")), "1970-01-01T00:00:02.000000Z");
        json_decref(shown);
        shown = journal_show(e);
        CHECK_STR(json_string_value(json_object_get(shown, "event")), "ended");
        CHECK_STR(json_string_value(json_object_get(shown, "reason")), "exited");
        json_decref(shown);
        CHECK(!journal_find_end(&rig.journal, ID, &rig.stranger));
        CHECK_STR(journal_find_end(&rig.journal, OTHER, &rig.team)->reason, "failed");
        CHECK(!journal_find_end(&rig.journal, "inever", &rig.team));
        rig_close(&rig);
}

static void only_the_newest_are_kept(void)
{
        struct rig rig;

        rig_open(&rig);
        note(&rig, ID, SANDBOX_RUNNING, SANDBOX_KILLING, "deleted");
        for (size_t i = 0; i < JOURNAL_MAX; i++)
                note(&rig, OTHER, SANDBOX_STARTING, SANDBOX_RUNNING, NULL);
        CHECK_INT(rig.journal.count, ==, JOURNAL_MAX);
        CHECK(!journal_find_end(&rig.journal, ID, &rig.team));
        rig_close(&rig);
}

/* As many bytes as metadata may have. */
static json_t *large_metadata(void)
{
        static char value[CREATE_METADATA_MAX];

        memset(value, 'v', sizeof(value) - 2);
        return json_pack("{s:s}", "k", value);
}

static void few_of_those_with_much_metadata_are_kept(void)
{
        struct sandbox s = {.state = SANDBOX_KILLING, .id = OTHER, .metadata = large_metadata()};
        const struct journal_event *e;
        struct rig rig;
        json_t *shown;

        rig_open(&rig);
        note(&rig, ID, SANDBOX_RUNNING, SANDBOX_KILLING, "deleted");
        for (size_t i = 0; i < 2 * JOURNAL_BYTES_MAX / CREATE_METADATA_MAX; i++) {
                journal_note(&rig.journal, &s, &rig.team, SANDBOX_RUNNING, "deleted", 2000000000);
                CHECK(rig.journal.bytes <= JOURNAL_BYTES_MAX);
        }
        CHECK(rig.journal.bytes > JOURNAL_BYTES_MAX / 2);
        CHECK(!journal_find_end(&rig.journal, ID, &rig.team)); /* the oldest go */
        e = journal_find_end(&rig.journal, OTHER, &rig.team);
        shown = e ? journal_show_end(e) : NULL;
        CHECK(json_equal(json_object_get(shown, "metadata"), s.metadata));
        json_decref(shown);
        json_decref(s.metadata);
        rig_close(&rig);
}

static void one_team_cannot_take_all_listeners(void)
{
        static struct journal_listener many[JOURNAL_LISTENERS_MAX + 1];
        struct team teams[JOURNAL_LISTENERS_MAX / JOURNAL_TEAM_LISTENERS_MAX] = {0};
        struct journal_listener late = {.id = ID, .on = rig_heard};
        struct rig rig;
        size_t n = 0;

        rig_open(&rig);
        journal_leave(&rig.listener);
        memset(many, 0, sizeof(many));
        for (size_t t = 0; t < ARRAY_LEN(teams); t++) {
                for (size_t i = 0; i < JOURNAL_TEAM_LISTENERS_MAX; i++, n++) {
                        many[n].team = &teams[t];
                        if (!journal_listen(&rig.journal, &many[n]))
                                break;
                }
                CHECK_INT(n, ==, (t + 1) * JOURNAL_TEAM_LISTENERS_MAX);
                late.team = &teams[t];
                CHECK(!journal_listen(&rig.journal, &late));
        }
        CHECK_INT(n, ==, JOURNAL_LISTENERS_MAX);
        late.team = &rig.stranger; /* which has none */
        CHECK(!journal_listen(&rig.journal, &late));
        journal_leave(&many[0]);
        CHECK(journal_listen(&rig.journal, &late));
        for (size_t i = 0; i < n; i++)
                journal_leave(&many[i]);
        journal_leave(&late);
        rig_close(&rig);
}

int main(void)
{
        RUN(changes_become_events);
        RUN(ends_are_told_to_their_team);
        RUN(only_the_newest_are_kept);
        RUN(few_of_those_with_much_metadata_are_kept);
        RUN(one_team_cannot_take_all_listeners);
        return tap_done();
}
