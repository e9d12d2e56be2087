/* Heads as the edge writes them, and what it says by itself. */
#include "edge/message/answer.h"
#include "edge/message/rewrite.h"

#include <jansson.h>

#include "base/auto.h"
#include "tap.h"

#define GET "GET /p HTTP/1.1\r\nHost: h\r\n"

static struct http1_head head; /* too large for the stack of every case */

static bool parse(const char *text)
{
        size_t used;

        head = (struct http1_head){0};
        if (strncmp(text, "HTTP/", 5) == 0)
                return http1_parse_response(&head, text, strlen(text), false, &used) == HTTP1_DONE;
        return http1_parse_request(&head, text, strlen(text), &used) == HTTP1_DONE;
}

static void requests_lose_what_is_not_for_upstream(void)
{
        static const struct {
                const char *in, *out;
        } cases[] = {
                {"", ""},
                {"A: 1\r\nB: 2\r\n", "A: 1\r\nB: 2\r\n"},
                {"A:1\r\nB:  2  \r\nC:\r\n", "A:1\r\nB:  2  \r\nC:\r\n"},
                {"Connection: keep-alive\r\nA: 1\r\n", "A: 1\r\n"},
                {"A: 1\r\nConnection: close, X-Secret\r\nX-Secret: s\r\nB: 2\r\n", "A: 1\r\nB: 2\r\n"},
                {"Connection: host, content-length\r\nContent-Length: 3\r\n", "Content-Length: 3\r\n"},
                {"Keep-Alive: 5\r\nTE: trailers\r\nTrailer: X\r\nProxy-Foo: 1\r\nProxy-Connection: x\r\n", ""},
                {"X-Forwarded-For: 1.2.3.4\r\nx-forwarded-proto: https\r\nForwarded: for=x\r\nX-Other: 1\r\n",
                 "X-Other: 1\r\n"},
                {"Transfer-Encoding: chunked\r\nA: 1\r\n", "A: 1\r\nTransfer-Encoding: chunked\r\n"},
                {"Upgrade: websocket\r\nConnection: Upgrade\r\nA: 1\r\n", "A: 1\r\n"},
                {"User-Agent: x\r\nAccept: */*\r\nE2b-Sandbox-Id: q\r\n",
                 "User-Agent: x\r\nAccept: */*\r\nE2b-Sandbox-Id: q\r\n"},
                {"Expect: 100-continue\r\nContent-Length: 1\r\n", "Expect: 100-continue\r\nContent-Length: 1\r\n"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf in = BUF_INIT(4096), out = BUF_INIT(4096), want = BUF_INIT(4096);

                CHECK_INT(buf_addf(&in, GET "%s\r\n", cases[i].in), ==, 0);
                CHECK_INT(buf_addf(&want, GET "%s\r\n", cases[i].out), ==, 0);
                CHECK(parse(buf_cstr(&in)));
                CHECK_INT(
                        rewrite_request(&(struct rewrite_request){.head = &head, .target = STR("/p"), .host = STR("h")},
                                        &out),
                        ==, 0);
                CHECK_STR(buf_cstr(&out), buf_cstr(&want));
        }
}

static void masked_hosts_and_upgrades_are_said(void)
{
        AUTO_BUF struct buf out = BUF_INIT(4096), mask = BUF_INIT(100);

        CHECK(parse(GET "Upgrade: websocket\r\nConnection: upgrade\r\nX-Forwarded-Host: evil\r\n\r\n"));
        CHECK_INT(rewrite_request(&(struct rewrite_request){.head = &head,
                                                            .target = STR("/p"),
                                                            .host = STR("m:80"),
                                                            .orig_host = STR("h"),
                                                            .is_upgrade = true},
                                  &out),
                  ==, 0);
        CHECK_STR(buf_cstr(&out), "GET /p HTTP/1.1\r\nHost: m:80\r\nX-Forwarded-Host: h\r\nConnection: Upgrade\r\n"
                                  "Upgrade: websocket\r\n\r\n");
        CHECK_INT(rewrite_mask(STR("a.${PORT}.b:${PORT}"), 8080, &mask), ==, 0);
        CHECK_STR(buf_cstr(&mask), "a.8080.b:8080");
}

static void answers_are_framed_for_the_client(void)
{
        AUTO_BUF struct buf out = BUF_INIT(4096);

        CHECK(parse("HTTP/1.1 200 Fine\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 5\r\nX-Forwarded-Host: "
                    "y\r\n\r\n"));
        CHECK_INT(rewrite_response(&(struct rewrite_response){.head = &head}, &out), ==, 0);
        CHECK_STR(buf_cstr(&out), "HTTP/1.1 200 Fine\r\nX-Forwarded-Host: y\r\nContent-Length: 5\r\n\r\n");
        buf_reset(&out);
        CHECK(parse("HTTP/1.0 200 OK\r\nA: b\r\n\r\n"));
        CHECK_INT(rewrite_response(&(struct rewrite_response){.head = &head, .is_chunked = true, .says_close = true},
                                   &out),
                  ==, 0);
        CHECK_STR(buf_cstr(&out), "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
        buf_reset(&out);
        CHECK(parse("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"));
        CHECK_INT(rewrite_response(&(struct rewrite_response){.head = &head}, &out), ==, 0);
        CHECK_STR(buf_cstr(&out), "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n");
}

static void targets_are_origin_form_or_refused(void)
{
        static const struct {
                const char *method, *target, *want;
        } cases[] = {
                {"GET", "/a?b", "/a?b"},         {"GET", "http://h/a?b", "/a?b"}, {"GET", "HTTPS://H/x", "/x"},
                {"GET", "http://h", "/"},        {"OPTIONS", "*", "*"},           {"GET", "*", NULL},
                {"GET", "http://other/a", NULL}, {"CONNECT", "h:443", NULL},      {"GET", "a", NULL},
                {"GET", "ftp://h/a", NULL},      {"GET", "http://h?x", NULL},     {"GET", "http://u@h/", NULL},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct str got;
                bool fine = rewrite_target(str_of(cases[i].method), str_of(cases[i].target), STR("h"), &got);

                CHECK_INT(fine, ==, cases[i].want != NULL);
                if (fine)
                        CHECK(str_is(got, cases[i].want));
        }
}

static void pages_are_for_browsers_only(void)
{
        static const struct {
                const char *headers;
                bool html;
        } cases[] = {
                {"", false},
                {"User-Agent: curl/8\r\n", false},
                {"User-Agent: Mozilla/5.0\r\n", true},
                {"User-Agent: x FIREFOX y\r\n", true},
                {"User-Agent: Mozilla/5.0\r\nAccept: application/json\r\n", false},
                {"User-Agent: Mozilla/5.0\r\nAccept: text/html, application/json\r\n", true},
                {"User-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: cors\r\n", false},
                {"User-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: no-cors\r\n", false},
                {"User-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: same-origin\r\n", false},
                {"User-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: websocket\r\n", false},
                {"User-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: navigate\r\n", true},
                {"User-Agent: Mozilla/5.0\r\nX-Requested-With: XMLHttpRequest\r\n", false},
                {"User-Agent: Mozilla/5.0\r\nX-Requested-With: x\r\nSec-Fetch-Mode: navigate\r\n", true},
                {"Sec-Fetch-Mode: navigate\r\n", false},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf in = BUF_INIT(4096);

                CHECK_INT(buf_addf(&in, GET "%s\r\n", cases[i].headers), ==, 0);
                CHECK(parse(buf_cstr(&in)));
                if (answer_wants_html(&head) != cases[i].html)
                        printf("# %s\n", cases[i].headers);
                CHECK_INT(answer_wants_html(&head), ==, cases[i].html);
        }
}

static const char *body_of(struct buf *out)
{
        const char *text = buf_cstr(out), *end = text ? strstr(text, "\r\n\r\n") : NULL;

        return end ? end + 4 : NULL;
}

static void errors_have_the_contract_s_bodies(void)
{
        static const struct {
                struct answer a;
                unsigned status;
                const char *body;
        } cases[] = {
                {{.kind = ANSWER_TEXT, .status = 400, .message = "missing header"}, 400, "missing header"},
                {{.kind = ANSWER_API, .status = 503, .message = "m"}, 503, "{\"code\":503,\"message\":\"m\"}"},
                {{.kind = ANSWER_RESERVED, .message = "/init"},
                 404,
                 "{\"message\":\"This endpoint is reserved for the E2B control plane and is not reachable through the "
                 "sandbox URL\",\"path\":\"/init\",\"code\":404}"},
                {{.kind = ANSWER_NOT_FOUND},
                 502,
                 "{\"sandboxId\":\"iabc\",\"message\":\"The sandbox was not found\",\"code\":502}"},
                {{.kind = ANSWER_PAUSED}, /* the contract has no other word for it */
                 502,
                 "{\"sandboxId\":\"iabc\",\"message\":\"The sandbox was not found\",\"code\":502}"},
                {{.kind = ANSWER_RESUME_FAILED},
                 502,
                 "{\"sandboxId\":\"iabc\",\"message\":\"The sandbox was not found\",\"code\":502}"},
                {{.kind = ANSWER_PORT_CLOSED, .port = 3000},
                 502,
                 "{\"sandboxId\":\"iabc\",\"message\":\"The sandbox is running but port is not open\",\"port\":3000,"
                 "\"code\":502}"},
                {{.kind = ANSWER_TOKEN_MISSING},
                 403,
                 "{\"sandboxId\":\"iabc\",\"message\":\"Sandbox is secured with traffic access token. Token header "
                 "'e2b-traffic-access-token' is missing\",\"code\":403}"},
                {{.kind = ANSWER_TOKEN_WRONG},
                 403,
                 "{\"sandboxId\":\"iabc\",\"message\":\"Sandbox is secured with traffic access token. Provided token "
                 "in header 'e2b-traffic-access-token' is invalid\",\"code\":403}"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf out = BUF_INIT(1 << 16);
                struct answer a = cases[i].a;
                char line[32];

                a.sandbox_id = STR("iabc");
                CHECK_INT(answer_write(&a, &out), ==, 0);
                CHECK_STR(body_of(&out), cases[i].body);
                (void)snprintf(line, sizeof(line), "HTTP/1.1 %u ", cases[i].status);
                CHECK(strncmp(buf_cstr(&out), line, strlen(line)) == 0);
        }
}

static void pages_name_the_sandbox_and_escape_it(void)
{
        static const struct {
                enum answer_kind kind;
                const char *words;
        } cases[] = {{ANSWER_NOT_FOUND, "Sandbox Not Found"},
                     {ANSWER_PAUSED, "<code>sandglass resume iabc&lt;script&gt;</code>"},
                     {ANSWER_RESUME_FAILED, "Sandbox Could Not Be Resumed"},
                     {ANSWER_PORT_CLOSED, "no service running on port"},
                     {ANSWER_TOKEN_MISSING, "Missing Traffic Access Token"},
                     {ANSWER_TOKEN_WRONG, "Invalid Traffic Access Token"},
                     {ANSWER_DISK_FULL, "Disk Full"}};

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf out = BUF_INIT(1 << 16);
                const char *body;

                CHECK_INT(answer_write(&(struct answer){.kind = cases[i].kind,
                                                        .sandbox_id = STR("iabc<script>"),
                                                        .port = 3000,
                                                        .is_html = true},
                                       &out),
                          ==, 0);
                body = body_of(&out);
                CHECK(strstr(buf_cstr(&out), "Content-Type: text/html; charset=utf-8\r\n"));
                CHECK(strncmp(body, "<html", 5) == 0);
                CHECK_STR(body + strlen(body) - 7, "</html>");
                CHECK(strstr(body, "iabc&lt;script&gt;") && !strstr(body, "<script>"));
                CHECK(strstr(body, cases[i].words));
        }
}

static void heads_get_the_length_without_the_body(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1 << 16);

        CHECK_INT(answer_write(&(struct answer){.kind = ANSWER_TEXT,
                                                .status = 400,
                                                .message = "four",
                                                .to_head = true,
                                                .says_close = true},
                               &out),
                  ==, 0);
        CHECK_STR(buf_cstr(&out), "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
                                  "Content-Length: 4\r\nConnection: close\r\n\r\n");
}

int main(void)
{
        RUN(requests_lose_what_is_not_for_upstream);
        RUN(masked_hosts_and_upgrades_are_said);
        RUN(answers_are_framed_for_the_client);
        RUN(targets_are_origin_form_or_refused);
        RUN(pages_are_for_browsers_only);
        RUN(errors_have_the_contract_s_bodies);
        RUN(pages_name_the_sandbox_and_escape_it);
        RUN(heads_get_the_length_without_the_body);
        return tap_done();
}
