#include "envd/build/build_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "envd/rpc/answer.h"
#include "envd/rpc/handler_context.h"
#include "sys/proc.h"

#define OOM_SCORE_STEP 100
#define OOM_SCORE_MAX 1000
#define REST_BYTES_MAX (64u << 20) /* of a body that nobody reads: read so that the answer arrives */
#define REST_WAIT_S 2

/* ---- writing ---- */

static int write_all(int fd, struct iovec *iov, int count)
{
        while (count) {
                struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)count};
                ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                while (count && (size_t)n >= iov->iov_len) {
                        n -= (ssize_t)iov->iov_len;
                        iov++;
                        count--;
                }
                if (count)
                        *iov = (struct iovec){(char *)iov->iov_base + n, iov->iov_len - (size_t)n};
        }
        return 0;
}

static int write_head(struct build_process *p, unsigned status, const char *content_type, int64_t length)
{
        AUTO_BUF struct buf head = BUF_INIT(4096);
        struct iovec iov;
        int r;

        p->has_answered = true;
        if ((r = http1_write_status_line(&head, status, (struct str){0})) < 0 ||
            (r = http1_write_header(&head, STR("Content-Type"), str_of(content_type))) < 0 ||
            (r = http1_write_header(&head, STR("Connection"), STR("close"))) < 0)
                return r;
        r = length >= 0 ? http1_write_headerf(&head, "Content-Length", "%lld", (long long)length)
                        : http1_write_header(&head, STR("Transfer-Encoding"), STR("chunked"));
        if (r < 0 || (r = http1_write_end(&head)) < 0)
                return r;
        iov = (struct iovec){buf_at(&head), head.len};
        return write_all(p->fd, &iov, 1);
}

void build_answer(struct build_process *p, unsigned status, json_t *body)
{
        AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        struct iovec iov = {text, text ? strlen(text) : 0};

        json_decref(body);
        if (!text)
                status = 503;
        if (write_head(p, status, "application/json", (int64_t)iov.iov_len) == 0)
                (void)write_all(p->fd, &iov, 1); /* nobody is left to be told */
}

static unsigned status_of_kind(enum err_kind kind)
{
        switch (kind) {
        case ERR_INVALID: return 400;
        case ERR_DENIED: return 403;
        case ERR_NOT_FOUND: return 404;
        case ERR_CONFLICT: return 409;
        case ERR_TOO_LARGE: return 413;
        case ERR_LIMIT: return 503;
        case ERR_NO_SPACE: return 507;
        default: return 500;
        }
}

void build_answer_error(struct build_process *p, const struct err *err)
{
        unsigned status = status_of_kind(err->kind);
        json_t *message = json_string(err->msg);

        if (!message) /* a name in it that is no UTF-8 */
                message = json_string("a file has a name that is not UTF-8");
        build_answer(p, status, json_pack("{s:i, s:o}", "code", (int)status, "message", message));
}

int build_stream_begin(struct build_process *p, const char *content_type)
{
        return write_head(p, 200, content_type, -1);
}

int build_stream_write(struct build_process *p, const void *bytes, size_t n)
{
        char head[HTTP1_CHUNK_HEAD_MAX];
        struct iovec iov[] = {{head, http1_chunk_head(head, n)}, {(void *)(uintptr_t)bytes, n}, {"\r\n", 2}};

        return n ? write_all(p->fd, iov, 3) : 0;
}

int build_stream_end(struct build_process *p)
{
        struct iovec iov = {"0\r\n\r\n", 5};

        return write_all(p->fd, &iov, 1);
}

/* ---- the child ---- */

static void raise_oom_score(void)
{
        char text[16] = "";
        int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC), score;

        if (fd < 0)
                return;
        if (read(fd, text, sizeof(text) - 1) > 0) {
                score = (int)strtol(text, NULL, 10) + OOM_SCORE_STEP;
                (void)!dprintf(fd, "%d", score > OOM_SCORE_MAX ? OOM_SCORE_MAX : score);
        }
        (void)close(fd);
}

/* Closing a socket with unread bytes resets it, and the answer may be lost on its way. */
static void read_rest(struct build_process *p)
{
        const struct timeval wait = {.tv_sec = REST_WAIT_S};
        size_t total = 0;
        ssize_t n;

        (void)shutdown(p->fd, SHUT_WR);
        (void)setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
        while (p->body.mem && total < REST_BYTES_MAX && (n = read(p->fd, p->body.mem, BYTE_SOURCE_PIECE)) > 0)
                total += (size_t)n;
}

static void run_child(const struct handler_context *context, struct http_request *rq, build_work work)
{
        struct build_process p = {.context = context, .url = &rq->url};
        struct http_taken taken;
        int keep[1];

        http_take(rq, &taken);
        keep[0] = p.fd = taken.fd;
        (void)sys_close_except(keep, 1);
        (void)sys_signals_default();
        (void)prctl(PR_SET_NAME, "envd-build", 0, 0, 0);
        (void)signal(SIGPIPE, SIG_IGN);
        (void)fcntl(p.fd, F_SETFL, 0); /* the daemon has no copy of it any more, or closes it in a moment */
        raise_oom_score();
        if (byte_source_body(&p.body, &taken) < 0)
                build_answer(&p, 503, NULL);
        else
                work(&p);
        if (!p.has_answered)
                build_answer_error(&p, &(struct err){.kind = ERR_INTERNAL, .msg = "the call ended without an answer"});
        read_rest(&p);
}

void build_process_start(const struct handler_context *context, struct http_request *rq, build_work work)
{
        pid_t pid = fork();

        if (pid < 0) {
                answer_error(rq, 503, "no process for this call: %s", strerror(errno));
        } else if (pid == 0) {
                run_child(context, rq, work);
                _exit(0);
        } else {
                http_leave(rq);
        }
}
