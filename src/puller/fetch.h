/* fetch.h - HTTP transfers of one job, several at the same time; the only code that knows libcurl.
 *
 * Runs in: a thread of a job; fetcher_step() blocks.  Redirects are not followed here, nothing is retried here, and no cookie,
 * password or proxy comes from anywhere but the caller and the settings. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/challenge.h"

struct conf;
struct fetcher; /* opaque */
struct puller_limits;

#define FETCH_ERROR_BODY_MAX (64u << 10) /* of an answer that is not a success */

int fetch_global_init(void); /* once, before threads; negative: libcurl does not work */

struct fetch_options {
        const char *url;
        const char *authorization; /* value of that header; NULL: none */
        const char *accept;        /* NULL: anything */
        const char *const *more;   /* further headers, "Name: value", NULL-terminated; NULL: none */
        struct str post;           /* p NULL: GET */
        uint64_t from;             /* ask for the bytes from there on */
        size_t body_max;           /* of a success that is kept in `body` */
        /* Of a success: takes the bytes instead of `body`.  Negative: the transfer ends, with *err. */
        int (*on_data)(void *arg, bool is_first, const void *p, size_t n, struct err *err);
        void *arg;
};

struct fetch {                   /* zeroed to begin with; one transfer after the other */
        struct fetcher *fetcher; /* NULL: none is under way */
        void *easy, *headers;    /* libcurl's */
        struct fetch_options options;
        bool is_done;
        /* When it is done: */
        struct err err;             /* of the transfer; kind ERR_NONE: there is an answer */
        bool is_final;              /* trying again will not help */
        long status;                /* 0: no answer */
        struct buf body;            /* of the answer; of errors the first FETCH_ERROR_BODY_MAX */
        char *redirect;             /* owned: absolute URL, with status 3xx */
        struct challenge challenge; /* with status 401 */
        uint32_t retry_after_s;     /* 0: not said */
        int64_t content_length;     /* -1: not said */
        bool has_range;             /* Content-Range was understood: the answer begins at range_from */
        uint64_t range_from;
        bool got_data;
};

/* is_cancelled is borrowed; when it becomes true, fetcher_step() fails with ERR_INTERRUPTED soon. */
int fetcher_create(const struct conf *conf, const struct puller_limits *limits, const atomic_bool *is_cancelled,
                   struct fetcher **ret, struct err *err);
struct fetcher *fetcher_free(struct fetcher *f); /* all transfers have been ended */

/* options are borrowed until it is done. */
int fetch_begin(struct fetch *t, struct fetcher *f, const struct fetch_options *options, struct err *err);
void fetch_end(struct fetch *t);  /* stops it; fine at any time */
void fetch_done(struct fetch *t); /* the same, and releases what it holds */

/* Let all transfers go on until one of them is done, or for at most so long. */
int fetcher_step(struct fetcher *f, uint32_t ms, struct err *err);
