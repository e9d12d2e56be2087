#include "edge/limits/limits.h"

#include "base/clock.h"

const struct edge_limits edge_limits_default = {
        .head_timeout_ms = 10000,
        .idle_timeout_ms = 620000,
        .wait_timeout_ms = 5000,
        .route_timeout_ms = 60000,
        .resume_timeout_ms = 90000,
        .dial_timeout_ms = 30000,
        .port_timeout_ms = 1000,
        .drain_timeout_ms = 5000,
        .half_timeout_ms = 30000,
        .stop_timeout_ms = 5000,
        .idle_ours_ms = 60000,
        .idle_users_ms = 1000,
        .clients_max = 32768,
        .idle_total_max = 4096,
        .idle_sandbox_max = 64,
        .idle_api_max = 64,
        .routes_max = 65536,
        .asking_max = 1024,
        .resumes_max = 1024,
        .resume_waiters_max = 4096,
        .waiters_max = 16384,
        .signed_urls = {.asked_max = 64, .unowned_burst = 50, .unowned_per_s = 20},
        .tokens = {.asked_max = 1024, .unowned_burst = 1000, .unowned_per_s = 500},
        .dials_max = 4096,
        .port_waiters_max = 64,
        .interim_max = 16,
        .drain_bytes_max = 256u << 10,
        .h2_streams_max = 2000,
        .h2_stream_window = 1u << 20,
        .h2_conn_window = 64u << 20,
        .h2_waiting_max = 512u << 20,
        .h2_resets_burst = 2500,
        .h2_resets_per_s = 100,
        .h2_chatter_burst = 1000,
        .h2_chatter_per_s = 200,
};

static void budget_refill(struct budget *b, unsigned per_second)
{
        uint64_t now = clock_mono_ms(), back = (now - b->since_ms) * per_second / 1000;

        if (!back)
                return;
        b->used = back < b->used ? b->used - (unsigned)back : 0;
        b->since_ms = now;
}

bool budget_spend(struct budget *b, unsigned burst, unsigned per_second)
{
        budget_refill(b, per_second);
        return ++b->used <= burst;
}

bool budget_is_left(struct budget *b, unsigned burst, unsigned per_second)
{
        budget_refill(b, per_second);
        return b->used < burst;
}
