/* query.h - the query of a list of sandboxes, decoded and checked; and the tokens between its pages. */
#pragma once
#include "base/str.h"
#include "model/request/listing.h"
#include "model/snapshot.h"

struct err;

#define QUERY_METADATA_MAX 100 /* pairs in a filter */
#define QUERY_TOKEN_MAX 96

/* `slug` is the namespace of the team that asks.  ERR_INVALID with the contract's texts.
 * On success *ret is the caller's: listing_done(). */
int query_listing(struct str query, const char *slug, struct listing *ret, struct err *err);
/* Version 1 of the list: only the metadata filter; all sandboxes, newest first. */
int query_listing_v1(struct str query, struct listing *ret, struct err *err);

/* Where the page after s starts. */
void query_token_make(const struct listing *l, const struct sandbox *s, char out[QUERY_TOKEN_MAX]);

/* A page of a list that is newest first. */
struct page_query {
        size_t limit;
        int64_t after_ns;        /* of the last one of the page before: its time, or another number that falls */
        char after_id[UUID_MAX]; /* "": this is the first page */
};
int query_page(struct str query, struct page_query *ret, struct err *err);
/* The same of the list of sandboxes that have ended.  *ret_metadata is the caller's; NULL: all of them. */
int query_ended(struct str query, struct page_query *ret_page, json_t **ret_metadata, struct err *err);
void query_page_token(int64_t ns, const char *id, char out[QUERY_TOKEN_MAX]);

struct snapshot_query {
        char source[SANDBOX_ID_MAX]; /* "": of any sandbox */
        struct template_ref name;    /* with an empty name: any */
        size_t limit;
        int64_t after_ns;        /* the last one of the page before */
        char after_id[UUID_MAX]; /* "": this is the first page */
};
int query_snapshots(struct str query, struct snapshot_query *ret, struct err *err);
void query_snapshot_token(const struct snapshot *sn, char out[QUERY_TOKEN_MAX]);
