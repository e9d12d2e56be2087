#include "control/life/journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/json_field.h"

static void journal_drop(struct journal *j, struct journal_event *e)
{
        list_remove(&e->node);
        j->count--;
        j->bytes -= e->bytes;
        free(e->shown);
        free(e);
}

static void journal_sweep(struct timer *t)
{
        struct journal *j = CONTAINER_OF(t, struct journal, sweep);
        uint64_t now = clock_mono_ms();

        while (!list_is_empty(&j->events)) {
                struct journal_event *e = LIST_ENTRY(j->events.next, struct journal_event, node);
                uint64_t due = e->kept_since_ms + JOURNAL_KEEP_MS;

                if (due > now) {
                        timer_set(j->loop, t, due - now);
                        return;
                }
                journal_drop(j, e);
        }
}

void journal_init(struct journal *j, struct loop *loop)
{
        *j = (struct journal){.loop = loop, .next_no = 1, .sweep.on = journal_sweep};
        list_init(&j->events);
        list_init(&j->listeners);
}

void journal_done(struct journal *j)
{
        timer_clear(&j->sweep);
        while (j->events.next && !list_is_empty(&j->events))
                journal_drop(j, LIST_ENTRY(j->events.next, struct journal_event, node));
}

/* What the change is to those who watch; false: nothing. */
static bool journal_kind_of(enum sandbox_state before, enum sandbox_state now, enum journal_kind *ret)
{
        if (now == SANDBOX_KILLING || (now == SANDBOX_GONE && before != SANDBOX_KILLING))
                *ret = JOURNAL_ENDED;
        else if (now == SANDBOX_PAUSED && before == SANDBOX_PAUSING)
                *ret = JOURNAL_PAUSED;
        else if (now != SANDBOX_RUNNING)
                return false;
        else if (before == SANDBOX_STARTING)
                *ret = JOURNAL_CREATED;
        else if (before == SANDBOX_RESUMING)
                *ret = JOURNAL_RESUMED;
        else if (before == SANDBOX_COPYING || before == SANDBOX_SNAPSHOTTING)
                *ret = JOURNAL_COPIED;
        else if (before == SANDBOX_ROLLING_BACK)
                *ret = JOURNAL_ROLLED_BACK;
        else
                return false;
        return true;
}

static json_t *journal_show_sandbox(const struct sandbox *s, int64_t now_ns)
{
        char started[CLOCK_TEXT_MAX], ended[CLOCK_TEXT_MAX];
        json_t *obj;

        clock_format(s->started_ns, started);
        clock_format(now_ns, ended);
        obj = json_pack("{s:s,s:s,s:s,s:s}", "sandboxID", s->id, "templateID", s->template_id, "startedAt", started,
                        "endedAt", ended);
        obj = json_with_text(obj, "alias", s->alias);
        return json_with_ref(obj, "metadata", s->metadata);
}

/* As text: of that, the size is known. */
static char *journal_write_end(const struct sandbox *s, const char *reason, int64_t now_ns)
{
        json_t *obj = json_with_text(journal_show_sandbox(s, now_ns), "reason", reason);
        char *text = obj ? json_dumps(obj, JSON_COMPACT) : NULL;

        json_decref(obj);
        return text;
}

void journal_note(struct journal *j, const struct sandbox *s, const struct team *t, enum sandbox_state before,
                  const char *why, int64_t now_ns)
{
        enum journal_kind kind;
        struct journal_event *e;

        if (!journal_kind_of(before, s->state, &kind))
                return;
        e = calloc(1, sizeof(*e));
        if (!e)
                return; /* those who watch miss it */
        *e = (struct journal_event){
                .no = j->next_no++, .team = t, .kind = kind, .at_ns = now_ns, .kept_since_ms = clock_mono_ms()};
        memcpy(e->id, s->id, sizeof(e->id));
        if (kind == JOURNAL_ENDED) {
                e->reason = why ? why : "failed";
                e->shown = journal_write_end(s, e->reason, now_ns);
        }
        e->bytes = sizeof(*e) + (e->shown ? strlen(e->shown) + 1 : 0);
        list_push_back(&j->events, &e->node);
        j->bytes += e->bytes;
        j->count++;
        while (j->count > JOURNAL_MAX || j->bytes > JOURNAL_BYTES_MAX) /* one event alone is far below that */
                journal_drop(j, LIST_ENTRY(j->events.next, struct journal_event, node));
        if (!timer_is_armed(&j->sweep))
                timer_set(j->loop, &j->sweep, JOURNAL_KEEP_MS);
        LIST_EACH (at, &j->listeners) {
                struct journal_listener *l = LIST_ENTRY(at, struct journal_listener, node);

                if (l->team == t && strcmp(l->id, e->id) == 0)
                        l->on(l, e);
        }
}

const struct journal_event *journal_find_end(const struct journal *j, const char *id, const struct team *t)
{
        LIST_EACH (at, &j->events) {
                const struct journal_event *e = LIST_ENTRY(at, struct journal_event, node);

                if (e->kind == JOURNAL_ENDED && e->team == t && strcmp(e->id, id) == 0)
                        return e;
        }
        return NULL;
}

json_t *journal_show_end(const struct journal_event *e)
{
        return e->shown ? json_loads(e->shown, JSON_ALLOW_NUL, NULL) : NULL;
}

json_t *journal_show(const struct journal_event *e)
{
        static const char *const names[] = {
                [JOURNAL_CREATED] = "created", [JOURNAL_PAUSED] = "paused",           [JOURNAL_RESUMED] = "resumed",
                [JOURNAL_COPIED] = "copied",   [JOURNAL_ROLLED_BACK] = "rolled_back", [JOURNAL_ENDED] = "ended",
        };
        char at[CLOCK_TEXT_MAX];

        clock_format(e->at_ns, at);
        return json_with_text(json_pack("{s:s,s:s,s:s}", "event", names[e->kind], "at", at, "sandbox_id", e->id),
                              "reason", e->reason);
}

bool journal_listen(struct journal *j, struct journal_listener *l)
{
        size_t all = 0, team = 0;

        LIST_EACH (at, &j->listeners) {
                all++;
                team += LIST_ENTRY(at, struct journal_listener, node)->team == l->team;
        }
        if (all >= JOURNAL_LISTENERS_MAX || team >= JOURNAL_TEAM_LISTENERS_MAX)
                return false;
        list_push_back(&j->listeners, &l->node);
        return true;
}

void journal_leave(struct journal_listener *l)
{
        list_remove(&l->node);
}
