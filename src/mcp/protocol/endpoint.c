#include "mcp/protocol/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/err.h"
#include "http/server.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/head.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/message.h"
#include "mcp/protocol/method.h"
#include "mcp/protocol/versions.h"
#include "mcp/protocol/session.h"
#include "mcp/protocol/stream.h"

#define TOKEN_BYTES_MAX 512

/* The headers of every answer, for browsers too: what protects the server is the token. */
#define CORS                                                                                                           \
        {"Access-Control-Allow-Origin", "*"},                                                                          \
        {                                                                                                              \
                "Access-Control-Expose-Headers", "Mcp-Session-Id"                                                      \
        }

static const struct http_header plain_headers[] = {CORS, {NULL, NULL}};

static void reply_status(struct http_request *rq, unsigned status, int code, const char *why)
{
        json_t *body = jsonrpc_error(NULL, code, why);

        http_reply_json(rq, status, plain_headers, body);
}

/* ---- who may ask ---- */

/* The token is read each time: a sandbox gets its own when it is created, after this program was started. */
static bool token_matches(const char *path, struct str given)
{
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        char text[TOKEN_BYTES_MAX + 1];
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

        if (n <= 0 || n > TOKEN_BYTES_MAX)
                return false;
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
                n--;
        return n > 0 && str_eq_secret(given, (struct str){text, (size_t)n});
}

static bool is_allowed(const struct mcp *m, const struct http_request *rq)
{
        struct str value = http1_value(rq->head, "authorization"), scheme;

        if (!m->opt.token_file)
                return true;
        return str_cut(&value, ' ', &scheme) && str_iis(scheme, "bearer") &&
               token_matches(m->opt.token_file, str_trim(value));
}

/* "localhost" or "127.0.0.1:6274": the name of this machine for itself. */
static bool is_this_machine(struct str host)
{
        static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};

        for (size_t i = 0; i < ARRAY_LEN(own); i++) {
                size_t n = strlen(own[i]);

                if (host.n >= n && str_iis((struct str){host.p, n}, own[i]) && (host.n == n || host.p[n] == ':'))
                        return true;
        }
        return false;
}

/* A page of some site must not reach the server through a browser of this machine: where no token stands in the way, and for a local
 * server in any case.  A name of that site may lead to 127.0.0.1; then Host is that name. */
static bool is_foreign(const struct mcp *m, const struct http_request *rq)
{
        struct str origin = http1_value(rq->head, "origin"), scheme;

        if (m->opt.is_local && !is_this_machine(http1_value(rq->head, "host")))
                return true;
        if ((m->opt.token_file && !m->opt.is_local) || origin.n == 0)
                return false;
        (void)str_cut(&origin, ':', &scheme);
        return (!str_is(scheme, "http") && !str_is(scheme, "https")) || !str_starts(origin, "//") ||
               !is_this_machine((struct str){origin.p + 2, origin.n - 2});
}

/* ---- answers ---- */

void endpoint_start_events(struct http_request *rq, const struct session *s)
{
        struct http_header headers[] = {
                CORS, {"Cache-Control", "no-cache"}, {s->is_stateless ? NULL : "Mcp-Session-Id", s->id}, {NULL, NULL}};

        http_start(rq, 200, "text/event-stream", headers, -1);
}

void endpoint_reply_json(struct http_request *rq, const struct session *s, const json_t *body)
{
        struct http_header headers[] = {CORS, {s->is_stateless ? NULL : "Mcp-Session-Id", s->id}, {NULL, NULL}};
        size_t n = body ? json_dumpb(body, NULL, 0, JSON_COMPACT) : 0;
        AUTO_FREE char *text = n ? malloc(n) : NULL;

        if (!body) {
                http_reply(rq, 202, NULL, headers, NULL, 0);
        } else if (!text) {
                reply_status(rq, 500, JSONRPC_INTERNAL_ERROR, "out of memory");
        } else {
                (void)json_dumpb(body, text, n, JSON_COMPACT);
                http_reply(rq, 200, "application/json", headers, text, n);
        }
}

/* ---- sessions ---- */

static void note_host(struct session *s, const struct http_request *rq)
{
        struct str host = http1_value(rq->head, "host"), scheme = http1_value(rq->head, "x-forwarded-proto");

        memset(s->host, 0, sizeof(s->host));
        s->is_encrypted = !str_is(scheme, "http");
        if (host.n < sizeof(s->host) && !str_has_nul(host))
                memcpy(s->host, host.p, host.n);
}

static void initialize(struct mcp *m, struct http_request *rq, const struct jsonrpc_message *msg)
{
        const char *asked = json_string_value(json_object_get(msg->params, "protocolVersion"));
        struct session *s;
        json_t *answer;

        if (!asked) {
                http_reply_json(rq, 400, plain_headers,
                                jsonrpc_error(msg->id, JSONRPC_INVALID_PARAMS, "initialize needs a protocolVersion"));
                return;
        }
        s = session_create(m, protocol_choose(str_of(asked)));
        answer = s ? jsonrpc_result(msg->id, method_initialize(s)) : NULL;
        if (!answer) {
                if (s)
                        session_end(s);
                reply_status(rq, 503, JSONRPC_INTERNAL_ERROR, "too many sessions: try again later");
                return;
        }
        note_host(s, rq);
        endpoint_reply_json(rq, s, answer);
        json_decref(answer);
}

/* ---- requests without a session ---- */

static struct session *stateless_session(struct mcp *m)
{
        if (!m->stateless && (m->stateless = session_create(m, PROTOCOL_STATELESS)))
                m->stateless->is_stateless = m->stateless->is_shared = true;
        return m->stateless;
}

static void take_stateless(struct mcp *m, struct http_request *rq, json_t *value)
{
        struct jsonrpc_message msg;
        struct err err = {0};
        struct session *s = stateless_session(m);
        struct stream *st;
        const char *wrong;

        if (jsonrpc_decode(value, &msg, &err) < 0) {
                http_reply_json(rq, 400, plain_headers, jsonrpc_error(msg.id, JSONRPC_INVALID_REQUEST, err.msg));
        } else if ((wrong = head_mismatch(rq->head, &msg))) {
                http_reply_json(rq, 400, plain_headers, jsonrpc_error(msg.id, JSONRPC_HEADER_MISMATCH, wrong));
        } else if (msg.kind == JSONRPC_REQUEST && !message_envelope(msg.params, META_VERSION)) {
                http_reply_json(rq, 400, plain_headers,
                                jsonrpc_error(msg.id, JSONRPC_INVALID_PARAMS, "params._meta must have " META_VERSION));
        } else if (!s || !(st = stream_open(s, rq, false))) {
                reply_status(rq, 503, JSONRPC_INTERNAL_ERROR, "too many requests are open");
        } else {
                note_host(s, rq);
                stream_expect(st);
                message_take(s, st, value);
                stream_begun(st);
        }
}

/* The session that the header names; NULL: answered. */
static struct session *find_session(struct mcp *m, struct http_request *rq)
{
        struct str id = http1_value(rq->head, "mcp-session-id"),
                   version = http1_value(rq->head, "mcp-protocol-version");
        struct session *s = id.n ? session_find(m, id) : NULL;

        if (version.n && !protocol_find(version)) {
                AUTO_FREE char *asked = str_is_utf8(version) ? str_dup(version) : NULL;

                http_reply_json(rq, 400, plain_headers, protocol_refusal(NULL, asked ? asked : ""));
                return NULL;
        }
        if (!id.n)
                reply_status(rq, 400, JSONRPC_INVALID_REQUEST, "Mcp-Session-Id is missing: begin with initialize");
        else if (!s)
                reply_status(rq, 404, JSONRPC_INVALID_REQUEST, "no such session: begin with initialize");
        return s;
}

static void on_post_body(struct http_request *rq, struct str body)
{
        struct mcp *m = rq->user;
        struct jsonrpc_message msg;
        struct err err = {0};
        const char *refused;
        struct session *s;
        struct stream *st;
        json_t *value = jsonrpc_parse(body, &err);

        rq->user = NULL;
        if (!value) {
                reply_status(rq, 400, JSONRPC_PARSE_ERROR, err.msg);
        } else if (head_is_stateless(rq->head, value)) {
                take_stateless(m, rq, value);
        } else if (message_is_initialize(value, &msg)) {
                initialize(m, rq, &msg);
        } else if ((s = find_session(m, rq))) {
                if ((refused = message_batch_refusal(value, s->version))) {
                        reply_status(rq, 400, JSONRPC_INVALID_REQUEST, refused);
                } else if (!(st = stream_open(s, rq, json_is_array(value)))) {
                        reply_status(rq, 503, JSONRPC_INTERNAL_ERROR, "too many requests are open in this session");
                } else {
                        stream_expect(st);
                        message_take(s, st, value);
                        stream_begun(st);
                }
        }
        json_decref(value);
}

/* ---- paths ---- */

static bool accepts(const struct http_request *rq, const char *type)
{
        struct str rest = http1_value(rq->head, "accept"), one;

        if (!rest.n)
                return true; /* as HTTP has it: anything */
        while (rest.n) {
                struct str name;

                (void)str_cut(&rest, ',', &one);
                (void)str_cut(&one, ';', &name);
                name = str_trim(name);
                if (str_iis(name, type) || str_is(name, "*/*") ||
                    (str_ends(name, "/*") && strncmp(name.p, type, name.n - 1) == 0))
                        return true;
        }
        return false;
}

static bool is_json(const struct http_request *rq)
{
        struct str rest = http1_value(rq->head, "content-type"), name;

        (void)str_cut(&rest, ';', &name);
        return str_iis(str_trim(name), "application/json");
}

static void post_mcp(struct mcp *m, struct http_request *rq)
{
        if (!is_json(rq)) {
                reply_status(rq, 415, JSONRPC_INVALID_REQUEST, "Content-Type must be application/json");
        } else if (!accepts(rq, "application/json") || !accepts(rq, "text/event-stream")) {
                reply_status(rq, 406, JSONRPC_INVALID_REQUEST,
                             "Accept must have application/json and text/event-stream");
        } else {
                rq->user = m;
                http_read_body(rq, MCP_BODY_BYTES_MAX, on_post_body);
        }
}

static void get_mcp(struct mcp *m, struct http_request *rq)
{
        struct str last = http1_value(rq->head, "last-event-id");
        struct session *s;

        if (!accepts(rq, "text/event-stream")) {
                reply_status(rq, 406, JSONRPC_INVALID_REQUEST, "Accept must have text/event-stream");
                return;
        }
        s = find_session(m, rq);
        if (!s)
                return;
        if (last.n) {
                AUTO_FREE char *id = str_dup(last);
                int r = id ? stream_resume(s, rq, id) : -ENOMEM;

                if (r == 0)
                        return;
                if (r == -EBUSY) {
                        reply_status(rq, 409, JSONRPC_INVALID_REQUEST, "another connection reads this stream");
                        return;
                } /* a stream that is over, or one of this kind: what comes from now on */
        }
        if (stream_standalone(s))
                reply_status(rq, 409, JSONRPC_INVALID_REQUEST, "this session has a stream already");
        else if (!stream_open_standalone(s, rq))
                reply_status(rq, 503, JSONRPC_INTERNAL_ERROR, "too many requests are open in this session");
}

static void delete_mcp(struct mcp *m, struct http_request *rq)
{
        struct session *s = find_session(m, rq);

        if (!s)
                return;
        session_end(s);
        http_reply(rq, 204, NULL, plain_headers, NULL, 0);
}

/* ---- the transport of 2024-11-05 ---- */

static void get_sse(struct mcp *m, struct http_request *rq)
{
        struct session *s = session_create(m, protocol_find(STR("2024-11-05")));
        char text[128];
        int n;

        if (!s || !stream_open_standalone(s, rq)) {
                if (s)
                        session_end(s);
                reply_status(rq, 503, JSONRPC_INTERNAL_ERROR, "too many sessions: try again later");
                return;
        }
        s->is_old_transport = true;
        note_host(s, rq);
        n = snprintf(text, sizeof(text), "event: endpoint\ndata: /messages?sessionId=%s\n\n", s->id);
        (void)http_write(rq, text, (size_t)n);
}

static void take_old_message(struct session *s, struct stream *st, json_t *value)
{
        struct jsonrpc_message msg;

        if (message_is_initialize(value, &msg)) {
                const char *asked = json_string_value(json_object_get(msg.params, "protocolVersion"));

                s->version = protocol_choose(str_of(asked));
                stream_expect(st);
                stream_answer(st, jsonrpc_result(msg.id, method_initialize(s)));
        } else {
                message_take(s, st, value);
        }
}

static void on_old_body(struct http_request *rq, struct str body)
{
        struct mcp *m = rq->user;
        AUTO_FREE char *id = NULL;
        struct session *s = NULL;
        struct stream *st;
        struct err err = {0};
        const char *refused;
        json_t *value;

        rq->user = NULL;
        if (url_query_get(rq->url.query, "sessionId", &id) == 0 && id)
                s = session_find(m, str_of(id));
        st = s && s->is_old_transport ? stream_standalone(s) : NULL;
        if (!st) {
                reply_status(rq, 404, JSONRPC_INVALID_REQUEST, "no such session: begin with GET /sse");
                return;
        }
        value = jsonrpc_parse(body, &err);
        if (!value) {
                reply_status(rq, 400, JSONRPC_PARSE_ERROR, err.msg);
                return;
        }
        refused = message_batch_refusal(value, s->version);
        if (refused) {
                reply_status(rq, 400, JSONRPC_INVALID_REQUEST, refused);
        } else {
                take_old_message(s, st, value);
                http_reply(rq, 202, "text/plain", plain_headers, "Accepted", 8);
        }
        json_decref(value);
}

static void post_messages(struct mcp *m, struct http_request *rq)
{
        rq->user = m;
        http_read_body(rq, MCP_BODY_BYTES_MAX, on_old_body);
}

static void get_health(struct mcp *m, struct http_request *rq)
{
        (void)m;
        http_reply(rq, 200, "text/plain", plain_headers, "ok", 2);
}

static const struct {
        const char *path, *method;
        bool is_open; /* needs no token */
        void (*run)(struct mcp *m, struct http_request *rq);
} routes[] = {
        {"/mcp", "POST", false, post_mcp},     {"/mcp", "GET", false, get_mcp},
        {"/mcp", "DELETE", false, delete_mcp}, {"/messages", "POST", false, post_messages},
        {"/sse", "GET", false, get_sse},       {"/health", "GET", true, get_health},
};

static void reply_not_allowed(struct http_request *rq)
{
        char allowed[64] = "OPTIONS";
        struct http_header headers[] = {CORS, {"Allow", allowed}, {NULL, NULL}};

        for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
                size_t n = strlen(allowed);

                if (str_is(rq->url.path, routes[i].path))
                        (void)snprintf(allowed + n, sizeof(allowed) - n, ", %s", routes[i].method);
        }
        http_reply_json(rq, 405, headers,
                        jsonrpc_error(NULL, JSONRPC_INVALID_REQUEST, "this method is not for this path"));
}

static void reply_preflight(struct http_request *rq)
{
        static const struct http_header headers[] = {
                CORS,
                {"Access-Control-Allow-Methods", "GET, POST, DELETE"},
                {"Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, "
                                                 "Mcp-Method, Mcp-Name, Mcp-Session-Id"},
                {"Access-Control-Max-Age", "7200"},
                {NULL, NULL}};

        http_reply(rq, 204, NULL, headers, NULL, 0);
}

void endpoint_on_request(struct http_request *rq, void *arg)
{
        struct mcp *m = arg;
        bool has_path = false;

        if (is_foreign(m, rq)) {
                static const struct http_header none[] = {{NULL, NULL}}; /* nothing for the page to read */

                http_reply_json(rq, 403, none,
                                jsonrpc_error(NULL, JSONRPC_INVALID_REQUEST, "requests from this origin are refused"));
                return;
        }
        for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
                if (!str_is(rq->url.path, routes[i].path))
                        continue;
                has_path = true;
                if (str_is(rq->head->method, "OPTIONS")) {
                        reply_preflight(rq);
                        return;
                }
                if (!str_is(rq->head->method, routes[i].method))
                        continue;
                if (routes[i].is_open || is_allowed(m, rq)) {
                        routes[i].run(m, rq);
                } else {
                        static const struct http_header headers[] = {
                                CORS, {"WWW-Authenticate", "Bearer"}, {NULL, NULL}};

                        http_reply_json(rq, 401, headers,
                                        jsonrpc_error(NULL, JSONRPC_INVALID_REQUEST, "the token is missing or wrong"));
                }
                return;
        }
        if (has_path)
                reply_not_allowed(rq);
        else
                reply_status(rq, 404, JSONRPC_INVALID_REQUEST, "no such path");
}
