/* lane.h - a lane: a loop, and a connection to one server on it that is kept between calls.  Used by one thread at a time; the
 * client keeps those that nobody uses. */
#pragma once
#include "client/client.h"
#include "http/client.h"

struct lane {
        struct lane *next;        /* in the client's list */
        struct loop *loop;        /* owned */
        struct http_client *http; /* owned */
        char *url;                /* owned: "https://host:port" */
        uint64_t idle_since_ms;
        bool is_broken; /* not to be kept */
};

/* SG_INVALID: no URL.  SG_UNAVAILABLE: no such host. */
int lane_take(struct sg_client *client, const char *url, struct limit *l, struct lane **ret, struct sg_error *err);
/* NULL is fine. */
void lane_give_back(struct sg_client *client, struct lane *lane);
void lanes_free(struct sg_client *client);
