#include "mcp/tools/resources.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "io/loop.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/method.h"
#include "mcp/protocol/session.h"
#include "mcp/protocol/stream.h"
#include "mcp/tools/path.h"
#include "mcp/tools/workbench.h"
#include "wire/base64.h"
#include "wire/url.h"

#define SCHEME "file://"

struct subscription {
        struct list node;
        int watch;         /* of inotify, for the directory */
        char *uri, *name;  /* owned; the name in the directory */
        struct call *call; /* that listens; NULL: the session does */
        bool is_due;
};

struct session_watches {
        struct session *session;
        struct io io;
        struct timer timer;
        struct list subscriptions;
        size_t count;
};

/* ---- names ---- */

int resource_add_uri(struct buf *out, const char *path)
{
        int r = buf_addc(out, SCHEME);

        for (const char *p = path; *p && r == 0; p++)
                r = *p == '/' ? buf_add(out, p, 1) : url_encode((struct str){p, 1}, out);
        return r;
}

static int path_of_uri(const char *uri, char path[PATH_MAX], struct err *err)
{
        AUTO_FREE char *decoded = NULL;

        if (strncmp(uri, SCHEME "/", strlen(SCHEME) + 1) != 0)
                return err_set(err, ERR_INVALID, "uri must begin with file:///");
        if (url_decode_dup(str_of(uri + strlen(SCHEME)), false, &decoded) < 0)
                return err_set(err, ERR_INVALID, "uri has a malformed escape");
        if (strlen(decoded) >= PATH_MAX)
                return err_set(err, ERR_INVALID, "uri is too long");
        (void)snprintf(path, PATH_MAX, "%s", decoded);
        return 0;
}

/* The path of params.uri; NULL: answered. */
static const char *asked(struct call *c, char path[PATH_MAX])
{
        const char *uri = json_string_value(json_object_get(c->params, "uri"));
        struct err err = {0};

        if (!uri)
                call_error(c, JSONRPC_INVALID_PARAMS, "uri is missing");
        else if (path_of_uri(uri, path, &err) < 0)
                call_error(c, JSONRPC_INVALID_PARAMS, "%s", err.msg);
        else
                return path;
        return NULL;
}

/* ---- read ---- */

static void resources_templates(struct call *c)
{
        call_result(c, json_pack("{s:[{s:s,s:s,s:s,s:s}]}", "resourceTemplates", "uriTemplate", "file:///{+path}",
                                 "name", "file", "title", "A file of the sandbox", "description",
                                 "Any file, by its absolute path."));
}

static void resources_read(struct call *c)
{
        AUTO_BUF struct buf content = BUF_INIT(FILE_BYTES_MAX), base64 = BUF_INIT(BASE64_LEN(FILE_BYTES_MAX));
        json_t *uri = json_object_get(c->params, "uri");
        char path[PATH_MAX];
        struct err err = {0};
        struct str text;
        const char *p = asked(c, path);

        if (!p)
                return;
        if (file_read(p, &content, &err) < 0) {
                call_error(c, err.kind == ERR_NOT_FOUND ? JSONRPC_RESOURCE_NOT_FOUND : JSONRPC_INVALID_PARAMS, "%s",
                           err.msg);
                return;
        }
        text = (struct str){content.len ? (const char *)buf_at(&content) : "", content.len};
        if (!str_has_nul(text) && str_is_utf8(text))
                call_result(c, json_pack("{s:[{s:O,s:s,s:s%}]}", "contents", "uri", uri, "mimeType", "text/plain",
                                         "text", text.p, text.n));
        else if (base64_add(&base64, text.p, text.n, true) < 0)
                call_error(c, JSONRPC_INTERNAL_ERROR, "out of memory");
        else
                call_result(c,
                            json_pack("{s:[{s:O,s:s,s:s%}]}", "contents", "uri", uri, "mimeType",
                                      "application/octet-stream", "blob", (const char *)buf_at(&base64), base64.len));
}

/* ---- subscriptions ---- */

/* The kernel watches a directory once, however many of its files are subscribed to. */
static bool is_watched_still(const struct session_watches *w, int watch)
{
        LIST_EACH (at, &w->subscriptions)
                if (LIST_ENTRY(at, struct subscription, node)->watch == watch)
                        return true;
        return false;
}

static void subscription_free(struct session_watches *w, struct subscription *s)
{
        list_remove(&s->node);
        w->count--;
        if (!is_watched_still(w, s->watch))
                (void)inotify_rm_watch(w->io.fd, s->watch);
        free(s->uri);
        free(s->name);
        free(s);
}

struct session_watches *session_watches_free(struct session_watches *w)
{
        if (!w)
                return NULL;
        while (!list_is_empty(&w->subscriptions))
                subscription_free(w, LIST_ENTRY(w->subscriptions.next, struct subscription, node));
        loop_del(&w->io);
        close_fd(&w->io.fd);
        timer_clear(&w->timer);
        free(w);
        return NULL;
}

static json_t *subscription_meta(const struct call *c)
{
        return json_pack("{s:O}", "io.modelcontextprotocol/subscriptionId", c->id);
}

static void tell(const struct subscription *s, struct stream *st)
{
        json_t *params = json_pack("{s:s,s:o*}", "uri", s->uri, "_meta", s->call ? subscription_meta(s->call) : NULL);

        if (st)
                stream_notify(st, jsonrpc_notification("notifications/resources/updated", params));
        else
                json_decref(params);
}

static void tell_due(struct timer *t)
{
        struct session_watches *w = CONTAINER_OF(t, struct session_watches, timer);
        struct stream *st = stream_standalone(w->session); /* NULL: what is due waits for one */

        LIST_EACH (at, &w->subscriptions) {
                struct subscription *s = LIST_ENTRY(at, struct subscription, node);

                if (s->is_due && (s->call || st)) {
                        tell(s, s->call ? s->call->stream : st);
                        s->is_due = false;
                }
        }
        loop_want(&w->io, EPOLLIN);
}

static void note_change(struct session_watches *w, const struct inotify_event *e)
{
        LIST_EACH (at, &w->subscriptions) {
                struct subscription *s = LIST_ENTRY(at, struct subscription, node);

                if ((e->mask & IN_Q_OVERFLOW) || (s->watch == e->wd && e->len && strcmp(s->name, e->name) == 0))
                        s->is_due = true;
        }
        if (!timer_is_armed(&w->timer))
                timer_set(w->session->mcp->loop, &w->timer, RESOURCE_SETTLE_MS);
}

static void on_events(struct io *io, uint32_t events)
{
        struct session_watches *w = CONTAINER_OF(io, struct session_watches, io);
        char bytes[16 << 10] __attribute__((aligned(__alignof__(struct inotify_event))));
        ssize_t n = read(io->fd, bytes, sizeof(bytes));

        (void)events;
        for (ssize_t at = 0; at < n;) {
                const struct inotify_event *e = (const void *)(bytes + at);

                note_change(w, e);
                at += (ssize_t)(sizeof(*e) + e->len);
        }
        loop_want(io, 0); /* until the timer: a program that writes all the time does not keep us busy */
}

/* NULL: there was no subscription yet. */
static struct session_watches *watches_so_far(const struct session *s)
{
        const struct workbench *bench = s->user;

        return bench ? bench->watches : NULL;
}

static struct session_watches *watches_of(struct session *s)
{
        struct workbench *bench = workbench_of(s);
        struct session_watches *w = bench ? bench->watches : NULL;

        if (w || !bench)
                return w;
        w = calloc(1, sizeof(*w));
        if (!w)
                return NULL;
        w->session = s;
        w->timer.on = tell_due;
        list_init(&w->subscriptions);
        w->io = (struct io){.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), .on = on_events};
        if (w->io.fd < 0 || loop_add(s->mcp->loop, &w->io, EPOLLIN) < 0)
                return session_watches_free(w);
        return bench->watches = w;
}

static struct subscription *find(struct session_watches *w, const char *uri)
{
        LIST_EACH (at, &w->subscriptions) {
                struct subscription *s = LIST_ENTRY(at, struct subscription, node);

                if (strcmp(s->uri, uri) == 0)
                        return s;
        }
        return NULL;
}

/* 0 or negative errno. */
static int subscribe(struct session_watches *w, const char *uri, char *path, struct call *c)
{
        struct subscription *s = calloc(1, sizeof(*s));
        char *slash = strrchr(path, '/');
        int watch;

        if (!s)
                return -ENOMEM;
        s->uri = strdup(uri);
        s->name = strdup(slash + 1);
        slash[slash == path] = '\0'; /* the directory; "/" keeps its slash */
        watch = s->uri && s->name ? inotify_add_watch(w->io.fd, path,
                                                      IN_MODIFY | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE |
                                                              IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR)
                                  : -1;
        if (watch < 0) {
                free(s->uri);
                free(s->name);
                free(s);
                return -errno;
        }
        s->watch = watch;
        s->call = c;
        w->count++;
        list_push_back(&w->subscriptions, &s->node);
        return 0;
}

void session_watches_listen(struct session *s)
{
        struct session_watches *w = watches_so_far(s);

        if (w && !timer_is_armed(&w->timer))
                timer_set(s->mcp->loop, &w->timer, RESOURCE_SETTLE_MS);
}

static void resources_subscribe(struct call *c)
{
        const char *uri = json_string_value(json_object_get(c->params, "uri"));
        struct session_watches *w = watches_of(c->session);
        char path[PATH_MAX];

        if (!asked(c, path))
                return;
        if (!w || w->count >= SUBSCRIPTIONS_MAX)
                call_error(c, JSONRPC_INTERNAL_ERROR, "too many subscriptions");
        else if (!find(w, uri) && subscribe(w, uri, path, NULL) < 0)
                call_error(c, JSONRPC_RESOURCE_NOT_FOUND, "%s cannot be watched: its directory does not exist", path);
        else
                call_result(c, json_object());
}

static void resources_unsubscribe(struct call *c)
{
        const char *uri = json_string_value(json_object_get(c->params, "uri"));
        struct session_watches *w = watches_so_far(c->session);
        struct subscription *s = w && uri ? find(w, uri) : NULL;

        if (!uri) {
                call_error(c, JSONRPC_INVALID_PARAMS, "uri is missing");
                return;
        }
        if (s)
                subscription_free(w, s);
        call_result(c, json_object());
}

/* ---- without sessions ---- */

static void stop_listening(struct call *c)
{
        struct session_watches *w = watches_so_far(c->session);

        if (!w)
                return;
        LIST_EACH (at, &w->subscriptions) {
                struct subscription *s = LIST_ENTRY(at, struct subscription, node);

                if (s->call == c)
                        subscription_free(w, s);
        }
}

static void on_cancel(struct call *c)
{
        stop_listening(c);
        call_result(c, json_object());
}

/* Subscribe to all of these; the array of those that are watched, or NULL: the call is answered with an error. */
static json_t *listen_to(struct call *c, json_t *uris)
{
        struct session_watches *w = watches_of(c->session);
        json_t *honoured = json_array(), *one;
        size_t i;

        json_array_foreach (uris, i, one) {
                const char *uri = json_string_value(one);
                char path[PATH_MAX];
                struct err err = {0};

                if (!w || w->count >= SUBSCRIPTIONS_MAX || !uri || path_of_uri(uri, path, &err) < 0) {
                        stop_listening(c);
                        json_decref(honoured);
                        call_error(c, JSONRPC_INVALID_PARAMS, "%s",
                                   err.msg[0] ? err.msg
                                   : !uri     ? "resourceSubscriptions must be texts"
                                              : "too many subscriptions");
                        return NULL;
                }
                if (subscribe(w, uri, path, c) == 0)
                        (void)json_array_append(honoured, one);
        }
        return honoured;
}

/* subscriptions/listen: the call stays open, and changes of the resources it names come on its stream. */
static void resources_listen(struct call *c)
{
        json_t *filter = json_object_get(c->params, "notifications");
        json_t *honoured = listen_to(c, json_object_get(filter, "resourceSubscriptions")), *params;

        if (!honoured)
                return;
        c->on_cancel = on_cancel;
        params = json_pack("{s:o,s:{s:o}}", "_meta", subscription_meta(c), "notifications", "resourceSubscriptions",
                           honoured);
        stream_notify(c->stream, jsonrpc_notification("notifications/subscriptions/acknowledged", params));
}

const struct method resources_methods[] = {
        {"resources/list", METHOD_WITH_SESSION | METHOD_WITHOUT_SESSION | METHOD_CACHEABLE, resources_list},
        {"resources/templates/list", METHOD_WITH_SESSION | METHOD_WITHOUT_SESSION | METHOD_CACHEABLE,
         resources_templates},
        {"resources/read", METHOD_WITH_SESSION | METHOD_WITHOUT_SESSION | METHOD_CACHEABLE, resources_read},
        {"resources/subscribe", METHOD_WITH_SESSION, resources_subscribe},
        {"resources/unsubscribe", METHOD_WITH_SESSION, resources_unsubscribe},
        {"subscriptions/listen", METHOD_WITHOUT_SESSION, resources_listen},
        {NULL, 0, NULL},
};
