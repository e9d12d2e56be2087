/* GET /sandglass/sandboxes/{sandboxID}/events, …/end and /sandglass/sandboxes/ended: what happened to sandboxes, for the agent API. */
#include "control/api/handlers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/query.h"
#include "control/life/journal.h"
#include "control/life/lives.h"

#define ENDED_READ_MAX 512u /* ends that are read for one page, whether they match or not */
#define ALIVE_MS 15000u
#define EVENT_MAX 4096u

struct event_watch {
        struct api_exchange *x;
        struct journal_listener listener;
        struct timer alive; /* a comment now and then shows whether the client is there */
};

static void watch_over(struct api_exchange *x, bool is_complete)
{
        struct event_watch *w = x->job;

        (void)is_complete;
        journal_leave(&w->listener);
        timer_clear(&w->alive);
        free(w);
}

static void watch_write(struct event_watch *w, struct str bytes)
{
        (void)http_write(w->x->rq, bytes.p, bytes.n); /* a client that left is told by the end of the exchange */
        timer_set(w->x->api->loop, &w->alive, ALIVE_MS);
}

static void watch_is_silent(struct timer *t)
{
        watch_write(CONTAINER_OF(t, struct event_watch, alive), STR(": alive\n\n"));
}

static void watch_send(struct event_watch *w, const struct journal_event *e)
{
        AUTO_BUF struct buf out = BUF_INIT(EVENT_MAX);
        json_t *shown = journal_show(e);
        AUTO_FREE char *text = shown ? json_dumps(shown, JSON_COMPACT) : NULL;
        const char *name = json_string_value(json_object_get(shown, "event"));

        if (text && buf_addf(&out, "event: %s\nid: %" PRIu64 "\ndata: %s\n\n", name, e->no, text) == 0)
                watch_write(w, (struct str){(const char *)buf_at(&out), out.len});
        json_decref(shown);
        if (e->kind == JOURNAL_ENDED) {
                journal_leave(&w->listener);
                timer_clear(&w->alive);
                http_end(w->x->rq);
        }
}

static void watch_heard(struct journal_listener *l, const struct journal_event *e)
{
        watch_send(CONTAINER_OF(l, struct event_watch, listener), e);
}

/* What the client has not seen yet, as far as it is kept. */
static void watch_begin(struct event_watch *w)
{
        struct journal *j = &w->x->api->lives->journal;
        static const struct http_header no_store[] = {{"Cache-Control", "no-store"}, {NULL, NULL}};
        struct api_exchange *x = w->x;
        uint64_t seen = 0;

        (void)parse_u64(http1_value(x->rq->head, "Last-Event-ID"), 0, UINT64_MAX,
                        &seen); /* else from the first one on */
        if (seen >= j->next_no)
                seen = 0; /* of an earlier control */
        timer_clear(&x->overdue);
        http_start(x->rq, 200, "text/event-stream", no_store, -1);
        timer_set(x->api->loop, &w->alive, ALIVE_MS);
        LIST_EACH (at, &j->events) {
                const struct journal_event *e = LIST_ENTRY(at, struct journal_event, node);

                if (e->no > seen && e->team == x->team && strcmp(e->id, x->id) == 0)
                        watch_send(w, e);
        }
}

void handle_events(struct api_exchange *x)
{
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);
        struct event_watch *w;

        if (!(l && sandbox_is_visible(&l->sandbox)) && !journal_find_end(&x->api->lives->journal, x->id, x->team)) {
                answer_no_sandbox(x);
                return;
        }
        w = calloc(1, sizeof(*w));
        if (!w) {
                answer_error(x, 503, NULL, "out of memory");
                return;
        }
        w->x = x;
        w->alive.on = watch_is_silent;
        memcpy(w->listener.id, x->id, strlen(x->id) + 1);
        w->listener.team = x->team;
        w->listener.on = watch_heard;
        if (!journal_listen(&x->api->lives->journal, &w->listener)) {
                free(w);
                answer_error(x, 429, NULL, "too many clients watch sandboxes: %u at a time may, %u of one team",
                             JOURNAL_LISTENERS_MAX, JOURNAL_TEAM_LISTENERS_MAX);
                return;
        }
        x->job = w;
        x->on_over = watch_over;
        watch_begin(w);
}

void handle_end(struct api_exchange *x)
{
        const struct journal_event *e = journal_find_end(&x->api->lives->journal, x->id, x->team);

        if (e && e->shown)
                answer_json(x, 200, journal_show_end(e));
        else
                answer_no_sandbox(x);
}

/* ---- all that have ended ---- */

/* Not by a request, and not there again. */
static bool ended_is_listed(const struct api_exchange *x, const struct journal_event *e)
{
        const struct life *l;

        if (e->kind != JOURNAL_ENDED || e->team != x->team || !e->shown || strcmp(e->reason, "deleted") == 0)
                return false;
        l = lives_find_of(x->api->lives, e->id, x->team);
        return !(l && sandbox_is_visible(&l->sandbox));
}

/* The last end that was looked at, where more are left; NULL: none are. */
static const struct journal_event *ended_collect(const struct api_exchange *x, const struct page_query *q,
                                                 const json_t *metadata, json_t *list)
{
        const struct journal *j = &x->api->lives->journal;
        const struct journal_event *last = NULL;
        size_t looked = 0;

        for (const struct list *at = j->events.prev; at != &j->events; at = at->prev) {
                const struct journal_event *e = LIST_ENTRY(at, struct journal_event, node);
                json_t *shown;

                if ((q->after_id[0] && e->no >= (uint64_t)q->after_ns) || !ended_is_listed(x, e))
                        continue;
                if (looked == ENDED_READ_MAX || json_array_size(list) == q->limit)
                        return last;
                looked++;
                last = e;
                shown = journal_show_end(e);
                if (shown && listing_has_metadata(metadata, json_object_get(shown, "metadata")))
                        (void)json_array_append(list, shown);
                json_decref(shown);
        }
        return NULL;
}

/* A token between pages has the number of an event in place of a time. */
void handle_list_ended(struct api_exchange *x)
{
        struct http_header more[2] = {0};
        const struct journal_event *last;
        char token[QUERY_TOKEN_MAX];
        json_t *metadata, *list;
        struct page_query q;
        struct err err = {0};

        if (query_ended(x->rq->url.query, &q, &metadata, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        list = json_array();
        last = list ? ended_collect(x, &q, metadata, list) : NULL;
        json_decref(metadata);
        if (last) {
                query_page_token((int64_t)last->no, last->id, token);
                more[0] = (struct http_header){"X-Next-Token", token};
        }
        answer_json_with(x, 200, more, list);
}
