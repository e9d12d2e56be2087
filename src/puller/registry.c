#include "puller/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/conf.h"
#include "puller/limits.h"
#include "puller/registry_request.h"

#define STEP_MS 200

int registry_open(struct registry *r, const struct registry_options *o, struct err *err)
{
        int e;

        *r = (struct registry){.conf = o->conf, .limits = o->limits, .auth = o->auth, .ref = *o->ref};
        e = registry_origin(o->conf, o->ref, r->origin, err);
        if (e == 0)
                e = registry_url_parse(str_of(r->origin), &r->origin_url, err);
        if (e == 0)
                e = fetcher_create(o->conf, o->limits, o->is_cancelled, &r->fetcher, err);
        r->is_mirror = json_object_get(o->conf->registries, o->ref->host) != NULL;
        return e;
}

void registry_close(struct registry *r)
{
        if (r->authorization)
                explicit_bzero(r->authorization, strlen(r->authorization));
        free(r->authorization);
        r->authorization = NULL;
        r->fetcher = fetcher_free(r->fetcher);
}

static int run(struct registry_request *q, struct err *err)
{
        while (q->state == REQUEST_WAITING || q->state == REQUEST_RUNNING) {
                int e;

                registry_request_advance(q);
                if (q->state != REQUEST_WAITING && q->state != REQUEST_RUNNING)
                        break;
                e = fetcher_step(q->registry->fetcher, STEP_MS, err);
                if (e < 0)
                        return e;
        }
        if (q->state == REQUEST_DONE)
                return 0;
        *err = q->err;
        return err_wrap(err, "%s", q->registry->origin_url.host);
}

static int get_whole(struct registry *r, const char *path, const char *accept, size_t most, struct buf *ret,
                     struct err *err)
{
        struct registry_request q;
        int e;

        e = registry_request_init(&q, r, path, accept, err);
        if (e < 0)
                return e;
        q.options.body_max = most;
        e = run(&q, err);
        if (e == 0) {
                buf_done(ret);
                *ret = q.fetch.body;
                q.fetch.body = (struct buf){0};
                if (ret->len > most)
                        e = err_set(err, ERR_INVALID, "%s: the answer is longer than %zu bytes", r->origin_url.host,
                                    most);
        }
        registry_request_done(&q);
        return e;
}

static void digest_of(const struct buf *b, char out[IMAGE_DIGEST_MAX])
{
        memcpy(out, "sha256:", 7);
        sha256_hex((struct str){(const char *)buf_at(b), b->len}, out + 7);
}

int registry_get_manifest(struct registry *r, const char *version, struct buf *ret, char ret_digest[IMAGE_DIGEST_MAX],
                          struct err *err)
{
        char path[IMAGE_TAG_MAX + 20];
        int e;

        (void)snprintf(path, sizeof(path), "manifests/%s", version);
        e = get_whole(r, path, IMAGE_MANIFEST_TYPES, IMAGE_MANIFEST_BYTES_MAX, ret, err);
        if (e < 0)
                return e;
        digest_of(ret, ret_digest);
        if (image_digest_is_valid(str_of(version)) && strcmp(version, ret_digest) != 0)
                return err_set(err, ERR_INVALID, "%s: manifest '%.19s...' does not match its digest",
                               r->origin_url.host, version);
        return 0;
}

int registry_get_document(struct registry *r, const struct image_blob *blob, struct buf *ret, struct err *err)
{
        char path[IMAGE_DIGEST_MAX + 20], real[IMAGE_DIGEST_MAX];
        int e;

        (void)snprintf(path, sizeof(path), "blobs/%s", blob->digest);
        e = get_whole(r, path, NULL, IMAGE_CONFIG_BYTES_MAX, ret, err);
        if (e < 0)
                return e;
        digest_of(ret, real);
        if (ret->len != blob->bytes)
                return err_set(err, ERR_INVALID, "%s: the configuration has %zu bytes, the manifest says %llu",
                               r->origin_url.host, ret->len, (unsigned long long)blob->bytes);
        if (strcmp(real, blob->digest) != 0)
                return err_set(err, ERR_INVALID, "%s: the configuration does not match its digest", r->origin_url.host);
        return 0;
}

/* ---- blobs ---- */

enum download_state { DOWNLOAD_NEXT, DOWNLOAD_RUNNING, DOWNLOAD_OVER };

struct download {
        enum download_state state;
        const struct image_blob *blob;
        struct blobs *to;
        struct blob_file file; /* open while running */
        struct registry_request request;
        _Atomic uint64_t *done;
};

static int on_restart(void *arg, struct err *err)
{
        struct download *d = arg;

        *d->done -= d->file.bytes;
        return blob_file_restart(&d->file, err);
}

/* The first bytes of an answer: is it what was asked for? */
static int check_answer(struct download *d, struct err *err)
{
        const struct fetch *t = &d->request.fetch;
        uint64_t from = d->request.from_before;

        if (t->status == 206 && (!t->has_range || t->range_from != from))
                return err_set(err, ERR_INVALID, "it sends another part of a layer than asked for");
        if (t->status == 200 && from > 0) { /* all of it, although the rest would have done */
                if (on_restart(d, err) < 0)
                        return -1;
                d->request.from = from = 0;
        }
        if (t->content_length >= 0 && from + (uint64_t)t->content_length != d->blob->bytes)
                return err_set(err, ERR_INVALID, "layer '%.19s...' has %llu bytes, the manifest says %llu",
                               d->blob->digest, (unsigned long long)(from + (uint64_t)t->content_length),
                               (unsigned long long)d->blob->bytes);
        return 0;
}

static int on_data(void *arg, bool is_first, const void *p, size_t n, struct err *err)
{
        struct download *d = arg;
        int e = is_first ? check_answer(d, err) : 0;

        if (e == 0 && n > d->blob->bytes - d->file.bytes)
                e = err_set(err, ERR_INVALID, "layer '%.19s...' has more bytes than the manifest says (%llu)",
                            d->blob->digest, (unsigned long long)d->blob->bytes);
        if (e == 0)
                e = blob_file_write(&d->file, p, n, err);
        if (e < 0)
                return e;
        d->request.from += n;
        *d->done += n;
        return 0;
}

static int download_begin(struct download *d, struct registry *r, struct err *err)
{
        char path[IMAGE_DIGEST_MAX + 20];
        int e;

        (void)snprintf(path, sizeof(path), "blobs/%s", d->blob->digest);
        e = registry_request_init(&d->request, r, path, NULL, err);
        if (e == 0)
                e = blob_file_resume(&d->file, d->to, d->blob->digest, d->blob->bytes, err);
        if (e < 0)
                return e;
        d->request.options.on_data = on_data;
        d->request.options.arg = d;
        d->request.on_restart = on_restart;
        d->request.from = d->file.bytes;
        *d->done += d->file.bytes;
        if (d->file.bytes == d->blob->bytes)
                d->request.state = REQUEST_DONE; /* only its end was missing */
        return 0;
}

static void download_release(struct download *d)
{
        registry_request_done(&d->request);
        blobs_release(d->to, d->blob->digest);
        d->state = DOWNLOAD_OVER;
}

/* An answer that ended early without the connection being cut brings less than was announced. */
static int download_finish(struct download *d, struct registry *r, struct err *err)
{
        if (d->file.bytes < d->blob->bytes) {
                blob_file_close(&d->file, false);
                return err_set(err, ERR_INVALID, "%s: layer '%.19s...' ends after %llu of %llu bytes",
                               r->origin_url.host, d->blob->digest, (unsigned long long)d->file.bytes,
                               (unsigned long long)d->blob->bytes);
        }
        if (blob_file_finish(&d->file, d->blob->digest, NULL, NULL, err) < 0)
                return err_wrap(err, "%s: layer", r->origin_url.host);
        return 0;
}

static int download_advance(struct download *d, struct registry *r, struct err *err)
{
        int e = 0;

        if (d->state == DOWNLOAD_NEXT) {
                if (blobs_has(d->to, d->blob->digest)) {
                        *d->done += d->blob->bytes;
                        d->state = DOWNLOAD_OVER;
                        return 0;
                }
                if (!blobs_try_claim(d->to, d->blob->digest))
                        return 0; /* another image has the same layer under way */
                d->state = DOWNLOAD_RUNNING;
                d->file.fd = -1;
                e = download_begin(d, r, err);
        }
        if (e == 0 && d->state == DOWNLOAD_RUNNING) {
                registry_request_advance(&d->request);
                if (d->request.state == REQUEST_DONE) {
                        e = download_finish(d, r, err);
                        download_release(d);
                } else if (d->request.state == REQUEST_FAILED) {
                        *err = d->request.err;
                        e = err_wrap(err, "%s", r->origin_url.host);
                }
        }
        return e;
}

/* What came so far is kept for the next attempt, unless it is wrong. */
static void download_stop(struct download *d, bool keep)
{
        if (d->state != DOWNLOAD_RUNNING)
                return;
        blob_file_close(&d->file, keep);
        download_release(d);
}

static int advance_all(struct download *all, size_t count, struct registry *r, size_t *ret_open, struct err *err)
{
        size_t running = 0, open = 0;

        for (size_t i = 0; i < count; i++) {
                bool may = all[i].state == DOWNLOAD_RUNNING || running < r->limits->blobs_at_once;

                if (all[i].state == DOWNLOAD_OVER || !may) {
                        open += all[i].state != DOWNLOAD_OVER;
                        continue;
                }
                if (download_advance(&all[i], r, err) < 0)
                        return -1;
                running += all[i].state == DOWNLOAD_RUNNING;
                open += all[i].state != DOWNLOAD_OVER;
        }
        *ret_open = open;
        return 0;
}

int registry_get_blobs(struct registry *r, struct blobs *to, const struct image_blob *blobs, size_t count,
                       _Atomic uint64_t *done, struct err *err)
{
        struct download *all = calloc(count ? count : 1, sizeof(*all));
        size_t open = 0;
        int e;

        if (!all)
                return err_sys(err, -ENOMEM, "download");
        for (size_t i = 0; i < count; i++)
                all[i] = (struct download){.blob = &blobs[i], .to = to, .done = done, .file.fd = -1};
        do {
                e = advance_all(all, count, r, &open, err);
                if (e == 0 && open > 0)
                        e = fetcher_step(r->fetcher, STEP_MS, err);
        } while (e == 0 && open > 0);
        for (size_t i = 0; i < count; i++)
                download_stop(&all[i], err->kind != ERR_INVALID);
        free(all);
        return e;
}
