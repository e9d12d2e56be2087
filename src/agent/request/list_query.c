#include "agent/request/list_query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "wire/url.h"

#define LIMIT_MAX 100
#define METADATA_MAX (16u << 10)
#define METADATA_PREFIX "metadata."

static int take_limit(const char *text, uint32_t *ret, struct err *err)
{
        *ret = LIMIT_MAX;
        if (text && parse_u32(str_of(text), 1, LIMIT_MAX, ret) < 0)
                return err_set(err, ERR_INVALID, "parameter 'limit' must be from 1 to %d", LIMIT_MAX);
        return 0;
}

/* Without it: those that run or are paused. */
static int take_status(const char *text, struct list_query *q, struct err *err)
{
        struct str rest = str_of(text), one;
        bool more = true;
        int r = 0;

        q->wants_live = !text;
        while (r == 0 && text && more) {
                more = str_cut(&rest, ',', &one);
                if (!str_is(one, "running") && !str_is(one, "paused") && !str_is(one, "stopped"))
                        return err_set(err, ERR_INVALID,
                                       "parameter 'status' must be running, paused, stopped or several of them "
                                       "(running,paused)");
                if (str_is(one, "stopped")) {
                        q->wants_stopped = true;
                        continue;
                }
                r = buf_addc(&q->live, q->wants_live ? "," : "&state=");
                if (r == 0)
                        r = buf_add(&q->live, one.p, one.n);
                q->wants_live = true;
        }
        return r;
}

static int take_cursor(const char *text, struct list_query *q, struct err *err)
{
        bool is_stopped = text && str_starts(str_of(text), LIST_CURSOR_STOPPED);
        struct buf *out = is_stopped ? &q->stopped : &q->live;
        int r;

        if (text && !(is_stopped ? q->wants_stopped : q->wants_live))
                return err_set(err, ERR_INVALID, "parameter 'cursor' is not of a list of these statuses");
        if (is_stopped)
                q->wants_live = false;
        if (is_stopped)
                text += sizeof(LIST_CURSOR_STOPPED) - 1;
        if (!text || !text[0])
                return 0;
        r = buf_addc(out, "&nextToken=");
        return r < 0 ? r : url_encode(str_of(text), out);
}

static int add_metadata(const struct buf *pairs, struct buf *out)
{
        int r = buf_addc(out, "&metadata=");

        return r < 0 ? r : url_encode((struct str){(const char *)buf_at(pairs), pairs->len}, out);
}

/* metadata.NAME=VALUE, as often as wanted: the API takes them as one parameter, encoded twice. */
static int take_metadata(struct str query, struct list_query *q, struct err *err)
{
        AUTO_BUF struct buf pairs = BUF_INIT(METADATA_MAX);
        struct str one, name;
        bool more = true;
        int r = 0;

        while (r == 0 && more) {
                AUTO_FREE char *key = NULL, *value = NULL;

                more = str_cut(&query, '&', &one);
                (void)str_cut(&one, '=', &name);
                if (url_decode_dup(name, true, &key) < 0 || url_decode_dup(one, true, &value) < 0)
                        return err_set(err, ERR_INVALID, "a parameter is not valid in a URL");
                if (!str_starts(str_of(key), METADATA_PREFIX) || !key[sizeof(METADATA_PREFIX) - 1])
                        continue;
                if (pairs.len)
                        r = buf_addc(&pairs, "&");
                if (r == 0)
                        r = url_encode(str_of(key + sizeof(METADATA_PREFIX) - 1), &pairs);
                if (r == 0)
                        r = buf_addc(&pairs, "=");
                if (r == 0)
                        r = url_encode(str_of(value), &pairs);
        }
        if (r == 0 && pairs.len)
                r = add_metadata(&pairs, &q->live);
        return r == 0 && pairs.len ? add_metadata(&pairs, &q->stopped) : r;
}

static int list_query_fill(struct str query, struct list_query *q, struct err *err)
{
        AUTO_FREE char *limit = NULL, *status = NULL, *cursor = NULL;
        int r;

        if (url_query_get(query, "limit", &limit) < 0 || url_query_get(query, "status", &status) < 0 ||
            url_query_get(query, "cursor", &cursor) < 0)
                return err_set(err, ERR_INVALID, "a parameter is not valid in a URL");
        r = take_limit(limit, &q->limit, err);
        if (r == 0)
                r = take_status(status, q, err);
        if (r == 0)
                r = take_cursor(cursor, q, err);
        if (r == 0)
                r = take_metadata(query, q, err);
        if (r < 0 && err->kind == ERR_NONE)
                return err_set(err, ERR_INVALID, "the query is too long");
        return r;
}

int list_query_decode(struct str query, struct list_query *ret, struct err *err)
{
        struct list_query q = {.live = BUF_INIT(LIST_QUERY_MAX), .stopped = BUF_INIT(LIST_QUERY_MAX)};
        int r = list_query_fill(query, &q, err);

        if (r < 0)
                list_query_done(&q);
        else
                *ret = q;
        return r;
}

void list_query_done(struct list_query *q)
{
        buf_done(&q->live);
        buf_done(&q->stopped);
}
