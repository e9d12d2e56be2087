#include "envd/process/replay.h"

#include <errno.h>
#include <string.h>

#define CAP_MIN 512u
#define MEMORY_PART 32 /* one part in so many of the sandbox's memory */

struct replay_record {
        uint32_t kind, length; /* then the bytes */
};

void replay_pool_init(struct replay_pool *pool, size_t max)
{
        *pool = (struct replay_pool){.max = max};
        list_init(&pool->live);
        list_init(&pool->ended);
}

void replay_pool_limit(struct replay_pool *pool, uint64_t memory_bytes)
{
        if (memory_bytes && memory_bytes / MEMORY_PART < pool->max)
                pool->max = (size_t)(memory_bytes / MEMORY_PART);
}

/* The ring */

static void ring_get(const struct replay *r, uint64_t place, void *to, size_t n)
{
        size_t at = place % r->cap, first = n < r->cap - at ? n : r->cap - at;

        memcpy(to, r->mem + at, first);
        memcpy((uint8_t *)to + first, r->mem, n - first);
}

static void ring_put(struct replay *r, uint64_t place, const void *from, size_t n)
{
        size_t at = place % r->cap, first = n < r->cap - at ? n : r->cap - at;

        memcpy(r->mem + at, from, first);
        memcpy(r->mem, (const uint8_t *)from + first, n - first);
}

static struct replay_record replay_record_at(const struct replay *r, uint64_t place)
{
        struct replay_record rec;

        ring_get(r, place, &rec, sizeof(rec));
        return rec;
}

static void replay_drop_oldest(struct replay *r)
{
        struct replay_record rec = replay_record_at(r, r->head);

        r->head += sizeof(rec) + rec.length;
        r->head_offset += rec.length;
}

static void replay_drop_all(struct replay *r)
{
        r->head = r->tail;
        r->head_offset = r->offset;
        r->pool->used -= r->cap;
        r->cap = 0;
        free(TAKE_PTR(r->mem));
}

/* Another size, keeping the newest records that fit.  -ENOMEM: nothing has changed. */
static int replay_resize(struct replay *r, size_t cap)
{
        struct replay to = *r;

        if (cap == 0) {
                replay_drop_all(r);
                return 0;
        }
        to.mem = malloc(cap);
        if (!to.mem)
                return -ENOMEM;
        to.cap = cap;
        while (r->tail - r->head > cap)
                replay_drop_oldest(r);
        to.head = r->head;
        to.head_offset = r->head_offset;
        for (uint64_t at = r->head; at < r->tail;) { /* in stretches that lie in one piece in the old ring */
                size_t from = at % r->cap, n = r->cap - from;

                if (n > r->tail - at)
                        n = (size_t)(r->tail - at);
                ring_put(&to, at, r->mem + from, n);
                at += n;
        }
        r->pool->used += cap;
        r->pool->used -= r->cap;
        free(r->mem);
        *r = to;
        return 0;
}

/* Room in the pool */

static struct replay *replay_pool_largest(const struct replay_pool *pool)
{
        struct replay *found = NULL;

        LIST_EACH (at, &pool->live) {
                struct replay *r = LIST_ENTRY(at, struct replay, node);

                if (!found || r->cap > found->cap)
                        found = r;
        }
        return found;
}

static bool replay_pool_empty_ended(struct replay_pool *pool) /* empties the oldest one that nobody is reading */
{
        LIST_EACH (at, &pool->ended) {
                struct replay *r = LIST_ENTRY(at, struct replay, node);

                if (r->refs == 1 && r->cap > 0) {
                        replay_drop_all(r);
                        return true;
                }
        }
        return false;
}

static bool replay_pool_make_room(struct replay *r, size_t cap)
{
        struct replay_pool *pool = r->pool;

        while (pool->used - r->cap + cap > pool->max) {
                struct replay *big;

                if (replay_pool_empty_ended(pool))
                        continue;
                big = replay_pool_largest(pool);
                if (!big || big == r || big->cap <= cap || replay_resize(big, big->cap / 2) < 0)
                        return false;
        }
        return true;
}

/* Make n more bytes fit, without dropping records if possible. */
static void replay_grow(struct replay *r, size_t n)
{
        uint64_t need = r->tail - r->head + n;
        size_t cap = r->cap ? r->cap : CAP_MIN;

        while (cap < need && cap < REPLAY_MAX)
                cap *= 2;
        if (cap > r->cap && replay_pool_make_room(r, cap))
                (void)replay_resize(r, cap);
}

/* Creating, filling, releasing */

struct replay *replay_create(struct replay_pool *pool)
{
        struct replay *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        *r = (struct replay){.pool = pool, .refs = 1};
        list_push_back(&pool->live, &r->node);
        return r;
}

struct replay *replay_ref(struct replay *r)
{
        r->refs++;
        return r;
}

void replay_unref(struct replay *r)
{
        if (!r || --r->refs)
                return;
        replay_drop_all(r);
        list_remove(&r->node);
        free(r);
}

static bool replay_extend_last(struct replay *r, enum output_kind kind, const void *p, size_t n)
{
        struct replay_record rec;

        if (r->head == r->tail)
                return false;
        rec = replay_record_at(r, r->last);
        if (rec.kind != (uint32_t)kind || rec.length + n > OUTPUT_READ_MAX)
                return false;
        while (r->tail - r->head + n > r->cap) {
                if (r->head == r->last)
                        return false;
                replay_drop_oldest(r);
        }
        rec.length += (uint32_t)n;
        ring_put(r, r->last, &rec, sizeof(rec));
        ring_put(r, r->tail, p, n);
        r->tail += n;
        r->offset += n;
        return true;
}

void replay_add(struct replay *r, enum output_kind kind, const void *p, size_t n)
{
        struct replay_record rec = {.kind = (uint32_t)kind, .length = (uint32_t)n};

        if (r->tail - r->head + sizeof(rec) + n > r->cap && r->cap < REPLAY_MAX)
                replay_grow(r, sizeof(rec) + n);
        if (replay_extend_last(r, kind, p, n))
                return;
        while (r->head < r->tail && r->tail - r->head + sizeof(rec) + n > r->cap)
                replay_drop_oldest(r);
        if (sizeof(rec) + n > r->cap) { /* no memory: the bytes count as dropped */
                r->offset += n;
                r->head_offset = r->offset;
                return;
        }
        r->last = r->tail;
        ring_put(r, r->tail, &rec, sizeof(rec));
        ring_put(r, r->tail + sizeof(rec), p, n);
        r->tail += sizeof(rec) + n;
        r->offset += n;
}

void replay_finish(struct replay *r)
{
        (void)replay_resize(r, (size_t)(r->tail - r->head)); /* without memory the ring keeps its size */
        list_remove(&r->node);
        list_push_back(&r->pool->ended, &r->node);
}

/* Reading */

int replay_seek(const struct replay *r, uint64_t offset, struct replay_cursor *c)
{
        if (offset > r->offset)
                return -ERANGE;
        *c = (struct replay_cursor){.offset = offset, .place = r->head, .place_offset = r->head_offset};
        return 0;
}

size_t replay_next(const struct replay *r, struct replay_cursor *c, uint8_t *out, enum output_kind *ret_kind,
                   uint64_t *ret_dropped)
{
        *ret_dropped = 0;
        if (c->place < r->head || c->place_offset < r->head_offset) {
                c->place = r->head;
                c->place_offset = r->head_offset;
        }
        if (c->offset < r->head_offset) {
                *ret_dropped = r->head_offset - c->offset;
                c->offset = r->head_offset;
        }
        while (c->place < r->tail) {
                struct replay_record rec = replay_record_at(r, c->place);
                size_t skip = (size_t)(c->offset - c->place_offset), n;

                if (skip < rec.length) {
                        n = rec.length - skip;
                        ring_get(r, c->place + sizeof(rec) + skip, out, n);
                        *ret_kind = (enum output_kind)rec.kind;
                        c->offset += n;
                        return n;
                }
                if (c->place + sizeof(rec) + rec.length == r->tail)
                        return 0; /* stay at the newest record: it may become longer */
                c->place += sizeof(rec) + rec.length;
                c->place_offset += rec.length;
        }
        return 0;
}
