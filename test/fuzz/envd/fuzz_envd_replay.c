#include "envd/process/replay.h"
#include "fuzz.h"

#define RINGS 3
#define OFFSET_MAX (256u << 10)

static uint8_t byte_at(int ring, uint64_t offset)
{
        return (uint8_t)((offset * 31 + (uint64_t)ring * 7) ^ offset >> 9);
}

struct ring {
        struct replay *r;
        struct replay_cursor reader;
        uint64_t total;
};

static void add(struct ring *g, int which, enum output_kind kind, size_t n)
{
        static uint8_t piece[OUTPUT_READ_MAX];

        if (n == 0 || g->total + n > OFFSET_MAX)
                return;
        for (size_t i = 0; i < n; i++)
                piece[i] = byte_at(which, g->total + i);
        replay_add(g->r, kind, piece, n);
        g->total += n;
}

static bool read_one(struct ring *g, int which)
{
        static uint8_t piece[OUTPUT_READ_MAX];
        uint64_t before = g->reader.offset, dropped;
        enum output_kind kind;
        size_t n = replay_next(g->r, &g->reader, piece, &kind, &dropped);

        MUST(g->reader.offset == before + dropped + n && g->reader.offset <= g->total);
        for (size_t i = 0; i < n; i++)
                MUST(piece[i] == byte_at(which, before + dropped + i));
        return n > 0;
}

/* Each two bytes are one step on one of three rings in a small pool. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct replay_pool pool;
        struct ring rings[RINGS] = {0};

        replay_pool_init(&pool, 16u << 10);
        for (int i = 0; i < RINGS; i++) {
                rings[i].r = replay_create(&pool);
                MUST(rings[i].r && replay_seek(rings[i].r, 0, &rings[i].reader) == 0);
        }
        for (size_t i = 0; i + 1 < size && i < 4096; i += 2) {
                int which = data[i] % RINGS;
                struct ring *g = &rings[which];

                switch (data[i] / RINGS % 5) {
                case 0: add(g, which, OUTPUT_STDOUT, data[i + 1]); break;
                case 1: add(g, which, OUTPUT_STDERR, (size_t)data[i + 1] * 16); break;
                case 2: (void)read_one(g, which); break;
                case 3: MUST(replay_seek(g->r, g->total * data[i + 1] / 255, &g->reader) == 0); break;
                case 4: replay_finish(g->r); break;
                }
                MUST(pool.used <= pool.max && g->r->offset == g->total);
        }
        for (int i = 0; i < RINGS; i++) {
                while (read_one(&rings[i], i))
                        ;
                MUST(rings[i].reader.offset == rings[i].total || rings[i].r->head_offset == rings[i].total);
                replay_unref(rings[i].r);
        }
        MUST(pool.used == 0);
        return 0;
}
