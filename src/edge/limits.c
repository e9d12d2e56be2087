#include "edge/limits.h"

const struct edge_limits edge_limits_default = {
        .head_timeout_ms = 10000,
        .idle_timeout_ms = 620000,
        .wait_timeout_ms = 5000,
        .dial_timeout_ms = 30000,
        .drain_timeout_ms = 5000,
        .stop_timeout_ms = 5000,
        .idle_ours_ms = 60000,
        .idle_users_ms = 1000,
        .clients_max = 32768,
        .idle_total_max = 4096,
        .idle_sandbox_max = 64,
        .idle_api_max = 64,
        .routes_max = 65536,
        .asking_max = 1024,
        .dials_max = 4096,
        .interim_max = 16,
        .drain_bytes_max = 256u << 10,
};
