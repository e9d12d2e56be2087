#include "client/exchange.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/caller_fd.h"

#define FIRST_PAUSE_MS 100u
#define PAUSE_MAX_MS 2000u
#define RETRY_AFTER_MAX_S 3600u
#define BODY_COPIED_MAX (1u << 20) /* a larger body is not copied, but sent from where it is */

static bool is_success(unsigned status)
{
        return status >= 200 && status <= 299;
}

void exchange_answer_done(struct exchange_answer *a)
{
        buf_done(&a->body);
}

/* ---- one try ---- */

struct
try {
        const struct exchange *x;
        struct exchange_answer *answer;
        struct lane *lane;
        bool is_over, has_sent;
        int body_r;    /* negative: the answer cannot be kept, or on_body wants no more */
        uint64_t sent; /* of a body that is sent piece by piece */
        struct caller_fd from, to;
        struct err why; /* ERR_NONE: the answer is complete */
};

static uint32_t retry_after(const struct http1_head *head)
{
        uint32_t s;

        return parse_u32(http1_value(head, "Retry-After"), 1, RETRY_AFTER_MAX_S, &s) == 0 ? s : 0;
}

static void try_head(struct http_call *call, void *arg)
{
        struct try *t = arg;
        const struct http1_head *head = http_call_head(call);
        struct str token = http1_value(head, "X-Next-Token");

        t->answer->status = head->status;
        t->answer->retry_after_s = retry_after(head);
        if (token.n && token.n < sizeof(t->answer->next_token) && !str_has_nul(token)) {
                memcpy(t->answer->next_token, token.p, token.n);
                t->answer->next_token[token.n] = 0;
        }
}

static bool takes_pieces(const struct try *t)
{
        return t->x->on_body && is_success(t->answer->status);
}

static size_t try_data(struct http_call *call, struct str piece, void *arg)
{
        struct try *t = arg;

        if (t->x->writes_fd && is_success(t->answer->status)) {
                size_t taken = caller_fd_write(&t->to, t->lane->loop, call, piece);

                if (t->to.r < 0)
                        loop_stop(t->lane->loop);
                return taken;
        }
        if (t->body_r == 0)
                t->body_r = takes_pieces(t) ? t->x->on_body((int)t->answer->status, piece, t->x->arg)
                                            : buf_add(&t->answer->body, piece.p, piece.n);
        if (t->body_r < 0)
                loop_stop(t->lane->loop);
        return piece.n;
}

static ssize_t send_from_memory(struct try *t, void *p, size_t n)
{
        size_t left = t->x->body.n - (size_t)t->sent;

        n = n < left ? n : left;
        memcpy(p, t->x->body.p + t->sent, n);
        return (ssize_t)n;
}

static ssize_t try_send(struct http_call *call, void *p, size_t n, void *arg)
{
        struct try *t = arg;
        ssize_t got = t->x->sends_fd ? caller_fd_read(&t->from, t->lane->loop, call, p, n) : send_from_memory(t, p, n);

        if (got < 0)
                return got;
        t->sent += (uint64_t)got;
        if (t->x->sends_fd && t->x->on_sent)
                t->x->on_sent(t->sent, t->x->arg);
        return got;
}

static void try_end(struct http_call *call, const struct err *why, void *arg)
{
        struct try *t = arg;

        if (why)
                t->why = *why;
        t->has_sent = http_call_has_sent(call);
        t->is_over = true;
        loop_stop(t->lane->loop);
}

/* -1: not known, as for pipes, and for files of /proc, which have the size 0. */
static int64_t bytes_left(int fd)
{
        struct stat st;
        off_t at;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return -1;
        at = lseek(fd, 0, SEEK_CUR);
        return at < 0 || at >= st.st_size ? -1 : st.st_size - at;
}

static int try_start(struct try *t, const struct sg_client *client, struct http_call **ret, struct sg_error *err)
{
        const struct exchange *x = t->x;
        bool is_streamed = x->sends_fd || x->body.n > BODY_COPIED_MAX;
        const struct http_call_options opt = {.method = x->method,
                                              .target = x->target,
                                              .headers = x->headers,
                                              .content_type = x->content_type,
                                              .body = is_streamed ? STR("") : x->body,
                                              .on_send = is_streamed ? try_send : NULL,
                                              .send_bytes = x->sends_fd ? bytes_left(x->fd) : (int64_t)x->body.n,
                                              .agent = client->agent,
                                              .reuses_connection = true,
                                              .on_head = try_head,
                                              .on_data = try_data,
                                              .on_end = try_end,
                                              .arg = t};
        struct err why = {0};
        int r = http_call_start(t->lane->http, &opt, ret, &why);

        return r < 0 ? error_from(err, &why) : 0;
}

static int try_outcome(const struct try *t, const struct limit *l, int r, struct sg_error *err)
{
        const char *url = strstr(t->x->url, "://") + 3;

        if (t->body_r < 0 && takes_pieces(t))
                return error_set(err, SG_CANCELLED, "cancelled by a callback");
        if (t->body_r == -E2BIG)
                return error_set(err, SG_TOO_LARGE, "the answer of %s has more than %zu bytes", url,
                                 t->answer->body.max);
        if (t->body_r < 0)
                return error_sys(err, t->body_r, "keep the answer of %s", url);
        if (t->from.r < 0)
                return error_sys(err, t->from.r, "read what is to be sent");
        if (t->to.r < 0)
                return error_sys(err, t->to.r, "write");
        if (t->is_over)
                return t->why.kind == ERR_NONE ? 0 : error_from(err, &t->why);
        if (r == -ETIMEDOUT)
                return error_set(err, SG_TIMEOUT, "no answer from %s within %g s", url, (double)l->limit_ms / 1e3);
        return r;
}

/* *ret_has_sent: something may have come of it. */
static int try_once(struct sg_client *client, const struct exchange *x, struct limit *l, struct exchange_answer *answer,
                    bool *ret_has_sent, struct sg_error *err)
{
        struct try t = {.x = x, .answer = answer};
        struct http_call *call = NULL;
        int r;

        *ret_has_sent = false;
        caller_fd_init(&t.from, x->fd);
        caller_fd_init(&t.to, x->to_fd);
        r = lane_take(client, x->url, l, &t.lane, err);
        if (r < 0)
                return r;
        r = try_start(&t, client, &call, err);
        if (r == 0) {
                r = limit_run(l, t.lane->loop, err);
                if (!t.is_over)
                        t.has_sent = http_call_has_sent(call);
                r = try_outcome(&t, l, r, err);
        }
        (void)http_call_free(call);
        caller_fd_done(&t.from);
        caller_fd_done(&t.to);
        t.lane->is_broken = r < 0 && !t.has_sent;
        lane_give_back(client, t.lane);
        *ret_has_sent = t.has_sent;
        return r;
}

/* ---- again ---- */

uint64_t retry_pause_ms(unsigned tries, uint32_t retry_after_s)
{
        uint64_t ms = (uint64_t)FIRST_PAUSE_MS << (tries < 8 ? tries : 8);
        uint16_t chance;

        if (retry_after_s)
                return retry_after_s * UINT64_C(1000);
        if (random_try(&chance, sizeof(chance)) < 0)
                chance = (uint16_t)clock_mono_us();
        ms = ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
        return ms / 2 + ms * chance / UINT16_MAX / 2; /* many clients do not come back at the same time */
}

static bool status_is_busy(const struct exchange *x, const struct exchange_answer *a)
{
        switch (a->status) {
        case 429: return a->retry_after_s > 0; /* else a limit that waiting does not lift */
        case 502: return x->repeats && !x->is_to_sandbox;
        case 503: return a->retry_after_s > 0 || (x->repeats && !x->is_to_sandbox);
        case 504: return x->repeats && !x->is_to_sandbox;
        default: return false;
        }
}

static bool error_may_pass(const struct exchange *x, bool has_sent, const struct sg_error *why)
{
        return why->kind == SG_UNAVAILABLE && (!has_sent || x->repeats);
}

/* A repetition had no answer in time: what the server said before tells more. */
static void tell_refusal(const struct sg_error *refusal, struct sg_error *why)
{
        if (why->kind == SG_TIMEOUT && refusal->kind != SG_OK)
                (void)error_set(why, SG_TIMEOUT, "no answer in time; the one before: %s", refusal->message);
}

static void note_refusal(const struct exchange_answer *a, struct sg_error *ret)
{
        (void)error_refused(ret, a->status, a->retry_after_s,
                            (struct str){a->body.len ? (const char *)buf_at(&a->body) : "", a->body.len});
}

int exchange_run(struct sg_client *client, const struct exchange *x, struct limit *l, struct exchange_answer *ret,
                 struct sg_error *err)
{
        size_t max = x->answer_max ? x->answer_max : ANSWER_MAX;
        struct sg_error refusal = {0};

        for (unsigned tries = 0;; tries++) {
                struct exchange_answer answer = {.body = BUF_INIT(max)};
                struct sg_error why = {0}, ignored;
                bool has_sent, may_repeat;
                int r = try_once(client, x, l, &answer, &has_sent, &why);

                may_repeat = r < 0 ? error_may_pass(x, has_sent, &why) : status_is_busy(x, &answer);
                if (may_repeat && tries < client->retries && !(x->sends_fd && has_sent) &&
                    !((x->on_body || x->writes_fd) && is_success(answer.status))) {
                        int waited = limit_sleep(l, retry_pause_ms(tries, answer.retry_after_s), &ignored);

                        if (waited == 0) {
                                if (r == 0)
                                        note_refusal(&answer, &refusal);
                                exchange_answer_done(&answer);
                                continue;
                        }
                        if (ignored.kind == SG_CANCELLED) {
                                why = ignored;
                                r = waited;
                        }
                }
                if (r == 0)
                        *ret = answer;
                else
                        exchange_answer_done(&answer);
                tell_refusal(&refusal, &why);
                return r < 0 ? error_pass(err, &why) : 0;
        }
}

int exchange_run_ok(struct sg_client *client, const struct exchange *x, struct limit *l, struct exchange_answer *ret,
                    struct sg_error *err)
{
        struct exchange_answer answer = {0};
        int r = exchange_run(client, x, l, &answer, err);

        if (r < 0)
                return r;
        if (is_success(answer.status)) {
                *ret = answer;
                return 0;
        }
        r = error_refused(err, answer.status, answer.retry_after_s,
                          (struct str){(const char *)buf_at(&answer.body), answer.body.len});
        exchange_answer_done(&answer);
        return r;
}
