/* listing.h - which sandboxes a list shows, in what order, and where a page starts.  Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/sandbox.h"
#include "model/template_ref.h"

#define LISTING_LIMIT_MAX 100

struct listing_cursor { /* the last sandbox of the page before */
        bool is_set;
        int64_t started_ns;
        char id[SANDBOX_ID_MAX];
};

struct listing {
        bool wants_running, wants_paused;
        json_t *metadata; /* owned object of text: every pair must match; NULL: all */
        bool has_started_after, has_template;
        int64_t started_after_ns;     /* inclusive */
        struct template_ref template; /* its namespace is the caller's to check */
        bool is_ascending;            /* oldest first */
        size_t limit;
        struct listing_cursor after;
};

void listing_done(struct listing *l);
bool listing_has_metadata(const json_t *wanted, const json_t *have); /* each pair of wanted; NULL: there is none */
bool listing_matches(const struct listing *l, const struct sandbox *s);
/* Sort `all` into the listing's order, and give the part of it that the page shows. */
void listing_page(const struct listing *l, const struct sandbox **all, size_t n, size_t *ret_first, size_t *ret_count);
