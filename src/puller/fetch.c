#include "puller/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/conf.h"
#include "puller/limits.h"
#include "version.h"

#define STEP_MS_MAX 200 /* how late a cancelled job ends */
#define RETRY_AFTER_MAX_S 60
#define LOCAL_HOSTS "localhost,127.0.0.1,::1"

struct fetcher {
        CURLM *multi; /* owned */
        const struct conf *conf;
        const struct puller_limits *limits;
        const atomic_bool *is_cancelled;
};

int fetch_global_init(void)
{
        return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : -EIO;
}

int fetcher_create(const struct conf *conf, const struct puller_limits *limits, const atomic_bool *is_cancelled,
                   struct fetcher **ret, struct err *err)
{
        struct fetcher *f = calloc(1, sizeof(*f));

        if (!f || !(f->multi = curl_multi_init())) {
                free(f);
                return err_sys(err, -ENOMEM, "HTTP client");
        }
        f->conf = conf;
        f->limits = limits;
        f->is_cancelled = is_cancelled;
        (void)curl_multi_setopt(f->multi, CURLMOPT_MAXCONNECTS, 16L);
        *ret = f;
        return 0;
}

struct fetcher *fetcher_free(struct fetcher *f)
{
        if (f)
                (void)curl_multi_cleanup(f->multi);
        free(f);
        return NULL;
}

/* ---- what comes ---- */

static bool is_success(long status)
{
        return status >= 200 && status < 300;
}

/* "bytes 100-199/200" */
static void take_range(struct fetch *t, struct str value)
{
        struct str first;

        if (!str_starts(value, "bytes "))
                return;
        value = (struct str){value.p + 6, value.n - 6};
        (void)str_cut(&value, '-', &first);
        t->has_range = parse_u64(str_trim(first), 0, UINT64_MAX, &t->range_from) == 0;
}

static void take_challenge(struct fetch *t, struct str value)
{
        struct challenge c;

        challenge_parse(value, &c);
        if (c.kind > t->challenge.kind)
                t->challenge = c;
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
        struct str value = {p, size * n}, name;
        struct fetch *t = arg;
        uint64_t length;

        while (value.n > 0 && (value.p[value.n - 1] == '\r' || value.p[value.n - 1] == '\n'))
                value.n--;
        if (str_starts(value, "HTTP/")) { /* an answer begins; what an interim answer said does not count */
                t->challenge = (struct challenge){0};
                t->retry_after_s = 0;
                t->content_length = -1;
                t->has_range = false;
                return size * n;
        }
        if (!str_cut(&value, ':', &name))
                return size * n;
        value = str_trim(value);
        if (str_iis(name, "WWW-Authenticate"))
                take_challenge(t, value);
        else if (str_iis(name, "Retry-After"))
                (void)parse_u32(value, 0, RETRY_AFTER_MAX_S, &t->retry_after_s);
        else if (str_iis(name, "Content-Range"))
                take_range(t, value);
        else if (str_iis(name, "Content-Length") && parse_u64(value, 0, INT64_MAX, &length) == 0)
                t->content_length = (int64_t)length;
        return size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
        struct fetch *t = arg;
        bool is_first = !t->got_data;
        long status = 0;

        (void)size; /* always 1 */
        (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
        if (!is_success(status)) {
                if (buf_room(&t->body) >= n)
                        (void)buf_add(&t->body, p, n); /* only an explanation is lost */
                return n;
        }
        t->got_data = true;
        t->status = status;
        if (t->options.on_data)
                return t->options.on_data(t->options.arg, is_first, p, n, &t->err) < 0 ? 0 : n;
        if (buf_add(&t->body, p, n) == 0)
                return n;
        (void)err_set(&t->err, ERR_INVALID, "the answer is longer than %zu bytes", t->options.body_max);
        return 0;
}

/* ---- one transfer ---- */

static int add_header(struct fetch *t, const char *name, const char *value)
{
        AUTO_FREE char *line = NULL;
        struct curl_slist *more;

        if (value && asprintf(&line, "%s: %s", name, value) < 0)
                return -ENOMEM;
        more = curl_slist_append(t->headers, value ? line : name);
        if (line)
                explicit_bzero(line, strlen(line));
        if (!more)
                return -ENOMEM;
        t->headers = more;
        return 0;
}

static int add_headers(struct fetch *t)
{
        const struct fetch_options *o = &t->options;
        int r = 0;

        if (o->authorization)
                r = add_header(t, "Authorization", o->authorization);
        if (r == 0 && o->accept)
                r = add_header(t, "Accept", o->accept);
        for (size_t i = 0; r == 0 && o->more && o->more[i]; i++)
                r = add_header(t, o->more[i], NULL);
        return r;
}

static void set_limits(const struct fetch *t)
{
        const struct puller_limits *l = t->fetcher->limits;
        CURL *easy = t->easy;

        (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)l->connect_ms);
        (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)l->stall_s);
        if (!t->options.on_data)
                (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)l->document_ms);
        (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
        (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
}

static void set_options(struct fetch *t)
{
        const struct fetch_options *o = &t->options;
        const char *proxy = t->fetcher->conf->registry_proxy;
        CURL *easy = t->easy;

        (void)curl_easy_setopt(easy, CURLOPT_URL, o->url);
        (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
        (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
        (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "sandglass/" SANDGLASS_VERSION);
        (void)curl_easy_setopt(easy, CURLOPT_PROXY, proxy ? proxy : ""); /* "": none, whatever the environment says */
        (void)curl_easy_setopt(easy, CURLOPT_NOPROXY, LOCAL_HOSTS);
        (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, t->headers);
        (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
        (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
        (void)curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* what a proxy says is not the answer */
        (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
        (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
        (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, t);
        if (o->post.p) {
                (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, o->post.p);
                (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)o->post.n);
        }
        if (o->from > 0)
                (void)curl_easy_setopt(easy, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)o->from);
        set_limits(t);
}

int fetch_begin(struct fetch *t, struct fetcher *f, const struct fetch_options *options, struct err *err)
{
        fetch_done(t);
        *t = (struct fetch){.fetcher = f, .options = *options, .content_length = -1};
        buf_init(&t->body, options->body_max > FETCH_ERROR_BODY_MAX ? options->body_max : FETCH_ERROR_BODY_MAX);
        t->easy = curl_easy_init();
        if (!t->easy || add_headers(t) < 0) {
                fetch_done(t);
                return err_sys(err, -ENOMEM, "HTTP client");
        }
        set_options(t);
        if (curl_multi_add_handle(f->multi, t->easy) != CURLM_OK) {
                fetch_done(t);
                return err_sys(err, -ENOMEM, "HTTP client");
        }
        return 0;
}

void fetch_end(struct fetch *t)
{
        if (t->easy) {
                (void)curl_multi_remove_handle(t->fetcher->multi, t->easy);
                curl_easy_cleanup(t->easy);
        }
        curl_slist_free_all(t->headers);
        t->easy = t->headers = NULL;
        t->fetcher = NULL;
}

void fetch_done(struct fetch *t)
{
        fetch_end(t);
        buf_done(&t->body);
        free(t->redirect);
        t->redirect = NULL;
}

/* ---- the end of it ---- */

static void explain(struct fetch *t, CURLcode code)
{
        switch (code) {
        case CURLE_OPERATION_TIMEDOUT: (void)err_set(&t->err, ERR_TIMEOUT, "it does not answer in time"); break;
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_RESOLVE_PROXY:
        case CURLE_COULDNT_CONNECT:
                (void)err_set(&t->err, ERR_UNAVAILABLE, "it is not reachable (%s)", curl_easy_strerror(code));
                break;
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_SSL_CACERT_BADFILE:
                t->is_final = true;
                (void)err_set(&t->err, ERR_UNAVAILABLE, "its certificate is not trusted, or it speaks no TLS (%s)",
                              curl_easy_strerror(code));
                break;
        case CURLE_OUT_OF_MEMORY: (void)err_sys(&t->err, -ENOMEM, "HTTP client"); break;
        default:
                (void)err_set(&t->err, ERR_UNAVAILABLE, "the connection was cut (%s)", curl_easy_strerror(code));
                break;
        }
}

static void on_done(struct fetch *t, CURLcode code)
{
        char *to = NULL;

        (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &t->status);
        if (code == CURLE_RANGE_ERROR) { /* the server does not know ranges */
                t->status = 416;
        } else if (code != CURLE_OK) {
                if (t->err.kind != ERR_NONE)
                        t->is_final = true; /* the receiver refused */
                else
                        explain(t, code);
                t->status = 0;
        } else if (curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &to) == CURLE_OK && to) {
                t->redirect = strdup(to);
        }
        t->is_done = true;
        fetch_end(t);
}

int fetcher_step(struct fetcher *f, uint32_t ms, struct err *err)
{
        uint64_t until = clock_mono_ms() + ms;
        bool any = false;
        int running, left;

        for (;;) {
                const CURLMsg *msg;

                if (atomic_load(f->is_cancelled))
                        return err_set(err, ERR_INTERRUPTED, "cancelled");
                if (curl_multi_perform(f->multi, &running) != CURLM_OK)
                        return err_set(err, ERR_INTERNAL, "HTTP client does not work");
                while ((msg = curl_multi_info_read(f->multi, &left))) {
                        CURLcode code = msg->data.result; /* gone with the handle */
                        struct fetch *t = NULL;

                        if (msg->msg != CURLMSG_DONE)
                                continue;
                        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&t);
                        on_done(t, code);
                        any = true;
                }
                if (any || clock_mono_ms() >= until)
                        return 0;
                left = (int)(until - clock_mono_ms());
                (void)curl_multi_poll(f->multi, NULL, 0, left < STEP_MS_MAX ? left : STEP_MS_MAX, NULL);
        }
}
