/* Files for COPY steps: GET /templates/{templateID}/files/{hash} gives a link, PUT /_upload/{uploadID} is the link.
 *
 * The link needs no key: it has the team, the hash and the time until which it is good in it, and a signature that is derived from
 * the store's seed. */
#include "control/api/handlers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "control/access/keys.h"
#include "control/access/tokens.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/template/template_path.h"
#include "control/catalogue/uploads.h"
#include "model/build/build_names.h"
#include "model/conf.h"
#include "wire/url.h"

#define LINK_S 1800
#define S_NS INT64_C(1000000000)

/* ---- the link ---- */

struct upload_link {
        int64_t team, until_s;
        char hash[65];
};

static void link_text(const struct upload_link *l, char out[128])
{
        (void)snprintf(out, 128, "%lld-%s-%lld", (long long)l->team, l->hash, (long long)l->until_s);
}

static json_t *link_url(const struct api_exchange *x, const struct upload_link *l)
{
        struct str host = http1_value(x->rq->head, "Host"), scheme = http1_value(x->rq->head, "X-Forwarded-Proto");
        char text[128], sig[TOKEN_MAX];

        link_text(l, text);
        token_upload(x->api->tokens, text, sig);
        return json_sprintf("%s://%.*s/_upload/%s?sig=%s", str_is(scheme, "https") ? "https" : "http", STR_ARG(host),
                            text, sig);
}

void handle_file_link(struct api_exchange *x)
{
        struct upload_link link = {.until_s = x->api->now_ns() / S_NS + LINK_S};
        AUTO_FREE char *hash = NULL;
        struct template_row *t = NULL;
        struct err err = {0};

        if (url_decode_dup(x->segment2, false, &hash) < 0 || !build_hash_is_valid(hash)) {
                answer_error(x, 400, NULL, "Invalid files hash");
                return;
        }
        if (path_template(x, &t, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        link.team = x->team->no;
        memcpy(link.hash, hash, sizeof(link.hash));
        answer_json(x, 201,
                    json_pack("{s:b,s:o}", "present", uploads_has(x->api->uploads, x->team->no, hash), "url",
                              link_url(x, &link)));
}

/* ---- the upload ---- */

static int link_parse(struct str text, struct upload_link *ret)
{
        struct str team, hash;
        uint64_t n;

        if (!str_cut(&text, '-', &team) || !str_cut(&text, '-', &hash) || hash.n != 64 ||
            parse_u64(team, 1, INT64_MAX, &n) < 0)
                return -EINVAL;
        ret->team = (int64_t)n;
        memcpy(ret->hash, hash.p, 64);
        ret->hash[64] = 0;
        if (!build_hash_is_valid(ret->hash) || parse_u64(text, 0, INT64_MAX / S_NS, &n) < 0)
                return -EINVAL;
        ret->until_s = (int64_t)n;
        return 0;
}

/* Is it a link that we made, and still good?  false: the request is answered. */
static bool link_check(struct api_exchange *x, struct upload_link *ret)
{
        AUTO_FREE char *sig = NULL;
        char text[128], want[TOKEN_MAX];

        if (link_parse(x->segment, ret) < 0 || url_query_get(x->rq->url.query, "sig", &sig) < 0 || !sig) {
                answer_error(x, 403, NULL, "this is not an upload link of this server");
                return false;
        }
        link_text(ret, text);
        token_upload(x->api->tokens, text, want);
        if (!str_eq_secret(str_of(sig), str_of(want)) || !keys_team(x->api->keys, ret->team)) {
                answer_error(x, 403, NULL, "this is not an upload link of this server");
                return false;
        }
        if (x->api->now_ns() / S_NS > ret->until_s) {
                answer_error(x, 403, NULL, "the upload link has expired: ask for another one");
                return false;
        }
        return true;
}

static void upload_over(struct api_exchange *x, bool is_complete)
{
        (void)is_complete; /* an archive that is there stays; otherwise nothing is left of it */
        upload_stream_drop(TAKE_PTR(x->job));
}

/* There is room again, or the upload is over. */
static void upload_changed(struct upload_stream *up)
{
        struct api_exchange *x = up->arg;
        struct err err = {0};

        if (upload_stream_is_there(up))
                answer_empty(x, 200);
        else if (upload_stream_has_failed(up, &err))
                answer_err(x, &err);
        else
                http_resume_body(x->rq);
}

static size_t upload_on_data(struct http_request *rq, struct str piece)
{
        struct api_exchange *x = rq->user;

        return upload_stream_take(x->job, piece.p, piece.n);
}

static void upload_on_end(struct http_request *rq)
{
        struct api_exchange *x = rq->user;

        upload_stream_finish(x->job);
}

/* The length is known and allowed?  false: the request is answered. */
static bool upload_check_length(struct api_exchange *x)
{
        const struct http1_head *h = x->rq->head;
        uint64_t most = (uint64_t)x->api->conf->upload_max_mb << 20;

        if (h->framing == HTTP1_BODY_CHUNKED || !http1_find(h, "Content-Length")) {
                answer_error(x, 411, NULL, "Content-Length is required");
                return false;
        }
        if (h->content_length > most) {
                answer_error(x, 413, NULL,
                             "the upload has %llu bytes, and at most %u MiB are allowed (setting upload_max_mb)",
                             (unsigned long long)h->content_length, x->api->conf->upload_max_mb);
                return false;
        }
        return true;
}

void handle_upload(struct api_exchange *x)
{
        struct upload_link link;
        struct upload_stream *up = NULL;
        struct err err = {0};

        if (!link_check(x, &link) || !upload_check_length(x))
                return;
        if (upload_stream_begin(x->api->uploads, link.team, link.hash, upload_changed, x, &up, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        x->job = up;
        x->on_over = upload_over;
        http_stream_body(x->rq, upload_on_data, upload_on_end);
}
