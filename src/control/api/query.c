#include "control/api/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "control/access/tokens.h"
#include "wire/base64.h"
#include "wire/url.h"

/* The decoded value, or NULL when the parameter is absent or empty. */
static int query_get(struct str query, const char *name, char **ret, struct err *err)
{
        char *value = NULL;

        if (url_query_get(query, name, &value) < 0)
                return err_set(err, ERR_INVALID, "validation error: parameter '%s' is not well-formed", name);
        if (value && !value[0]) {
                free(value);
                value = NULL;
        }
        *ret = value;
        return 0;
}

static int query_wrong(struct err *err, const char *name, const char *wanted)
{
        return err_set(err, ERR_INVALID, "validation error: parameter '%s' must be %s", name, wanted);
}

/* ---- metadata=key%3Dvalue%26key2%3Dvalue2, where clients escaped keys and values up to twice more ---- */

/* Text that cannot be unescaped (a plain '%' in hand-written input) is taken as it is. */
static char *unescape_twice(struct str s)
{
        char *once = NULL, *twice = NULL;

        if (url_decode_dup(s, true, &once) < 0)
                return str_dup(s);
        if (url_decode_dup(str_of(once), true, &twice) < 0)
                return once;
        free(once);
        return twice;
}

static int query_add_pair(struct str pair, json_t *filter, struct err *err)
{
        AUTO_FREE char *key = NULL, *value = NULL;
        struct str rest = pair, head;

        if (!str_cut(&rest, '=', &head) || memchr(rest.p, '=', rest.n) ||
            json_object_size(filter) >= QUERY_METADATA_MAX)
                return err_set(err, ERR_INVALID, "invalid key value pair");
        key = unescape_twice(head);
        value = unescape_twice(rest);
        if (!key || !value || json_object_set_new(filter, key, json_string(value)) < 0)
                return err_set(err, ERR_INVALID, "invalid key value pair"); /* not UTF-8, say */
        return 0;
}

static int query_get_metadata(struct str query, json_t **ret, struct err *err)
{
        AUTO_FREE char *text = NULL;
        struct str rest, pair;
        bool more = true;
        int r;

        r = query_get(query, "metadata", &text, err);
        if (r < 0 || !text)
                return r;
        *ret = json_object();
        for (rest = str_of(text); more;) {
                more = str_cut(&rest, '&', &pair);
                r = query_add_pair(pair, *ret, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- the other parameters ---- */

static int query_get_states(struct str query, struct listing *l, struct err *err)
{
        AUTO_FREE char *text = NULL;
        struct str rest, one;
        bool more = true;
        int r;

        r = query_get(query, "state", &text, err);
        if (r < 0)
                return r;
        if (!text)
                l->wants_running = l->wants_paused = true;
        for (rest = str_of(text); text && more;) {
                more = str_cut(&rest, ',', &one);
                if (str_is(one, "running"))
                        l->wants_running = true;
                else if (str_is(one, "paused"))
                        l->wants_paused = true;
                else
                        return query_wrong(err, "state", "a list of 'running' and 'paused'");
        }
        return 0;
}

static int query_get_order(struct str query, struct listing *l, struct err *err)
{
        AUTO_FREE char *text = NULL;
        int r;

        r = query_get(query, "order", &text, err);
        if (r < 0 || !text)
                return r;
        l->is_ascending = strcmp(text, "asc") == 0;
        if (!l->is_ascending && strcmp(text, "desc") != 0)
                return query_wrong(err, "order", "'asc' or 'desc'");
        return 0;
}

static int query_get_started_after(struct str query, struct listing *l, struct err *err)
{
        AUTO_FREE char *text = NULL;
        int r;

        r = query_get(query, "startedAfter", &text, err);
        if (r < 0 || !text)
                return r;
        l->has_started_after = true;
        if (clock_parse(str_of(text), &l->started_after_ns) < 0)
                return query_wrong(err, "startedAfter", "an RFC 3339 time");
        return 0;
}

static int query_get_template(struct str query, const char *slug, struct listing *l, struct err *err)
{
        AUTO_FREE char *text = NULL;
        struct err why = {0};
        int r;

        r = query_get(query, "template", &text, err);
        if (r < 0 || !text)
                return r;
        l->has_template = true;
        if (template_ref_parse(str_of(text), &l->template, &why) < 0)
                return err_set(err, ERR_INVALID, "Invalid template reference: %s", why.msg);
        if (l->template.tag[0])
                return err_set(err, ERR_INVALID, "Invalid template reference: a tag cannot be used as a filter");
        if (l->template.ns[0] && strcmp(l->template.ns, slug) != 0)
                l->template.name[0] = 0; /* another team's: no sandbox matches */
        return 0;
}

static int query_get_limit(struct str query, size_t *ret, struct err *err)
{
        AUTO_FREE char *text = NULL;
        uint32_t limit = LISTING_LIMIT_MAX;
        int r;

        r = query_get(query, "limit", &text, err);
        if (r < 0)
                return r;
        if (text && parse_u32(str_of(text), 1, LISTING_LIMIT_MAX, &limit) < 0)
                return query_wrong(err, "limit", "a number from 1 to 100");
        *ret = limit;
        return 0;
}

/* ---- tokens: base64url of "<start in ns>__<id>", with "__asc" behind it in that order ---- */

static void page_token_write(int64_t ns, const char *id, const char *order, char out[QUERY_TOKEN_MAX])
{
        char text[QUERY_TOKEN_MAX / 4 * 3];
        size_t len;
        int n;

        n = snprintf(text, sizeof(text), "%lld__%s%s", (long long)ns, id, order); /* 20 + 2 + 36 + 5 at most */
        len = base64_encode(text, (size_t)n, false, out);
        out[len] = 0;
        for (char *p = out; *p; p++)
                *p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
}

void query_token_make(const struct listing *l, const struct sandbox *s, char out[QUERY_TOKEN_MAX])
{
        page_token_write(s->started_ns, s->id, l->is_ascending ? "__asc" : "", out);
}

/* "<ns>__<rest>"; *ret_rest is a slice of text. */
static bool page_token_split(struct str token, struct buf *text, int64_t *ret_ns, struct str *ret_rest)
{
        struct str rest, start;
        uint64_t ns;

        if (base64_decode(token, text) < 0)
                return false;
        rest = (struct str){(const char *)buf_at(text), text->len};
        if (!str_cut(&rest, '_', &start) || !str_starts(rest, "_") || parse_u64(start, 0, INT64_MAX, &ns) < 0)
                return false;
        *ret_ns = (int64_t)ns;
        *ret_rest = (struct str){rest.p + 1, rest.n - 1};
        return true;
}

static bool page_token_read(struct str token, struct listing *l)
{
        AUTO_BUF struct buf text = BUF_INIT(QUERY_TOKEN_MAX);
        struct str id;

        if (!page_token_split(token, &text, &l->after.started_ns, &id))
                return false;
        if (str_ends(id, "__asc") != l->is_ascending)
                return false;
        if (l->is_ascending)
                id.n -= 5;
        if (!sandbox_id_is_valid(id))
                return false;
        l->after.is_set = true;
        memcpy(l->after.id, id.p, id.n);
        l->after.id[id.n] = 0;
        return true;
}

static int query_get_token(struct str query, struct listing *l, struct err *err)
{
        AUTO_FREE char *text = NULL;
        int r;

        r = query_get(query, "nextToken", &text, err);
        if (r < 0 || !text)
                return r;
        return page_token_read(str_of(text), l) ? 0 : err_set(err, ERR_INVALID, "Invalid next token");
}

int query_listing(struct str query, const char *slug, struct listing *ret, struct err *err)
{
        struct listing l = {0};
        int r;

        if ((r = query_get_states(query, &l, err)) < 0 || (r = query_get_metadata(query, &l.metadata, err)) < 0 ||
            (r = query_get_order(query, &l, err)) < 0 || (r = query_get_started_after(query, &l, err)) < 0 ||
            (r = query_get_template(query, slug, &l, err)) < 0 || (r = query_get_limit(query, &l.limit, err)) < 0 ||
            (r = query_get_token(query, &l, err)) < 0) {
                listing_done(&l);
                return r;
        }
        *ret = l;
        return 0;
}

int query_listing_v1(struct str query, struct listing *ret, struct err *err)
{
        struct listing l = {.wants_running = true, .limit = SIZE_MAX};
        int r;

        r = query_get_metadata(query, &l.metadata, err);
        if (r < 0) {
                listing_done(&l);
                return r;
        }
        *ret = l;
        return 0;
}

/* ---- pages ---- */

void query_page_token(int64_t ns, const char *id, char out[QUERY_TOKEN_MAX])
{
        page_token_write(ns, id, "", out);
}

int query_page(struct str query, struct page_query *ret, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(QUERY_TOKEN_MAX);
        AUTO_FREE char *token = NULL;
        struct page_query q = {0};
        struct str id;

        if (query_get_limit(query, &q.limit, err) < 0 || query_get(query, "nextToken", &token, err) < 0)
                return -EINVAL;
        if (token) {
                if (!page_token_split(str_of(token), &text, &q.after_ns, &id) || id.n == 0 ||
                    id.n >= sizeof(q.after_id))
                        return err_set(err, ERR_INVALID, "Invalid next token");
                memcpy(q.after_id, id.p, id.n);
        }
        *ret = q;
        return 0;
}

int query_ended(struct str query, struct page_query *ret_page, json_t **ret_metadata, struct err *err)
{
        json_t *metadata = NULL;
        struct page_query q;

        if (query_page(query, &q, err) < 0 || query_get_metadata(query, &metadata, err) < 0) {
                json_decref(metadata);
                return -EINVAL;
        }
        *ret_page = q;
        *ret_metadata = metadata;
        return 0;
}

/* ---- snapshots ---- */

void query_snapshot_token(const struct snapshot *sn, char out[QUERY_TOKEN_MAX])
{
        page_token_write(sn->created_ns, sn->id, "", out);
}

static int query_get_snapshot_token(struct str query, struct snapshot_query *q, struct err *err)
{
        AUTO_BUF struct buf text = BUF_INIT(QUERY_TOKEN_MAX);
        AUTO_FREE char *token = NULL;
        struct str id;
        int r;

        r = query_get(query, "nextToken", &token, err);
        if (r < 0 || !token)
                return r;
        if (!page_token_split(str_of(token), &text, &q->after_ns, &id) || id.n != UUID_MAX - 1)
                return err_set(err, ERR_INVALID, "Invalid next token");
        memcpy(q->after_id, id.p, id.n);
        q->after_id[id.n] = 0;
        return 0;
}

/* Text that cannot be a sandbox id matches nothing. */
static int query_get_source(struct str query, struct snapshot_query *q, struct err *err)
{
        AUTO_FREE char *text = NULL;
        struct str rest, id;
        int r;

        r = query_get(query, "sandboxID", &text, err);
        if (r < 0 || !text)
                return r;
        rest = str_of(text);
        (void)str_cut(&rest, '-', &id);
        (void)snprintf(q->source, sizeof(q->source), "%.*s", sandbox_id_is_valid(id) ? (int)id.n : 1,
                       sandbox_id_is_valid(id) ? id.p : "-");
        return 0;
}

int query_snapshots(struct str query, struct snapshot_query *ret, struct err *err)
{
        AUTO_FREE char *name = NULL;
        struct snapshot_query q = {0};
        struct err why = {0};
        int r;

        if ((r = query_get_source(query, &q, err)) < 0 || (r = query_get_limit(query, &q.limit, err)) < 0 ||
            (r = query_get_snapshot_token(query, &q, err)) < 0 || (r = query_get(query, "name", &name, err)) < 0)
                return r;
        if (name && template_ref_parse(str_of(name), &q.name, &why) < 0)
                return err_set(err, ERR_INVALID, "Invalid name: %s", why.msg);
        *ret = q;
        return 0;
}
