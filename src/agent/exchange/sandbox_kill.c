#include "agent/exchange/sandbox_kill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exchange/exchange.h"
#include "base/err.h"
#include "base/log.h"
#include "http/client.h"

#define TRIES_MAX 5u
#define PAUSE_MS 1000u

struct sandbox_kill {
        struct list node;
        struct agent *agent;
        struct http_call *call; /* owned; NULL: the next try waits */
        struct timer again;
        unsigned tries;
        char id[EXCHANGE_ID_MAX], key[EXCHANGE_KEY_MAX];
};

static void kill_free(struct sandbox_kill *k)
{
        timer_clear(&k->again);
        k->call = http_call_free(k->call);
        list_remove(&k->node);
        free(k);
}

static void kill_failed(struct sandbox_kill *k, const char *why)
{
        k->call = http_call_free(k->call);
        log_warn("sandbox.unwanted", "sandbox=%s try=%u error=\"%s\"", k->id, k->tries, why);
        if (k->tries < TRIES_MAX)
                timer_set(k->agent->loop, &k->again, PAUSE_MS);
        else
                kill_free(k); /* its time limit ends it */
}

static void kill_on_end(struct http_call *call, const struct err *why, void *arg)
{
        struct sandbox_kill *k = arg;
        unsigned status = why ? 0 : http_call_head(call)->status;

        if (why)
                kill_failed(k, why->msg);
        else if (status >= 500 || status == 409)
                kill_failed(k, "the API could not");
        else
                kill_free(k);
}

static void kill_try(struct timer *t)
{
        struct sandbox_kill *k = CONTAINER_OF(t, struct sandbox_kill, again);
        const struct http_header headers[] = {{"X-API-Key", k->key}, {NULL, NULL}};
        char target[EXCHANGE_ID_MAX + 16];
        struct err err = {0};

        k->tries++;
        (void)snprintf(target, sizeof(target), "/sandboxes/%s", k->id);
        if (http_call_start(
                    k->agent->edge_patient,
                    &(struct http_call_options){
                            .method = "DELETE", .target = target, .headers = headers, .on_end = kill_on_end, .arg = k},
                    &k->call, &err) < 0)
                kill_failed(k, err.msg);
}

void sandbox_kill(struct agent *a, const char *id, const char *key)
{
        struct sandbox_kill *k = calloc(1, sizeof(*k));

        if (!k) {
                log_warn("sandbox.unwanted", "sandbox=%s error=\"out of memory\", its time limit ends it", id);
                return;
        }
        k->agent = a;
        k->again.on = kill_try;
        (void)snprintf(k->id, sizeof(k->id), "%s", id);
        (void)snprintf(k->key, sizeof(k->key), "%s", key);
        list_push_back(&a->kills, &k->node);
        kill_try(&k->again);
}

void sandbox_kills_done(struct agent *a)
{
        LIST_EACH (at, &a->kills)
                kill_free(LIST_ENTRY(at, struct sandbox_kill, node));
}
