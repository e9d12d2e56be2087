#include "calls.h"

#include <err.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

static void expect(const struct http *h, unsigned status, const char *what)
{
        if (h->status != status)
                errx(1, "%s: %u %.*s", what, h->status, (int)h->body.len, (const char *)buf_at(&h->body));
}

static void ask(struct http *h, const char *key, const char *method, const char *path, const char *body)
{
        char headers[256];

        (void)snprintf(headers, sizeof(headers), "X-API-Key: %s\r\n%s", key,
                       body ? "Content-Type: application/json\r\n" : "");
        http_exchange(h, method, path, headers, body, body ? strlen(body) : 0);
}

void call_create(struct http *h, const char *key, struct sandbox *ret)
{
        const char *id, *token;

        ask(h, key, "POST", "/v2/sandboxes", "{\"templateID\":\"base\",\"timeout\":3600}");
        expect(h, 201, "create");
        json_t *o = json_loadb((const char *)buf_at(&h->body), h->body.len, 0, NULL);
        if (json_unpack(o, "{ss ss}", "sandboxID", &id, "envdAccessToken", &token) < 0)
                errx(1, "create: unexpected answer");
        sandbox_name(ret, id, token);
        json_decref(o);
}

void sandbox_name(struct sandbox *s, const char *id, const char *token)
{
        (void)snprintf(s->id, sizeof(s->id), "%s", id);
        (void)snprintf(s->headers, sizeof(s->headers),
                       "E2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: %s\r\n", id, token);
}

void call_kill(struct http *h, const char *key, const char *id)
{
        char path[128];

        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        ask(h, key, "DELETE", path, NULL);
        expect(h, 204, "kill");
}

void call_pause(struct http *h, const char *key, const char *id)
{
        char path[128];

        (void)snprintf(path, sizeof(path), "/sandboxes/%s/pause", id);
        ask(h, key, "POST", path, "{}");
        expect(h, 204, "pause");
}

void call_connect(struct http *h, const char *key, const char *id, bool is_paused)
{
        char path[128];

        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        ask(h, key, "POST", path, "{\"timeout\":3600}");
        expect(h, is_paused ? 201 : 200, "connect");
}

void call_run(struct http *h, const struct sandbox *s, const char *command, const char *argument)
{
        char body[512], headers[700];
        json_t *o = json_pack("{s{sss[s]} sb}", "process", "cmd", command, "args", argument, "stdin", 0);
        size_t n = json_dumpb(o, body + 5, sizeof(body) - 5, JSON_COMPACT);

        json_decref(o);
        memset(body, 0, 5);
        body[3] = (char)(n >> 8);
        body[4] = (char)n;
        h->mark = "\"data\"";
        (void)snprintf(headers, sizeof(headers), "%sContent-Type: application/connect+json\r\n", s->headers);
        http_exchange(h, "POST", "/process.Process/Start", headers, body, n + 5);
        expect(h, 200, command);
        if (!memmem(buf_at(&h->body), h->body.len, "exit status 0", 13))
                errx(1, "run %s: %.*s", command, (int)h->body.len, (const char *)buf_at(&h->body));
}
