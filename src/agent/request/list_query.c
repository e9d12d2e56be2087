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

static int take_limit(const char *text, struct buf *out, struct err *err)
{
        uint32_t limit = LIMIT_MAX;

        if (text && parse_u32(str_of(text), 1, LIMIT_MAX, &limit) < 0)
                return err_set(err, ERR_INVALID, "parameter 'limit' must be from 1 to %d", LIMIT_MAX);
        return buf_addf(out, "limit=%u", limit);
}

/* Those that have stopped are told one by one, and are in no list: asking for them alone finds nothing. */
static int take_status(const char *text, struct buf *out, bool *ret_finds_nothing, struct err *err)
{
        struct str rest = str_of(text), one;
        bool more = true, is_first = true;
        int r = 0;

        while (r == 0 && text && more) {
                more = str_cut(&rest, ',', &one);
                if (!str_is(one, "running") && !str_is(one, "paused") && !str_is(one, "stopped"))
                        return err_set(err, ERR_INVALID,
                                       "parameter 'status' must be running, paused, stopped or several of them "
                                       "(running,paused)");
                if (str_is(one, "stopped"))
                        continue;
                r = buf_addc(out, is_first ? "&state=" : ",");
                if (r == 0)
                        r = buf_add(out, one.p, one.n);
                is_first = false;
        }
        *ret_finds_nothing = text && is_first;
        return r;
}

static int take_cursor(const char *text, struct buf *out)
{
        int r = text ? buf_addc(out, "&nextToken=") : 0;

        return r < 0 || !text ? r : url_encode(str_of(text), out);
}

/* metadata.NAME=VALUE, as often as wanted: the API takes them as one parameter, encoded twice. */
static int take_metadata(struct str query, struct buf *out, struct err *err)
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
                r = buf_addc(out, "&metadata=");
        return r < 0 || !pairs.len ? r : url_encode((struct str){(const char *)buf_at(&pairs), pairs.len}, out);
}

int list_query_decode(struct str query, struct buf *out, bool *ret_finds_nothing, struct err *err)
{
        AUTO_FREE char *limit = NULL, *status = NULL, *cursor = NULL;
        int r;

        if (url_query_get(query, "limit", &limit) < 0 || url_query_get(query, "status", &status) < 0 ||
            url_query_get(query, "cursor", &cursor) < 0)
                return err_set(err, ERR_INVALID, "a parameter is not valid in a URL");
        r = take_limit(limit, out, err);
        if (r == 0)
                r = take_status(status, out, ret_finds_nothing, err);
        if (r == 0)
                r = take_cursor(cursor, out);
        if (r == 0)
                r = take_metadata(query, out, err);
        if (r < 0 && err->kind == ERR_NONE)
                return err_set(err, ERR_INVALID, "the query is too long");
        return r;
}
