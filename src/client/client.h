/* client.h - a client as the files of the library share it: whom it speaks to, and the connections it keeps.
 *
 * Nothing in a client changes after it was opened but the list of kept lanes, which the mutex guards. */
#pragma once
#include <pthread.h>

#include "client/error.h"
#include "client/limit.h"
#include "http/header.h"

#define CLIENT_TIMEOUT_MS 60000u
#define CLIENT_RETRIES 4u
#define CLIENT_KEPT_MAX 16u
#define CLIENT_HEADERS_MAX 16u
#define CLIENT_DOMAIN "e2b.app"
#define ENVD_PORT_TEXT "49983"

struct lane;
struct tls_context;

struct sg_client {
        char *api_url, *domain;
        char *sandbox_url;   /* NULL: each sandbox has a host name of its own */
        char *ca_file;       /* authorities besides the system's; NULL: none */
        char *api_key;       /* NULL: none */
        char *authorization; /* "Bearer ..."; NULL: none */
        char *agent;
        char *header_texts[2 * CLIENT_HEADERS_MAX];
        size_t header_count;
        struct http_header headers[CLIENT_HEADERS_MAX + 3]; /* what the API gets with each request */
        uint32_t timeout_ms, retries, kept_max;

        pthread_mutex_t mutex;   /* of what follows */
        struct tls_context *tls; /* owned; NULL: not needed so far */
        struct lane *kept;       /* owned; the newest first */
        size_t kept_count;
};

bool domain_is_valid(struct str domain); /* "host" or "host:port" */
/* [a-z0-9]{1,64}, maybe with a suffix "-[a-z0-9]{1,64}", as old servers make them. */
bool sandbox_id_is_sound(const char *id);
int check_sandbox_id(const char *id, struct sg_error *err);
/* `what` is UTF-8 text of at most max bytes (NULL is none): SG_INVALID. */
int check_text(const char *text, const char *what, size_t max, struct sg_error *err);
/* NULL is no bytes: SG_INVALID, if n is not 0. */
int check_bytes(const void *bytes, size_t n, const char *what, struct sg_error *err);
/* Overwritten before it is freed. */
void secret_free(char *text);
int check_reserved(const uintptr_t *reserved, size_t n, struct sg_error *err);
int check_pairs(const struct sg_pair *pairs, const char *what, struct sg_error *err);
