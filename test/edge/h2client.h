/* h2client.h - an HTTP/2 client over TLS for tests: says what it is told, remembers what it hears.
 *
 * Each wait moves bytes both ways until what it waits for is there, or for five seconds. */
#pragma once
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "harness.h"

#define TLS_WORLD                                                                                                      \
        WORLD;                                                                                                         \
        w.https = -2;                                                                                                  \
        START

#define H2_STREAMS 4096

struct h2_heard {          /* of one stream */
        int status;        /* of the final answer; 0: none yet */
        unsigned interims; /* 1xx */
        char *fields;      /* "name: value\n" of all heads */
        char *body;        /* NUL-terminated */
        size_t body_len;   /* also when it is not kept */
        bool is_ended;     /* END_STREAM */
        bool is_closed;
        uint32_t error; /* with is_closed */
        char *out;      /* what is still to be sent of the request's body */
        size_t out_len, out_sent;
        bool out_ends, out_has_trailer; /* a trailer: "x-trailer: 1" */
};

struct h2c {
        int fd;
        void *ssl, *ctx;
        nghttp2_session *session;
        struct h2_heard heard[H2_STREAMS];
        bool keeps_bodies;
        bool is_dead;  /* the connection ended */
        bool is_reset; /* ... without a proper end */
        unsigned goaways;
        uint32_t goaway_code;
        int32_t goaway_last;
        bool has_settings;
        unsigned pings_acked;
};

struct h2c_options {
        unsigned window; /* of each stream; 0: the usual */
        bool no_window_updates;
        bool is_lax; /* the client's own library checks nothing */
};

#define H2C __attribute__((cleanup(h2c_close))) struct h2c *
struct h2c *h2c_open(const struct world *w, const struct h2c_options *opt); /* NULL: said why */
struct h2c *h2c_connect(const struct world *w);                             /* only TLS: nothing is said yet */
bool h2c_write(struct h2c *c, const void *p, size_t n);                     /* raw bytes */
void h2c_close(struct h2c **c);

#define H2_OPEN ((const char *)1) /* as body: it follows by h2c_send() */
/* fields: name, value, name, value, ..., NULL; may be NULL.  The stream's id. */
int32_t h2c_ask(struct h2c *c, const char *method, const char *authority, const char *path, const char *const *fields,
                const char *body);
int32_t h2c_ask_raw(struct h2c *c, const char *const *fields, const char *body); /* pseudo headers included */
void h2c_send(struct h2c *c, int32_t id, const void *p, size_t n, bool ends);
void h2c_reset(struct h2c *c, int32_t id);
void h2c_frame(struct h2c *c, unsigned type, unsigned flags, int32_t id, const void *p, size_t n); /* raw */
bool h2c_push(struct h2c *c); /* all that was said is with the kernel */

struct h2_heard *h2c_of(struct h2c *c, int32_t id);
bool h2c_wait_head(struct h2c *c, int32_t id); /* the final one */
bool h2c_wait_end(struct h2c *c, int32_t id);  /* closed, whichever way */
bool h2c_is_reset(struct h2c *c, int32_t id);  /* waits for the end: an error, not as if it were a proper one */
bool h2c_wait_body(struct h2c *c, int32_t id, size_t n); /* that much of it */
bool h2c_wait_dead(struct h2c *c);
bool h2c_wait_goaway(struct h2c *c, unsigned count);
void h2c_idle(struct h2c *c, int ms); /* move bytes for so long */
