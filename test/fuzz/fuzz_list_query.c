#include "base/err.h"
#include "control/api/query.h"
#include "fuzz.h"

/* The token that leads behind a page must be taken back, in the order it was made for and in no other. */
static void tokens_must_come_back(const struct listing *l)
{
        struct sandbox s = {.started_ns = l->has_started_after ? l->started_after_ns : 0};
        char token[QUERY_TOKEN_MAX], query[QUERY_TOKEN_MAX + 32];
        struct listing next;

        sandbox_id_make(s.id);
        query_token_make(l, &s, token);
        (void)snprintf(query, sizeof(query), "order=%s&nextToken=%s", l->is_ascending ? "asc" : "desc", token);
        MUST(query_listing((struct str){query, strlen(query)}, "team", &next, NULL) == 0);
        MUST(next.after.is_set && next.after.started_ns == s.started_ns && strcmp(next.after.id, s.id) == 0);
        listing_done(&next);
        (void)snprintf(query, sizeof(query), "order=%s&nextToken=%s", l->is_ascending ? "desc" : "asc", token);
        MUST(query_listing((struct str){query, strlen(query)}, "team", &next, NULL) < 0);
}

static void snapshots_must_hold(struct str query)
{
        struct snapshot sn = {.id = "00000000-0000-4000-8000-000000000000"};
        char token[QUERY_TOKEN_MAX], next[200];
        struct snapshot_query q, again;
        struct err err = {0};

        if (query_snapshots(query, &q, &err) < 0) {
                MUST(err.kind == ERR_INVALID && err.msg[0]);
                return;
        }
        MUST(q.limit >= 1 && q.limit <= LISTING_LIMIT_MAX && q.after_ns >= 0);
        sn.created_ns = q.after_ns;
        query_snapshot_token(&sn, token);
        (void)snprintf(next, sizeof(next), "nextToken=%s", token);
        MUST(query_snapshots((struct str){next, strlen(next)}, &again, NULL) == 0);
        MUST(again.after_ns == sn.created_ns && strcmp(again.after_id, sn.id) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *copy = fuzz_copy(data, size);
        struct str query = {(const char *)copy, size};
        struct listing l;
        struct err err = {0};

        if (query_listing(query, "team", &l, &err) == 0) {
                MUST(l.limit >= 1 && l.limit <= LISTING_LIMIT_MAX);
                MUST(l.wants_running || l.wants_paused);
                MUST(!l.after.is_set || sandbox_id_is_valid(str_of(l.after.id)));
                tokens_must_come_back(&l);
                listing_done(&l);
        } else {
                MUST(err.kind == ERR_INVALID && err.msg[0]);
        }
        if (query_listing_v1(query, &l, &err) == 0)
                listing_done(&l);
        snapshots_must_hold(query);
        free(copy);
        return 0;
}
