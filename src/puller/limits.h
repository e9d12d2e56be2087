/* limits.h - how long the puller waits, and how much it does at the same time. */
#pragma once
#include <stdint.h>

struct puller_limits {
        uint32_t idle_ms;       /* without a connection and without work: the role ends */
        uint32_t connect_ms;    /* to a registry */
        uint32_t stall_s;       /* without a byte: the connection is taken for cut */
        uint32_t document_ms;   /* for a manifest, a configuration or a token */
        uint32_t retry_ms;      /* before the second attempt; doubled each time */
        uint32_t retry_max_ms;  /* longest wait between two attempts */
        uint32_t failures_max;  /* attempts in a row that brought no byte */
        uint32_t attempts_max;  /* for one blob, whatever they brought */
        uint32_t blobs_at_once; /* downloads of one image */
        uint32_t jobs_at_once;  /* images */
        uint32_t jobs_max;      /* with those that wait for their turn */
        uint32_t progress_ms;   /* between two facts about one job */
        uint32_t kept_s;        /* blobs that nobody asked for or unpacked are removed when they are so old */
};

extern const struct puller_limits puller_limits_default;
