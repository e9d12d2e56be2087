/* handle_images.c - images that builds can start from: listed, pulled, loaded from an archive, removed; for the operator, since all
 * teams can use them.
 *
 * Pulling and loading take long.  The answer is a line of JSON for each fact on the way, and a last line with the images or with
 * what went wrong: {"done","total"}, {"unpacking","of","image"}, {"images":[…]}, {"code","message"}. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "control/access/keys.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/handlers.h"
#include "control/build/image_import.h"
#include "control/catalogue/images.h"
#include "image/image_ref.h"
#include "model/json_field.h"

#define LINES "application/x-ndjson"

/* ---- what there is ---- */

static json_t *show_image(const char *name, const char *digest, const char *source, json_int_t bytes, size_t layers)
{
        return json_pack("{s:s,s:s,s:s,s:I,s:I}", "name", name, "digest", digest, "source", source, "bytes", bytes,
                         "layers", (json_int_t)layers);
}

void handle_list_images(struct api_exchange *x)
{
        json_t *list = json_array(), *one;
        char created[CLOCK_TEXT_MAX];

        LIST_EACH (node, &x->api->images->all) {
                const struct image_row *row = LIST_ENTRY(node, struct image_row, node);

                clock_format(row->created_ns, created);
                one = show_image(row->name, row->digest, row->source, row->bytes, json_array_size(row->layers));
                one = json_with(one, "createdAt", json_string(created));
                if (!one || json_array_append_new(list, one) < 0) {
                        json_decref(list);
                        answer_error(x, 503, NULL, "out of memory");
                        return;
                }
        }
        answer_json(x, 200, list);
}

/* By the name that the list shows, or as people write it. */
static int find_name(const struct images *is, const char *text, char out[IMAGE_NAME_MAX], struct err *err)
{
        struct image_ref ref;
        int r;

        if (strlen(text) < IMAGE_NAME_MAX && images_find(is, text)) {
                memcpy(out, text, strlen(text) + 1);
                return 0;
        }
        r = image_ref_parse(str_of(text), &ref, err);
        if (r < 0)
                return r;
        image_ref_name(&ref, out);
        return images_find(is, out) ? 0 : err_set(err, ERR_NOT_FOUND, "there is no image '%.200s' here", out);
}

void handle_remove_image(struct api_exchange *x)
{
        AUTO_FREE char *text = NULL;
        char name[IMAGE_NAME_MAX];
        struct err err = {0};

        if (url_decode_dup(x->segment, false, &text) < 0) {
                answer_error(x, 400, NULL, "the name in the path is not well formed");
                return;
        }
        if (find_name(x->api->images, text, name, &err) < 0 || images_remove(x->api->images, name, &err) < 0)
                answer_err(x, &err);
        else
                answer_empty(x, 204);
}

/* ---- one that is fetched ---- */

struct image_job {
        struct api_exchange *x;
        struct image_import import;
        bool is_streaming; /* the answer has begun */
        struct io archive; /* the end of a pipe into which the body goes; fd -1: none */
};

static void close_archive(struct image_job *job)
{
        if (job->archive.fd < 0)
                return;
        loop_del(&job->archive);
        (void)close(job->archive.fd);
        job->archive.fd = -1;
}

static void image_over(struct api_exchange *x, bool is_complete)
{
        struct image_job *job = x->job;

        (void)is_complete; /* a client that left: what is unpacked stays in the cache */
        image_import_cancel(&job->import);
        close_archive(job);
        free(job);
        x->job = NULL;
}

static void write_line(struct image_job *job, json_t *line)
{
        AUTO_FREE char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;

        if (text) {
                (void)http_write(job->x->rq, text, strlen(text)); /* a client that is gone is told of by on_close */
                (void)http_write(job->x->rq, "\n", 1);
        }
        json_decref(line);
}

static void begin_lines(struct image_job *job)
{
        timer_clear(&job->x->overdue); /* every step on the way has an end of its own */
        job->is_streaming = true;
        http_start(job->x->rq, 200, LINES, NULL, -1);
}

static void image_progress(struct image_import *im, const json_t *fact)
{
        struct image_job *job = CONTAINER_OF(im, struct image_job, import);

        if (job->is_streaming && !http_is_full(job->x->rq))
                write_line(job, json_deep_copy(fact));
}

static json_t *show_rows(const json_t *rows, const char *source)
{
        json_t *list = json_array(), *row;
        size_t i;

        json_array_foreach ((json_t *)(uintptr_t)rows, i, row)
                (void)json_array_append_new(list, show_image(json_string_value(json_object_get(row, "name")),
                                                             json_string_value(json_object_get(row, "digest")), source,
                                                             json_integer_value(json_object_get(row, "bytes")),
                                                             json_array_size(json_object_get(row, "layers"))));
        return json_pack("{s:o}", "images", list);
}

static void image_done(struct image_import *im, const json_t *rows, const struct err *err)
{
        struct image_job *job = CONTAINER_OF(im, struct image_job, import);
        struct api_exchange *x = job->x;

        close_archive(job);
        if (err && !job->is_streaming) {
                answer_err(x, err);
                return;
        }
        if (!job->is_streaming)
                begin_lines(job);
        if (err)
                write_line(job, json_pack("{s:i,s:o}", "code", (int)answer_status_of(err), "message",
                                          answer_text(err->msg)));
        else
                write_line(job, show_rows(rows, im->source));
        http_end(x->rq);
}

static struct image_job *image_job_create(struct api_exchange *x, const char *source)
{
        struct image_job *job = calloc(1, sizeof(*job));

        if (!job) {
                answer_error(x, 503, NULL, "out of memory");
                return NULL;
        }
        job->x = x;
        job->archive.fd = -1;
        job->import = (struct image_import){.all = x->api->builds,
                                            .team = x->team->no,
                                            .source = source,
                                            .on_progress = image_progress,
                                            .on_done = image_done};
        x->job = job;
        x->on_over = image_over;
        return job;
}

void handle_pull_image(struct api_exchange *x)
{
        const char *image = NULL;
        struct image_ref ref;
        struct image_job *job;
        struct err err = {0};
        json_t *auth = NULL;

        if (json_field_text(x->body, "image", &image, &err) < 0 ||
            json_field_object(x->body, "registry", &auth, &err) < 0 || image_ref_parse(str_of(image), &ref, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        job = image_job_create(x, "registry");
        if (!job)
                return;
        begin_lines(job);
        image_import_pull(&job->import, image, auth);
}

/* ---- an archive: the body goes through a pipe to the puller ---- */

static void archive_writable(struct io *io, uint32_t events)
{
        struct image_job *job = CONTAINER_OF(io, struct image_job, archive);

        if (events & (EPOLLERR | EPOLLHUP))
                close_archive(job); /* the puller has had enough */
        else
                loop_want(io, 0);
        http_resume_body(job->x->rq);
}

static size_t archive_data(struct http_request *rq, struct str piece)
{
        struct api_exchange *x = rq->user;
        struct image_job *job = x->job;
        ssize_t n;

        if (job->archive.fd < 0)
                return piece.n; /* the puller has had enough, and its answer is on the way */
        n = write(job->archive.fd, piece.p, piece.n);
        if (n < 0 && errno != EAGAIN) {
                close_archive(job);
                return piece.n;
        }
        if (n < 0 || (size_t)n < piece.n)
                loop_want(&job->archive, EPOLLOUT);
        return n < 0 ? 0 : (size_t)n;
}

static void archive_end(struct http_request *rq)
{
        struct api_exchange *x = rq->user;
        struct image_job *job = x->job;

        close_archive(job); /* the puller reads the end */
        if (!job->is_streaming)
                begin_lines(job);
}

void handle_load_image(struct api_exchange *x)
{
        struct image_job *job = image_job_create(x, "archive");
        AUTO_CLOSE int read_end = -1;
        int ends[2];

        if (!job)
                return;
        if (pipe2(ends, O_CLOEXEC) < 0) {
                answer_error(x, 503, NULL, "no pipe for the archive: %s", strerror(errno));
                return;
        }
        read_end = ends[0]; /* the puller waits for it in a thread: only our end does not block */
        job->archive = (struct io){.fd = ends[1], .on = archive_writable};
        if (fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0 || loop_add(x->api->loop, &job->archive, 0) < 0) {
                (void)close(ends[1]);
                job->archive.fd = -1;
                answer_error(x, 503, NULL, "no pipe for the archive");
                return;
        }
        image_import_load(&job->import, read_end);
        http_stream_body(x->rq, archive_data, archive_end);
}
