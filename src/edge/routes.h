/* routes.h - the sandboxes this edge knows of: asked from control when first needed, kept until control says otherwise.
 *
 * A sandbox that is gone loses its route first; then its connections are cut.  After the channel to control was lost,
 * what was remembered counts for nothing: it is asked for again before it is used. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/str.h"
#include "model/route.h"

struct client;
struct edge;

struct sandbox {
        char id[SANDBOX_ID_MAX];
        bool is_known; /* `route` is what control says; otherwise it is being asked for */
        struct route route;
        uint64_t req;        /* of the question, while asking */
        struct list asking;  /* in edge->asking */
        struct list waiters; /* clients that need the route (client.wait) */
        struct list live;    /* clients with an exchange under way (client.in_sandbox) */
        size_t live_count;
        struct list idle; /* upstream connections ready for reuse */
        size_t idle_count;
        struct list lru;
};

enum routes_result { ROUTES_FOUND, ROUTES_WAIT, ROUTES_NOT_FOUND, ROUTES_FULL };

int routes_start(struct edge *e); /* 0, -ENOMEM */
void routes_done(struct edge *e);
/* FOUND: *ret is borrowed until the callback returns; routes_hook() to hear of its end.
 * WAIT: c is resumed (client_resume) when control has answered; c leaves by routes_forget(). */
enum routes_result routes_get(struct edge *e, struct str id, struct client *c, struct sandbox **ret);
void routes_forget(struct client *c);
/* c's exchange is in s from here on: it hears of its end (client_cut). */
void routes_hook(struct client *c, struct sandbox *s);
void routes_unhook(struct client *c);
