#include "edge/message/answer.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "model/request/agent_error.h"

#define MESSAGE_MAX 256

static const struct {
        unsigned status;
        const char *message; /* NULL: the answer has its own */
        const char *title;   /* NULL: no page */
} kinds[ANSWER_KIND_COUNT] = {
        [ANSWER_TEXT] = {0, NULL, NULL},
        [ANSWER_API] = {0, NULL, NULL},
        [ANSWER_AGENT] = {0, NULL, NULL},
        [ANSWER_RESERVED] = {404,
                             "This endpoint is reserved for the E2B control plane and is not reachable through the "
                             "sandbox URL",
                             NULL},
        [ANSWER_NOT_FOUND] = {502, "The sandbox was not found", "Sandbox Not Found"},
        [ANSWER_PAUSED] = {502, "The sandbox was not found", "Sandbox Is Paused"},
        [ANSWER_RESUME_FAILED] = {502, "The sandbox was not found", "Sandbox Could Not Be Resumed"},
        [ANSWER_PORT_CLOSED] = {502, "The sandbox is running but port is not open", "Closed Port"},
        [ANSWER_TOKEN_MISSING] = {403,
                                  "Sandbox is secured with traffic access token. Token header "
                                  "'e2b-traffic-access-token' is missing",
                                  "Missing Traffic Access Token"},
        [ANSWER_TOKEN_WRONG] = {403,
                                "Sandbox is secured with traffic access token. Provided token in header "
                                "'e2b-traffic-access-token' is invalid",
                                "Invalid Traffic Access Token"},
        [ANSWER_TOO_MANY] = {429, NULL, "Too Many Connections"},
        [ANSWER_MAY_NOT_RESUME] =
                {403,
                 "This sandbox can't be resumed with the credentials provided. Check your access token "
                 "and try again.",
                 "Sandbox Cannot Be Resumed"},
        [ANSWER_RESUME_LIMIT] = {429, NULL, "Sandbox Limit Reached"},
        [ANSWER_DISK_FULL] = {507, "The disk of the server is full, so the sandbox cannot be resumed. Try again later.",
                              "Disk Full"},
        [ANSWER_BUSY] = {409, "The sandbox is still transitioning. Try again in a moment.", "Sandbox Is Transitioning"},
        [ANSWER_UNAVAILABLE] = {503, "The sandbox cannot be reached at the moment. Try again in a moment.",
                                "Sandbox Unavailable"},
};

static bool contains_without_case(struct str s, const char *word)
{
        size_t n = strlen(word);

        for (size_t i = 0; i + n <= s.n; i++)
                if (strncasecmp(s.p + i, word, n) == 0)
                        return true;
        return false;
}

bool answer_wants_html(const struct http1_head *h)
{
        static const char *const browsers[] = {"mozilla", "chrome", "safari", "firefox", "edge", "opera", "msie"};
        static const char *const fetches[] = {"cors", "no-cors", "same-origin", "websocket"};
        struct str accept = http1_value(h, "accept"), mode = http1_value(h, "sec-fetch-mode");
        struct str agent = http1_value(h, "user-agent");

        if (contains_without_case(accept, "application/json") && !contains_without_case(accept, "text/html"))
                return false;
        for (size_t i = 0; i < ARRAY_LEN(fetches); i++)
                if (str_iis(mode, fetches[i]))
                        return false;
        if (!str_iis(mode, "navigate") && http1_find(h, "x-requested-with"))
                return false;
        for (size_t i = 0; i < ARRAY_LEN(browsers); i++)
                if (contains_without_case(agent, browsers[i]))
                        return true;
        return false;
}

unsigned answer_status(const struct answer *a)
{
        return kinds[a->kind].status ? kinds[a->kind].status : a->status;
}

/* The message of the kind, or of this answer. */
static const char *answer_message(const struct answer *a, char out[MESSAGE_MAX])
{
        if (a->kind == ANSWER_RESUME_LIMIT)
                return a->message ? a->message : "Sandbox limit reached";
        if (a->kind != ANSWER_TOO_MANY)
                return kinds[a->kind].message ? kinds[a->kind].message : a->message;
        (void)snprintf(out, MESSAGE_MAX, "The sandbox has too many concurrent incoming connections (limit: %u)",
                       a->limit);
        return out;
}

static int answer_write_json(const struct answer *a, struct buf *out)
{
        char room[MESSAGE_MAX];
        const char *message = answer_message(a, room);
        int status = (int)answer_status(a), id_len = (int)a->sandbox_id.n;
        char *text = NULL;
        json_t *obj;
        int r;

        if (a->kind == ANSWER_API)
                obj = json_pack("{s:i, s:s}", "code", status, "message", message);
        else if (a->kind == ANSWER_AGENT)
                obj = agent_error_of_status((unsigned)status, message);
        else if (a->kind == ANSWER_RESERVED)
                obj = json_pack("{s:s, s:s, s:i}", "message", message, "path", a->message, "code", status);
        else if (a->kind == ANSWER_PORT_CLOSED)
                obj = json_pack("{s:s%, s:s, s:i, s:i}", "sandboxId", a->sandbox_id.p, (size_t)id_len, "message",
                                message, "port", (int)a->port, "code", status);
        else if (a->kind == ANSWER_TOO_MANY)
                obj = json_pack("{s:s%, s:s, s:i, s:i}", "sandboxId", a->sandbox_id.p, (size_t)id_len, "message",
                                message, "code", status, "connectionLimit", (int)a->limit);
        else
                obj = json_pack("{s:s%, s:s, s:i}", "sandboxId", a->sandbox_id.p, (size_t)id_len, "message", message,
                                "code", status);
        text = json_dumps(obj, JSON_COMPACT);
        json_decref(obj);
        if (!text)
                return -ENOMEM;
        r = buf_addc(out, text);
        free(text);
        return r;
}

static int page_add_escaped(struct buf *out, int r, struct str s)
{
        for (size_t i = 0; i < s.n && r == 0; i++) {
                switch (s.p[i]) {
                case '&': r = buf_addc(out, "&amp;"); break;
                case '<': r = buf_addc(out, "&lt;"); break;
                case '>': r = buf_addc(out, "&gt;"); break;
                case '"': r = buf_addc(out, "&quot;"); break;
                default: r = buf_add(out, &s.p[i], 1); break;
                }
        }
        return r;
}

/* What the visitor can do; NULL: the message is enough. */
static const char *page_hint(enum answer_kind kind)
{
        switch (kind) {
        case ANSWER_NOT_FOUND: return "The sandbox has ended, or never existed. Its owner can start a new sandbox.";
        case ANSWER_PAUSED:
                return "The owner can resume the sandbox with a client's <code>Sandbox.connect</code> or with the "
                       "command "
                       "below. Then reload this page.";
        case ANSWER_RESUME_FAILED: return "The sandbox is unchanged. Reload this page to try again, or tell its owner.";
        case ANSWER_PORT_CLOSED: return "Start a server on this port inside the sandbox, then reload this page.";
        case ANSWER_TOKEN_MISSING:
        case ANSWER_TOKEN_WRONG: return "Browsers cannot send this header by themselves: ask the owner for access.";
        default: return NULL;
        }
}

/* The text for a visitor where it differs from the message for a program; NULL: the same. */
static const char *page_text(enum answer_kind kind)
{
        switch (kind) {
        case ANSWER_PAUSED: return "The sandbox is paused. Nothing is lost, but a visit does not resume the sandbox.";
        case ANSWER_RESUME_FAILED: return "The sandbox is paused, and could not be resumed for this visit.";
        default: return NULL;
        }
}

static int answer_write_page(const struct answer *a, struct buf *out)
{
        static const char style[] =
                ":root{color-scheme:light dark}body{font:16px/1.6 system-ui,sans-serif;max-width:34em;margin:16vh auto;"
                "padding:0 1.5em}h1{font-size:1.6em;line-height:1.2;margin:.2em 0 .8em}p{margin:.6em 0}"
                ".s{color:#b45309;font-weight:600}.h,.i{color:GrayText}.i{border-top:1px solid;margin-top:2em;"
                "padding-top:.8em;font-size:.875em}code{font:.95em ui-monospace,monospace;overflow-wrap:anywhere}";
        const char *title = kinds[a->kind].title;
        char room[MESSAGE_MAX];
        int r;

        r = buf_addf(out,
                     "<html lang=\"en\"><head><meta charset=\"utf-8\">"
                     "<meta name=\"viewport\" content=\"width=device-width\"><title>%s</title><style>%s</style></head>"
                     "<body><p class=\"s\">%u</p><h1>%s</h1><p>",
                     title, style, answer_status(a), title);
        if (r == 0 && a->kind == ANSWER_PORT_CLOSED)
                r = buf_addf(out, "The sandbox is running, but there is no service running on port <code>%u</code>.",
                             a->port);
        else
                r = page_add_escaped(out, r, str_of(page_text(a->kind) ? page_text(a->kind) : answer_message(a, room)));
        if (r == 0 && page_hint(a->kind))
                r = buf_addf(out, "</p><p class=\"h\">%s", page_hint(a->kind));
        if (r == 0 && a->kind == ANSWER_PAUSED)
                r = page_add_escaped(out, buf_addc(out, "</p><p><code>sandglass resume "), a->sandbox_id);
        if (r == 0 && a->kind == ANSWER_PAUSED)
                r = buf_addc(out, "</code>");
        if (r == 0)
                r = buf_addc(out, "</p><p class=\"i\">Sandbox <code>");
        r = page_add_escaped(out, r, a->sandbox_id);
        return r < 0 ? r : buf_addc(out, "</code></p></body></html>");
}

int answer_body(const struct answer *a, struct buf *out, const char **ret_type)
{
        if (a->kind == ANSWER_TEXT) {
                *ret_type = "text/plain; charset=utf-8";
                return buf_addc(out, a->message);
        }
        if (a->is_html && kinds[a->kind].title) {
                *ret_type = "text/html; charset=utf-8";
                return answer_write_page(a, out);
        }
        *ret_type = "application/json; charset=utf-8";
        return answer_write_json(a, out);
}

int answer_write(const struct answer *a, struct buf *out)
{
        AUTO_BUF struct buf body = BUF_INIT(ANSWER_BODY_MAX);
        const char *type;
        int r;

        r = answer_body(a, &body, &type);
        if (r == 0)
                r = http1_write_status_line(out, answer_status(a), STR(""));
        if (r == 0)
                r = http1_write_header(out, STR("Content-Type"), str_of(type));
        if (r == 0)
                r = http1_write_headerf(out, "Content-Length", "%zu", body.len);
        if (r == 0 && a->says_close)
                r = http1_write_header(out, STR("Connection"), STR("close"));
        if (r == 0)
                r = http1_write_end(out);
        return r < 0 || a->to_head ? r : buf_add(out, buf_at(&body), body.len);
}
