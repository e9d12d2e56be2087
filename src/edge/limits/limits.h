/* limits.h - how long the edge waits and how much it holds, in one table. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct owner_limits {
        size_t asked_max;                      /* questions at a time */
        unsigned unowned_burst, unowned_per_s; /* questions that no sandbox matched */
};

struct edge_limits {
        unsigned head_timeout_ms;   /* from the first byte to the whole head */
        unsigned idle_timeout_ms;   /* between requests */
        unsigned wait_timeout_ms;   /* for control or engine to come back */
        unsigned route_timeout_ms;  /* for the route of a sandbox while control is there: control may wait for a disk */
        unsigned resume_timeout_ms; /* for a paused sandbox to run, the end of its pause included */
        unsigned dial_timeout_ms;   /* for a socket into a sandbox */
        unsigned port_timeout_ms;   /* for a server inside to open its port */
        unsigned drain_timeout_ms;  /* for bytes that a client still sends after its answer */
        unsigned half_timeout_ms;   /* for bytes through a tunnel that one end has closed */
        unsigned stop_timeout_ms;   /* for running exchanges when the role ends */
        unsigned idle_ours_ms;      /* that an idle connection to envd or control is kept; these two wait longer */
        unsigned idle_users_ms;     /* ... to a user's server, which may serve one connection at a time */
        size_t clients_max;         /* connections; fewer when the process may not have as many fds */
        size_t idle_total_max;      /* upstream connections kept, all together */
        size_t idle_sandbox_max;    /* of one sandbox */
        size_t idle_api_max;        /* to control */
        size_t routes_max;          /* sandboxes remembered */
        size_t asking_max;          /* routes asked for at a time */
        size_t resumes_max;         /* sandboxes being resumed at a time */
        size_t resume_waiters_max;  /* requests that wait for the resume of one sandbox */
        size_t waiters_max; /* requests that wait for routes and resumes altogether; beyond that none may wait for a resume */
        struct owner_limits signed_urls, tokens; /* requests that name no sandbox */
        size_t dials_max;                        /* sockets asked for at a time */
        size_t port_waiters_max; /* requests that wait for a port of one sandbox to open; each dials a few times */
        unsigned interim_max;    /* 1xx answers to one request */
        size_t drain_bytes_max;  /* of an unwanted body; beyond that the connection is closed instead */
        /* of one HTTP/2 connection */
        unsigned h2_streams_max;                   /* at a time */
        unsigned h2_stream_window, h2_conn_window; /* bytes of bodies that upstreams have not taken yet */
        size_t h2_waiting_max; /* ... of all connections together; a stream that sends more is reset */
        unsigned h2_resets_burst, h2_resets_per_s; /* streams that the client resets or breaks */
        unsigned h2_chatter_burst,
                h2_chatter_per_s; /* frames that carry nothing: PING, SETTINGS, PRIORITY, empty DATA */
};

extern const struct edge_limits edge_limits_default;
