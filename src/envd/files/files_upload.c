/* files_upload.c - POST /files: one file as the body, or many in a multipart form, written as they come. */
#include <assert.h>
#include <errno.h>

#include "envd/files/file_metadata.h"
#include "envd/files/file_writer.h"
#include "envd/files/files.h"
#include "envd/files/gunzip.h"
#include "envd/rpc/answer.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/paths.h"
#include "http/server.h"
#include "wire/multipart.h"

#define FILES_MAX 4096             /* of one request */
#define DISCARD_MAX (256ull << 20) /* read and dropped after a failure, so that the client sees the answer */

/*   BODY ──▶ (the end of the body)
 *   FORM ──a part begins──▶ FILE or SKIP ──it ends──▶ FORM ──the last boundary──▶ CLOSED
 *   any of them ──▶ FAILED */
enum upload_state {
        UPLOAD_BODY,   /* the body is the file */
        UPLOAD_FORM,   /* between the parts of a form */
        UPLOAD_FILE,   /* in a part that is a file */
        UPLOAD_SKIP,   /* in another part */
        UPLOAD_CLOSED, /* after the last boundary of the form */
        UPLOAD_FAILED, /* the rest of the body is dropped, then the failure is answered */
};

#define TO(s) (1u << (s))
static const unsigned upload_may[] = {
        [UPLOAD_BODY] = TO(UPLOAD_FORM) | TO(UPLOAD_FAILED),
        [UPLOAD_FORM] = TO(UPLOAD_FILE) | TO(UPLOAD_SKIP) | TO(UPLOAD_CLOSED) | TO(UPLOAD_FAILED),
        [UPLOAD_FILE] = TO(UPLOAD_FORM) | TO(UPLOAD_FAILED),
        [UPLOAD_SKIP] = TO(UPLOAD_FORM) | TO(UPLOAD_FAILED),
        [UPLOAD_CLOSED] = TO(UPLOAD_FAILED),
        [UPLOAD_FAILED] = 0,
};

struct upload {
        struct handler_context *context;
        struct http_request *rq;
        struct user user;
        struct files_query query;
        json_t *metadata; /* NULL: none */
        struct file_writer writer;
        json_t *done; /* files that are complete: items of the answer */
        enum upload_state state;
        struct multipart multipart;
        struct gunzip *gunzip; /* owned; NULL: the body is not compressed */
        struct buf carry;      /* multipart: bytes that may belong to a boundary */
        int64_t announced;     /* Content-Length, or -1 */
        unsigned status;       /* of the answer to a failure */
        struct fault fault;
        uint64_t discarded;
};

static void upload_free(struct upload *up)
{
        user_done(&up->user);
        files_query_done(&up->query);
        json_decref(up->metadata);
        json_decref(up->done);
        file_writer_done(&up->writer);
        multipart_done(&up->multipart);
        gunzip_free(up->gunzip);
        buf_done(&up->carry);
        fault_done(&up->fault);
        free(up);
}

static void upload_closed(struct http_request *rq, bool is_complete)
{
        (void)is_complete;
        upload_free(rq->user);
}

static void upload_go(struct upload *up, enum upload_state next) /* the only writer of up->state */
{
        assert(upload_may[up->state] & TO(next));
        up->state = next;
}

static void upload_fail(struct upload *up, unsigned status)
{
        upload_go(up, UPLOAD_FAILED);
        up->status = status;
        close_fd(&up->writer.fd);
}

/* Has this request written the path already? */
static bool upload_has_written(const struct upload *up, const char *path)
{
        const json_t *item;
        size_t i;

        json_array_foreach (up->done, i, item) {
                if (strcmp(json_string_value(json_object_get(item, "path")), path) == 0)
                        return true;
        }
        return false;
}

/* Begin a file; `given` is the path as the client wrote it. */
static void upload_begin_file(struct upload *up, const char *given)
{
        char *path;

        if (path_expand(given, &up->user, up->context->settings.default_workdir, &path, &up->fault) < 0) {
                upload_fail(up, 400);
                return;
        }
        if (upload_has_written(up, path)) {
                (void)fault_set(&up->fault, CONNECT_INVALID_ARGUMENT,
                                "you cannot upload multiple files to the same path '%s' in one upload request, only "
                                "the first specified file was uploaded",
                                path);
                free(path);
                upload_fail(up, 400);
                return;
        }
        if (file_writer_open(&up->writer, path, &up->user, up->context->keep_user, &up->fault) < 0)
                upload_fail(up, file_writer_fault_status(&up->fault));
}

static void upload_end_file(struct upload *up)
{
        json_t *item, *metadata;

        if (file_writer_finish(&up->writer, up->metadata, up->announced, &up->fault) < 0) {
                upload_fail(up, file_writer_fault_status(&up->fault));
                return;
        }
        item = json_pack("{s:o, s:o, s:s}", "path", json_text(str_of(up->writer.path)), "name",
                         json_text(path_base(up->writer.path)), "type", "file");
        metadata = up->metadata ? file_metadata_read(up->writer.path) : NULL;
        if (metadata)
                (void)json_object_set_new(item, "metadata", metadata);
        (void)json_array_append_new(up->done, item);
}

/* Multipart */

static void upload_begin_part(struct upload *up)
{
        struct multipart *m = &up->multipart;
        const char *name = buf_cstr(&m->name), *file = m->has_filename ? buf_cstr(&m->filename) : "";

        upload_go(up, name && strcmp(name, "file") == 0 ? UPLOAD_FILE : UPLOAD_SKIP);
        if (up->state == UPLOAD_SKIP)
                return;
        if (up->query.path && up->query.path[0])
                file = up->query.path;
        if (!file || !file[0]) {
                (void)fault_set(&up->fault, CONNECT_INVALID_ARGUMENT,
                                "path query parameter or a file name in the form is required");
                upload_fail(up, 400);
        } else if (m->has_filename && str_has_nul((struct str){(char *)buf_at(&m->filename), m->filename.len})) {
                (void)fault_set(&up->fault, CONNECT_INVALID_ARGUMENT, "a file name with a NUL byte");
                upload_fail(up, 400);
        } else if (json_array_size(up->done) >= FILES_MAX) {
                (void)fault_set(&up->fault, CONNECT_INVALID_ARGUMENT, "more than %d files in one request", FILES_MAX);
                upload_fail(up, 400);
        } else {
                upload_begin_file(up, file);
        }
}

/* Feed bytes to the multipart decoder; returns how many of them it used. */
static size_t upload_feed_multipart(struct upload *up, struct str bytes)
{
        size_t total = 0;

        while (up->state != UPLOAD_FAILED) {
                struct str data = {0};
                size_t used = 0;
                enum multipart_step step =
                        multipart_feed(&up->multipart, bytes.p + total, bytes.n - total, &used, &data);

                total += used;
                switch (step) {
                case MULTIPART_MORE: return total;
                case MULTIPART_PART: upload_begin_part(up); break;
                case MULTIPART_DATA:
                        if (up->state == UPLOAD_FILE &&
                            file_writer_write(&up->writer, data, up->announced, &up->fault) < 0)
                                upload_fail(up, file_writer_fault_status(&up->fault));
                        break;
                case MULTIPART_END:
                        if (up->state == UPLOAD_FILE)
                                upload_end_file(up);
                        if (up->state != UPLOAD_FAILED)
                                upload_go(up, UPLOAD_FORM);
                        break;
                case MULTIPART_DONE: upload_go(up, UPLOAD_CLOSED); return bytes.n;
                case MULTIPART_BAD:
                case MULTIPART_TOO_BIG:
                        (void)fault_set(&up->fault, CONNECT_INTERNAL, "error parsing multipart form: %s",
                                        up->multipart.why ? up->multipart.why : "part head too long");
                        upload_fail(up, 500);
                        break;
                }
        }
        return bytes.n;
}

static void upload_take_multipart(struct upload *up, struct str piece)
{
        size_t used;

        if (up->state == UPLOAD_CLOSED)
                return;
        if (!up->carry.len) {
                used = upload_feed_multipart(up, piece);
                piece = (struct str){piece.p + used, piece.n - used};
        }
        if (!piece.n)
                return;
        if (buf_add(&up->carry, piece.p, piece.n) < 0) {
                (void)fault_set(&up->fault, CONNECT_INTERNAL, "error reading form: out of memory");
                upload_fail(up, 500);
                return;
        }
        used = upload_feed_multipart(up, (struct str){(const char *)buf_at(&up->carry), up->carry.len});
        buf_consume(&up->carry, used);
}

/* The body */

static void upload_answer(struct upload *up)
{
        json_t *done;

        if (up->state == UPLOAD_FAILED) {
                answer_error(up->rq, up->status, "%s", fault_text(&up->fault));
                return;
        }
        done = up->done;
        up->done = NULL;
        answer_json(up->rq, 200, done);
}

static void upload_take(struct upload *up, struct str piece) /* a piece of the body, decompressed */
{
        if (up->state != UPLOAD_BODY)
                upload_take_multipart(up, piece);
        else if (file_writer_write(&up->writer, piece, up->announced, &up->fault) < 0)
                upload_fail(up, file_writer_fault_status(&up->fault));
}

static void upload_decompress(struct upload *up, struct str piece)
{
        struct str plain = {0};
        int r = 0;

        while (up->state != UPLOAD_FAILED && (r = gunzip_next(up->gunzip, &piece, &plain)) > 0)
                upload_take(up, plain);
        if (up->state != UPLOAD_FAILED && r < 0) {
                (void)fault_set(&up->fault, CONNECT_INVALID_ARGUMENT, "error decompressing request body: %s",
                                r == -EINVAL ? "invalid gzip data" : "out of memory");
                upload_fail(up, 400);
        }
}

static size_t upload_on_data(struct http_request *rq, struct str piece)
{
        struct upload *up = rq->user;

        if (up->state == UPLOAD_FAILED) {
                up->discarded += piece.n;
                if (up->discarded > DISCARD_MAX)
                        upload_answer(up);
        } else if (up->gunzip) {
                upload_decompress(up, piece);
        } else {
                upload_take(up, piece);
        }
        return piece.n;
}

static void upload_on_end(struct http_request *rq)
{
        struct upload *up = rq->user;

        if (up->state != UPLOAD_FAILED && up->gunzip && !gunzip_is_done(up->gunzip)) {
                (void)fault_set(&up->fault, CONNECT_INVALID_ARGUMENT,
                                "error decompressing request body: unexpected EOF");
                upload_fail(up, 400);
        } else if (up->state == UPLOAD_BODY) {
                upload_end_file(up);
        } else if (up->state != UPLOAD_FAILED && up->state != UPLOAD_CLOSED) {
                (void)fault_set(&up->fault, CONNECT_INTERNAL, "error reading form: unexpected EOF");
                upload_fail(up, 500);
        }
        upload_answer(up);
}

/* Check Content-Encoding.  false: the request has been answered. */
static bool upload_check_encoding(struct upload *up)
{
        struct str encoding = http1_value(up->rq->head, "Content-Encoding");

        if (!encoding.n || str_iis(encoding, "identity"))
                return true;
        if (!str_iis(encoding, "gzip")) {
                answer_error(up->rq, 400,
                             "error decompressing request body: unsupported Content-Encoding: %.*s, supported: [gzip]",
                             STR_ARG(encoding));
                return false;
        }
        up->announced = -1; /* Content-Length counts compressed bytes */
        up->gunzip = gunzip_create();
        if (!up->gunzip)
                answer_error(up->rq, 503, "out of memory");
        return up->gunzip;
}

/* Is the body a multipart form or the file itself?  false: the request has been answered. */
static bool upload_check_type(struct upload *up)
{
        struct str value = http1_value(up->rq->head, "Content-Type"), rest = value, type;

        (void)str_cut(&rest, ';', &type);
        type = str_trim(type);
        if (str_iis(type, "application/octet-stream")) {
                if (up->query.path && up->query.path[0])
                        return true;
                answer_error(up->rq, 400, "path query parameter is required for raw body upload");
                return false;
        }
        if (!str_iis(type, "multipart/form-data")) {
                answer_error(up->rq, 400,
                             "unsupported content type: %.*s, expected multipart/form-data or application/octet-stream",
                             STR_ARG(value));
                return false;
        }
        if (multipart_init(&up->multipart, value) < 0) {
                answer_error(up->rq, 500, "error parsing multipart form: no multipart boundary param in Content-Type");
                return false;
        }
        upload_go(up, UPLOAD_FORM);
        return true;
}

/* All that comes before the body.  false: the request has been answered. */
static bool upload_prepare(struct upload *up)
{
        if (!files_admit(up->context, up->rq, "write", &up->query, &up->user) || !upload_check_encoding(up) ||
            !upload_check_type(up))
                return false;
        if (file_metadata_from_headers(up->rq->head, &up->metadata, &up->fault) < 0) {
                answer_error(up->rq, 400, "%s", fault_text(&up->fault));
                return false;
        }
        up->done = json_array();
        if (!up->done) {
                answer_error(up->rq, 503, "out of memory");
                return false;
        }
        if (up->state == UPLOAD_BODY)
                upload_begin_file(up, up->query.path);
        return true;
}

void files_upload(struct handler_context *context, struct http_request *rq)
{
        struct upload *up = calloc(1, sizeof(*up));

        if (!up) {
                answer_error(rq, 503, "out of memory");
                return;
        }
        *up = (struct upload){.context = context, .rq = rq, .announced = -1};
        if (rq->head->framing == HTTP1_BODY_LENGTH)
                up->announced = (int64_t)rq->head->content_length;
        file_writer_init(&up->writer);
        buf_init(&up->carry, 1u << 20);
        rq->user = up;
        rq->on_close = upload_closed;
        if (upload_prepare(up))
                http_stream_body(rq, upload_on_data, upload_on_end);
}
