/* library_rig.h - libsandglass in front of a fake server. */
#pragma once
#include "base/auto.h"
#include "fake_server.h"
#include "sandglass.h"
#include "tap.h"

#define ID "iabcdefghij0123456789"
#define FREE_BLOCK AUTO(free_block)

static struct fake_server server;
static struct sg_client *client;
static struct sg_sandbox *box;
static char seen_requests[8][4096];   /* the first ones, cut; NUL is a blank */
static struct fake_answer answers[8]; /* to the first requests; the last one also to those that follow */
static unsigned answer_count;
static pthread_mutex_t rig_mutex = PTHREAD_MUTEX_INITIALIZER; /* of these three */

static inline void free_block(void *p)
{
        sg_free(*(void **)p);
}

static void rig_on_request(const char *request, size_t n, unsigned number, struct fake_answer *ret)
{
        (void)pthread_mutex_lock(&rig_mutex);
        for (size_t i = 0; number < ARRAY_LEN(seen_requests) && i < n && i < 4000; i++)
                seen_requests[number][i] = request[i] ? request[i] : ' ';
        *ret = answers[number < answer_count ? number : answer_count - 1];
        (void)pthread_mutex_unlock(&rig_mutex);
}

/* An answer of this status; the text lives as long as the program. */
static inline struct fake_answer with_status(const char *status, const char *headers, const char *body)
{
        char *text;

        if (asprintf(&text, "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n%s", status, headers, strlen(body), body) < 0)
                abort();
        return (struct fake_answer){.bytes = text};
}

static inline struct fake_answer ok_json(const char *body)
{
        return with_status("200 OK", "Content-Type: application/json\r\n", body);
}

#define BOX_JSON "{\"sandboxID\":\"" ID "\",\"envdAccessToken\":\"tok\",\"templateID\":\"t\",\"state\":\"running\"}"

static inline void rig_say(unsigned count, const struct fake_answer *list)
{
        (void)pthread_mutex_lock(&rig_mutex);
        memcpy(answers, list, count * sizeof(*list));
        answer_count = count;
        atomic_store(&server.requests, 0);
        atomic_store(&server.connections, 0);
        atomic_store(&server.held, 0);
        atomic_store(&server.left, 0);
        memset(seen_requests, 0, sizeof(seen_requests));
        (void)pthread_mutex_unlock(&rig_mutex);
}
#define SAY(...) rig_say(ARRAY_LEN(((struct fake_answer[]){__VA_ARGS__})), (struct fake_answer[]){__VA_ARGS__})

static inline struct sg_client *rig_client(const struct sg_client_options *more)
{
        struct sg_client_options o = more ? *more : (struct sg_client_options){0};
        struct sg_client *c = NULL;

        o.api_key = o.api_key ? o.api_key : "e2b_00";
        o.api_url = server.url;
        o.sandbox_url = server.url;
        if (sg_client_open(&o, &c, NULL) < 0)
                abort();
        return c;
}

static inline void rig_start(void)
{
        const struct sg_identity who = {.id = ID, .access_token = "tok"};

        server.on_request = rig_on_request;
        if (!fake_start(&server))
                abort();
        client = rig_client(NULL);
        if (sg_sandbox_assume(client, &who, &box, NULL) < 0)
                abort();
}

static inline int rig_end(void)
{
        sg_sandbox_free(box);
        sg_client_free(client);
        fake_stop(&server);
        return tap_done();
}
