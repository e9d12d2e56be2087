#include "interpreter/service/api.h"

#include <errno.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "http/server.h"
#include "interpreter/service/context.h"
#include "interpreter/service/contexts.h"
#include "interpreter/service/request.h"
#include "interpreter/service/run.h"

#define ID_SHOWN_MAX 200
#define REASON_MAX 4096

/* ---- answers ---- */

static const struct http_header cors[] = {{"Access-Control-Allow-Origin", "*"}, {NULL, NULL}};

static const struct http_header *headers_for(const struct http_request *rq)
{
        return http1_find(rq->head, "Origin") ? cors : NULL;
}

static void reply_text(struct http_request *rq, unsigned status, const char *text)
{
        http_reply(rq, status, "text/plain; charset=utf-8", headers_for(rq), text, strlen(text));
}

static void reply_detail(struct http_request *rq, unsigned status, const char *detail)
{
        http_reply_json(rq, status, headers_for(rq), json_pack("{s:s}", "detail", detail));
}

static void reply_null(struct http_request *rq)
{
        http_reply(rq, 200, "application/json", headers_for(rq), "null", 4);
}

static void reply_about(struct http_request *rq, unsigned status, const char *before, const char *id, const char *after)
{
        char text[ID_SHOWN_MAX + 100];

        (void)snprintf(text, sizeof(text), "%s%.*s%s", before, ID_SHOWN_MAX, id, after);
        reply_text(rq, status, text);
}

static void reply_not_found(struct http_request *rq, const char *id)
{
        reply_about(rq, 404, "Context ", id, " not found");
}

static json_t *context_show(const struct context *c)
{
        return json_pack("{s:s, s:s, s:s}", "id", c->id, "language", c->language, "cwd", c->cwd);
}

/* ---- requests that wait for a context ---- */

struct waiting {
        struct context_waiter waiter;
        struct contexts *contexts;
        struct context *context; /* the one that is being made; NULL: not our concern */
        struct http_request *rq;
        char id[CONTEXT_ID_MAX];
        struct execute_request execute; /* zeroed: it is no execution */
        struct reservation memory;      /* for that */
};

static void waiting_free(struct waiting *w)
{
        list_remove(&w->waiter.node);
        execute_request_done(&w->execute);
        reservation_drop(&w->memory);
        free(w);
}

/* The client left.  A context that only this client asked for is not wanted any more. */
static void waiting_on_close(struct http_request *rq, bool is_complete)
{
        struct waiting *w = rq->user;
        struct context *c = w->context;

        (void)is_complete;
        waiting_free(w);
        if (c && !c->is_created && !c->is_default && list_is_empty(&c->waiters))
                context_remove(c, NULL);
}

static struct waiting *waiting_create(struct contexts *cs, struct http_request *rq, const char *id,
                                      void (*done)(struct context_waiter *, struct context *, const char *))
{
        struct waiting *w = calloc(1, sizeof(*w));

        if (!w) {
                reply_text(rq, 500, "out of memory");
                return NULL;
        }
        w->waiter.done = done;
        w->contexts = cs;
        w->rq = rq;
        (void)snprintf(w->id, sizeof(w->id), "%s", id);
        rq->user = w;
        rq->on_close = waiting_on_close;
        return w;
}

static struct http_request *waiting_over(struct waiting *w) /* the request is to be answered now */
{
        struct http_request *rq = w->rq;

        rq->user = NULL;
        rq->on_close = NULL;
        return rq;
}

static void reply_not_created(struct http_request *rq, const char *why)
{
        char text[REASON_MAX];

        (void)snprintf(text, sizeof(text), "Failed to create context: %s", why);
        reply_text(rq, 500, text);
}

/* ---- bodies ---- */

static void reply_full(struct http_request *rq)
{
        char text[200];

        (void)snprintf(text, sizeof(text),
                       "Too much code waits already: %u MiB for all contexts. Send it again when other runs have ended",
                       WAITING_BYTES_MAX >> 20);
        reply_text(rq, 503, text);
}

static void read_body(struct contexts *cs, struct http_request *rq,
                      void (*on_body)(struct http_request *, struct str, struct reservation *, void *))
{
        const struct body_options opt = {.budget = &cs->waiting,
                                         .bytes_max = API_BODY_MAX,
                                         .on_body = on_body,
                                         .on_full = reply_full,
                                         .arg = cs};

        if (body_read(rq, &opt) < 0)
                reply_text(rq, 500, "out of memory");
}

/* ---- /execute ---- */

/* Takes what it needs out of `e`, which is the caller's to release, and the memory for it. */
static void execute_in(struct context *c, struct http_request *rq, struct execute_request *e,
                       struct reservation *memory)
{
        char *code = malloc(e->code.n ? e->code.n : 1);
        struct run *run;

        if (code && e->code.n)
                memcpy(code, e->code.p, e->code.n);
        run = code ? run_create(c->contexts->opt.loop, code, e->code.n, json_incref(e->variables),
                                http1_value(rq->head, "X-Access-Token"))
                   : NULL;
        if (!run) {
                reply_text(rq, 500, "out of memory");
                return;
        }
        run->memory = *memory;
        *memory = (struct reservation){0};
        run_open(run, rq, headers_for(rq));
        context_add_run(c, run);
}

static void execute_created(struct context_waiter *waiter, struct context *c, const char *failure)
{
        struct waiting *w = CONTAINER_OF(waiter, struct waiting, waiter);
        struct http_request *rq = waiting_over(w);

        if (failure)
                reply_not_created(rq, failure);
        else
                execute_in(c, rq, &w->execute, &w->memory);
        waiting_free(w);
}

/* The default context of the language: there, starting, or to be made. */
static void execute_in_default(struct contexts *cs, struct http_request *rq, struct execute_request *e,
                               struct reservation *memory)
{
        char language[LANGUAGE_NAME_MAX];
        struct context *c = NULL;
        struct err err = {0};
        struct waiting *w;
        bool is_bad;

        if (language_normalise(str_of(e->language), language) < 0) {
                reply_not_created(rq, "the name of the language is too long");
                return;
        }
        c = contexts_find_default(cs, language);
        if (c && c->is_created) {
                execute_in(c, rq, e, memory);
                return;
        }
        if (!c && context_create(cs, language, cs->opt.home, true, &c, &is_bad, &err) < 0) {
                reply_not_created(rq, err.msg);
                return;
        }
        w = waiting_create(cs, rq, "", execute_created);
        if (!w)
                return;
        w->execute = *e;
        *e = (struct execute_request){0};
        w->memory = *memory;
        *memory = (struct reservation){0};
        context_wait(c, &w->waiter);
}

static void execute_on_body(struct http_request *rq, struct str body, struct reservation *memory, void *arg)
{
        struct contexts *cs = arg;
        struct execute_request e = {0};
        json_t *detail = NULL;
        struct context *c;

        if (execute_request_decode(body, &e, &detail) < 0) {
                http_reply_json(rq, 422, headers_for(rq), detail);
                return;
        }
        if (e.context_id && e.language) {
                reply_text(rq, 400, "Only one of context_id or language can be provided");
        } else if (!e.context_id) {
                execute_in_default(cs, rq, &e, memory);
        } else {
                c = contexts_find(cs, str_of(e.context_id));
                if (c)
                        execute_in(c, rq, &e, memory);
                else
                        reply_not_found(rq, e.context_id);
        }
        execute_request_done(&e);
}

static void api_execute(struct contexts *cs, struct http_request *rq, struct str id)
{
        (void)id;
        read_body(cs, rq, execute_on_body);
}

/* ---- /contexts ---- */

static void context_created(struct context_waiter *waiter, struct context *c, const char *failure)
{
        struct waiting *w = CONTAINER_OF(waiter, struct waiting, waiter);
        struct http_request *rq = waiting_over(w);

        if (failure)
                reply_not_created(rq, failure);
        else
                http_reply_json(rq, 200, headers_for(rq), context_show(c));
        waiting_free(w);
}

static void create_context(struct contexts *cs, struct http_request *rq, const struct context_request *cr)
{
        char language[LANGUAGE_NAME_MAX];
        struct err err = {0};
        struct context *c;
        struct waiting *w;
        bool is_bad_directory;
        int r;

        if (language_normalise(str_of(cr->language), language) < 0) {
                reply_not_created(rq, "the name of the language is too long");
                return;
        }
        r = context_create(cs, language, cr->cwd ? cr->cwd : cs->opt.home, false, &c, &is_bad_directory, &err);
        if (r < 0) {
                if (is_bad_directory)
                        reply_text(rq, 500, "Failed to set working directory");
                else
                        reply_not_created(rq, err.msg);
                return;
        }
        w = waiting_create(cs, rq, c->id, context_created);
        if (!w) {
                context_remove(c, NULL);
                return;
        }
        w->context = c;
        context_wait(c, &w->waiter);
}

static void create_on_body(struct http_request *rq, struct str body, struct reservation *memory, void *arg)
{
        struct context_request cr = {0};
        json_t *detail = NULL;

        (void)memory;
        if (context_request_decode(body, &cr, &detail) < 0) {
                http_reply_json(rq, 422, headers_for(rq), detail);
                return;
        }
        create_context(arg, rq, &cr);
        context_request_done(&cr);
}

static void api_create(struct contexts *cs, struct http_request *rq, struct str id)
{
        (void)id;
        read_body(cs, rq, create_on_body);
}

static void api_list(struct contexts *cs, struct http_request *rq, struct str id)
{
        json_t *list = json_array();

        (void)id;
        LIST_EACH (at, &cs->all) {
                struct context *c = LIST_ENTRY(at, struct context, node);

                if (c->is_created && c->state != CONTEXT_REMOVING)
                        (void)json_array_append_new(list, context_show(c));
        }
        http_reply_json(rq, 200, headers_for(rq), list);
}

static void removed(struct context_waiter *waiter, struct context *c, const char *failure)
{
        struct waiting *w = CONTAINER_OF(waiter, struct waiting, waiter);
        struct http_request *rq = waiting_over(w);

        (void)c;
        if (failure)
                reply_about(rq, 500, "Failed to remove context ", w->id, "");
        else
                reply_null(rq);
        waiting_free(w);
}

static void restarted(struct context_waiter *waiter, struct context *c, const char *failure)
{
        struct waiting *w = CONTAINER_OF(waiter, struct waiting, waiter);
        struct http_request *rq = waiting_over(w);

        (void)c;
        if (failure)
                reply_about(rq, 500, "Failed to restart context ", w->id, "");
        else
                reply_null(rq);
        waiting_free(w);
}

static struct context *find_or_404(struct contexts *cs, struct http_request *rq, struct str id)
{
        AUTO_FREE char *text = NULL;
        struct context *c = url_decode_dup(id, false, &text) < 0 ? NULL : contexts_find(cs, str_of(text));

        if (!c)
                reply_not_found(rq, text ? text : "");
        return c;
}

static void api_remove(struct contexts *cs, struct http_request *rq, struct str id)
{
        struct context *c = find_or_404(cs, rq, id);
        struct waiting *w = c ? waiting_create(cs, rq, c->id, removed) : NULL;

        if (w)
                context_remove(c, &w->waiter);
}

static void api_restart(struct contexts *cs, struct http_request *rq, struct str id)
{
        struct context *c = find_or_404(cs, rq, id);
        struct waiting *w = c ? waiting_create(cs, rq, c->id, restarted) : NULL;

        if (w)
                context_restart(c, &w->waiter);
}

static void api_health(struct contexts *cs, struct http_request *rq, struct str id)
{
        (void)cs;
        (void)id;
        http_reply(rq, 200, "application/json", headers_for(rq), "\"OK\"", 4);
}

/* ---- router ---- */

static const struct endpoint {
        const char *method;
        const char *path[3]; /* "*": any segment; NULL: the end */
        void (*serve)(struct contexts *cs, struct http_request *rq, struct str id);
} endpoints[] = {
        {"GET", {"health"}, api_health},           {"POST", {"execute"}, api_execute},
        {"POST", {"contexts"}, api_create},        {"GET", {"contexts"}, api_list},
        {"DELETE", {"contexts", "*"}, api_remove}, {"POST", {"contexts", "*", "restart"}, api_restart},
};

static bool path_matches(const struct endpoint *e, const struct url *url)
{
        size_t n = 0;

        while (n < ARRAY_LEN(e->path) && e->path[n])
                n++;
        if (url->segment_count != n)
                return false;
        for (size_t i = 0; i < n; i++)
                if (strcmp(e->path[i], "*") == 0 ? url->segments[i].n == 0 : !str_is(url->segments[i], e->path[i]))
                        return false;
        return true;
}

/* What a browser asks before it sends a request to another origin. */
static void reply_preflight(struct http_request *rq)
{
        char wanted[1024];
        struct str headers = http1_value(rq->head, "Access-Control-Request-Headers");
        const struct http_header answer[] = {
                {"Access-Control-Allow-Origin", "*"},
                {"Access-Control-Allow-Methods", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"},
                {"Access-Control-Max-Age", "600"},
                {headers.n && headers.n < sizeof(wanted) ? "Access-Control-Allow-Headers" : NULL, wanted},
                {NULL, NULL},
        };

        (void)snprintf(wanted, sizeof(wanted), "%.*s", STR_ARG(headers));
        http_reply(rq, 200, "text/plain; charset=utf-8", answer, "OK", 2);
}

void api_on_request(struct http_request *rq, void *arg)
{
        bool is_known = false;

        if (str_is(rq->head->method, "OPTIONS") && http1_find(rq->head, "Origin") &&
            http1_find(rq->head, "Access-Control-Request-Method")) {
                reply_preflight(rq);
                return;
        }
        for (size_t i = 0; i < ARRAY_LEN(endpoints); i++) {
                const struct endpoint *e = &endpoints[i];

                if (!path_matches(e, &rq->url))
                        continue;
                is_known = true;
                if (str_is(rq->head->method, e->method)) {
                        e->serve(arg, rq, rq->url.segment_count > 1 ? rq->url.segments[1] : (struct str){0});
                        return;
                }
        }
        reply_detail(rq, is_known ? 405 : 404, is_known ? "Method Not Allowed" : "Not Found");
}
