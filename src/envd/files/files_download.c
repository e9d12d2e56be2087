/* files_download.c - GET /files: a file, whole or in ranges, under conditions, compressed if the client asks for it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "envd/files/accept_encoding.h"
#include "envd/files/content_headers.h"
#include "envd/files/file_stream.h"
#include "envd/files/files.h"
#include "envd/files/gzip.h"
#include "envd/rpc/answer.h"
#include "envd/rpc/fault.h"
#include "envd/rpc/handler_context.h"
#include "envd/rpc/paths.h"
#include "http/server.h"

#define SMALL_MAX (64u << 10)
#define BOUNDARY_LEN 32
#define RANGE_TEXT_MAX 80

struct download {
        struct loop *loop;
        struct http_request *rq;
        const char *path;
        int fd; /* owned until http_send_file() or a file_stream takes it */
        struct stat st;
        bool is_compressed;
        const char *type;
        struct buf disposition;
        char modified[HTTP_DATE_MAX];
};

/* Choose the encoding of the answer: ranges and conditions need the file as it is.  false: the request has been
 * answered. */
static bool download_choose_encoding(struct download *d)
{
        const struct http1_head *head = d->rq->head;
        enum accept_encoding coding = accept_encoding_choose(http1_value(head, "Accept-Encoding"));
        bool must_be_plain = http1_find(head, "Range") || http1_find(head, "If-Range") ||
                             http1_find(head, "If-Modified-Since") || http1_find(head, "If-Unmodified-Since") ||
                             http1_find(head, "If-Match") || http1_find(head, "If-None-Match");

        d->is_compressed = !must_be_plain && (coding == ACCEPT_GZIP || coding == ACCEPT_GZIP_ONLY);
        if (coding == ACCEPT_NOTHING_KNOWN)
                answer_error(d->rq, 406,
                             "error parsing Accept-Encoding: no acceptable encoding found, supported: [gzip]");
        else if (must_be_plain && coding == ACCEPT_GZIP_ONLY)
                answer_error(d->rq, 406, "identity encoding not acceptable for Range or conditional request");
        else
                return true;
        return false;
}

/* Open and check the file.  false: the request has been answered. */
static bool download_open(struct download *d)
{
        if (stat(d->path, &d->st) < 0) {
                if (errno == ENOENT || errno == ENOTDIR)
                        answer_error(d->rq, 404, "path '%s' does not exist", d->path);
                else
                        answer_error(d->rq, 500, "error checking if path exists '%s': %s", d->path, errno_text(errno));
        } else if (S_ISDIR(d->st.st_mode)) {
                answer_error(d->rq, 400, "path '%s' is a directory", d->path);
        } else if (!S_ISREG(d->st.st_mode)) { /* a pipe or device may never come to an end */
                answer_error(d->rq, 400, "path '%s' is not a regular file", d->path);
        } else if (download_choose_encoding(d)) {
                d->fd = open(d->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
                if (d->fd >= 0 && fstat(d->fd, &d->st) == 0 && S_ISREG(d->st.st_mode))
                        return true;
                answer_error(d->rq, 500, "error opening file '%s': %s", d->path,
                             d->fd < 0 ? errno_text(errno) : "it changed meanwhile");
        }
        return false;
}

static int download_describe(struct download *d)
{
        struct str name = path_base(d->path);
        char head[CONTENT_SNIFF_MAX];
        ssize_t n;

        d->type = content_type_of_name(name);
        if (!d->type) {
                n = pread(d->fd, head, sizeof(head), 0);
                d->type = content_type_of_bytes(head, n > 0 ? (size_t)n : 0);
        }
        http_date_format(d->st.st_mtim.tv_sec, d->modified);
        return content_disposition(name, &d->disposition);
}

static void download_headers(struct download *d, struct answer_headers *h)
{
        answer_headers_init(h, d->rq);
        answer_headers_add(h, "Vary", "Accept-Encoding");
        answer_headers_add(h, "Content-Disposition", buf_cstr(&d->disposition));
        answer_headers_add(h, "Last-Modified", d->modified);
        if (d->is_compressed)
                answer_headers_add(h, "Content-Encoding", "gzip");
        else
                answer_headers_add(h, "Accept-Ranges", "bytes");
}

/* If-Modified-Since and If-Unmodified-Since: 0 go on, or the status that answers. */
static unsigned download_check_conditions(const struct download *d)
{
        const struct http1_head *head = d->rq->head;
        time_t t;

        if (http_date_parse(http1_value(head, "If-Unmodified-Since"), &t) == 0 && d->st.st_mtim.tv_sec > t)
                return 412;
        if (http_date_parse(http1_value(head, "If-Modified-Since"), &t) == 0 && d->st.st_mtim.tv_sec <= t)
                return 304;
        return 0;
}

static int download_ranges(const struct download *d, struct byte_range ranges[BYTE_RANGES_MAX])
{
        const struct http1_head *head = d->rq->head;
        struct str unless = http1_value(head, "If-Range");
        time_t t;

        if (unless.n && (http_date_parse(unless, &t) < 0 || d->st.st_mtim.tv_sec != t))
                return 0; /* the file has changed: send all of it */
        return byte_ranges_parse(http1_value(head, "Range"), (uint64_t)d->st.st_size, ranges);
}

static void range_text(const struct byte_range *r, uint64_t size, char out[RANGE_TEXT_MAX])
{
        (void)snprintf(out, RANGE_TEXT_MAX, "bytes %llu-%llu/%llu", (unsigned long long)r->from,
                       (unsigned long long)(r->from + r->length - 1), (unsigned long long)size);
}

static void download_send_one_range(struct download *d, const struct byte_range *r)
{
        char text[RANGE_TEXT_MAX];
        struct answer_headers h;

        range_text(r, (uint64_t)d->st.st_size, text);
        download_headers(d, &h);
        answer_headers_add(&h, "Content-Range", text);
        http_start(d->rq, 206, d->type, h.list, (int64_t)r->length);
        http_send_file(d->rq, TAKE_FD(d->fd), r->from, r->length);
}

static int download_add_range(struct file_stream *p, const struct download *d, const struct byte_range *r,
                              const char *boundary)
{
        char text[RANGE_TEXT_MAX];
        struct file_stream_part *s = file_stream_add(p, r->from, r->length);

        range_text(r, (uint64_t)d->st.st_size, text);
        return s ? buf_addf(&s->text, "\r\n--%s\r\nContent-Range: %s\r\nContent-Type: %s\r\n\r\n", boundary, text,
                            d->type)
                 : -E2BIG;
}

static void download_send_many_ranges(struct download *d, const struct byte_range *ranges, int count)
{
        char boundary[BOUNDARY_LEN + 1], type[64 + BOUNDARY_LEN];
        struct file_stream *p = file_stream_create(TAKE_FD(d->fd));
        struct file_stream_part *last;
        struct answer_headers h;
        int r = p ? 0 : -ENOMEM;

        random_id(boundary, BOUNDARY_LEN);
        for (int i = 0; r == 0 && i < count; i++)
                r = download_add_range(p, d, &ranges[i], boundary);
        last = r == 0 ? file_stream_add(p, 0, 0) : NULL;
        if (!last || buf_addf(&last->text, "\r\n--%s--\r\n", boundary) < 0) {
                file_stream_free(p);
                answer_error(d->rq, 500, "error reading file '%s': out of memory", d->path);
                return;
        }
        (void)snprintf(type, sizeof(type), "multipart/byteranges; boundary=%s", boundary);
        download_headers(d, &h);
        http_start(d->rq, 206, type, h.list, (int64_t)file_stream_length(p));
        file_stream_start(p, d->loop, d->rq);
}

static void download_refuse_range(struct download *d)
{
        char text[RANGE_TEXT_MAX];
        struct answer_headers h;

        (void)snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)d->st.st_size);
        answer_headers_init(&h, d->rq);
        answer_headers_add(&h, "Content-Range", text);
        http_reply(d->rq, 416, "text/plain; charset=utf-8", h.list, "invalid range\n", 14);
}

/* Send the whole file in pieces, without a Content-Length. */
static void download_send_pieces(struct download *d)
{
        struct file_stream *p = file_stream_create(TAKE_FD(d->fd));
        struct answer_headers h;

        if (p && d->is_compressed)
                p->gzip = gzip_create();
        if (!p || (d->is_compressed && !p->gzip) || !file_stream_add(p, 0, FILE_STREAM_TO_END)) {
                file_stream_free(p);
                answer_error(d->rq, 500, "error reading file '%s': out of memory", d->path);
                return;
        }
        download_headers(d, &h);
        http_start(d->rq, 200, d->type, h.list, -1);
        file_stream_start(p, d->loop, d->rq);
}

/* Size 0 may mean that the size is not known (procfs): read the file and see. */
static void download_send_unsized(struct download *d)
{
        AUTO_BUF struct buf b = BUF_INIT(SMALL_MAX);
        struct answer_headers h;
        ssize_t n;

        do {
                n = buf_fill(&b, d->fd, SMALL_MAX);
        } while (n > 0);
        if (n == -E2BIG) {
                download_send_pieces(d);
        } else if (n < 0 && n != -EAGAIN) {
                answer_error(d->rq, 500, "error reading file '%s': %s", d->path, errno_text((int)-n));
        } else {
                download_headers(d, &h);
                http_reply(d->rq, 200, d->type, h.list, buf_at(&b), b.len);
        }
}

static void download_send_all(struct download *d)
{
        struct answer_headers h;

        if (d->is_compressed) {
                download_send_pieces(d);
                return;
        }
        if (d->st.st_size == 0) {
                download_send_unsized(d);
                return;
        }
        download_headers(d, &h);
        http_start(d->rq, 200, d->type, h.list, d->st.st_size);
        http_send_file(d->rq, TAKE_FD(d->fd), 0, (uint64_t)d->st.st_size);
}

static void download_deliver(struct download *d)
{
        struct byte_range ranges[BYTE_RANGES_MAX];
        unsigned status = download_check_conditions(d);
        struct answer_headers h;
        int n;

        if (status) {
                download_headers(d, &h);
                http_reply(d->rq, status, NULL, h.list, NULL, 0);
                return;
        }
        n = download_ranges(d, ranges);
        if (n < 0)
                download_refuse_range(d);
        else if (n == 0)
                download_send_all(d);
        else if (n == 1)
                download_send_one_range(d, &ranges[0]);
        else
                download_send_many_ranges(d, ranges, n);
}

void files_download(struct handler_context *context, struct http_request *rq)
{
        AUTO_FILES_QUERY struct files_query q = {0};
        AUTO_USER struct user u = {0};
        AUTO_FREE char *path = NULL;
        struct download d = {.loop = context->loop, .rq = rq, .fd = -1, .disposition = BUF_INIT(4096)};

        if (!files_admit(context, rq, "read", &q, &u) || !files_resolve(context, rq, q.path, &u, &path))
                return;
        d.path = path;
        if (download_open(&d)) {
                if (download_describe(&d) < 0 || !buf_cstr(&d.disposition))
                        answer_error(rq, 500, "error opening file '%s': out of memory", path);
                else
                        download_deliver(&d);
        }
        buf_done(&d.disposition);
        close_fd(&d.fd);
}
