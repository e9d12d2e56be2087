#include "agent/exchange/sandbox_find.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/exchange/ask.h"
#include "agent/exchange/exchange.h"

static int take_text(const json_t *obj, const char *name, char *out, size_t max)
{
        const json_t *v = json_object_get(obj, name);
        size_t n = json_string_length(v);

        out[0] = 0;
        if (n >= max)
                return -EPROTO;
        if (n)
                memcpy(out, json_string_value(v), n + 1);
        return 0;
}

int sandbox_take(struct exchange *x, const json_t *shown)
{
        struct sandbox_facts *s = &x->sandbox;

        if (take_text(shown, "sandboxID", s->id, sizeof(s->id)) < 0 || !s->id[0] ||
            take_text(shown, "envdAccessToken", s->token, sizeof(s->token)) < 0 ||
            take_text(shown, "trafficAccessToken", s->traffic, sizeof(s->traffic)) < 0 ||
            take_text(shown, "domain", s->domain, sizeof(s->domain)) < 0)
                return -EPROTO;
        json_decref(s->shown);
        s->shown = json_incref((json_t *)shown);
        return 0;
}

static bool sandbox_found(struct exchange *x, const struct ask_answer *a)
{
        if (a->status == 404 && x->missing)
                x->missing(x);
        else if (a->status == 404)
                tell_no_sandbox(x);
        else if (a->status != 200)
                ask_pass_error(x, a);
        else if (sandbox_take(x, a->body) < 0)
                tell_error(x, 502, NULL, "the API gave an answer that is no sandbox");
        else
                return true;
        return false;
}

static bool sandbox_can_serve(struct exchange *x)
{
        const json_t *s = x->sandbox.shown;
        const char *state = json_string_value(json_object_get(s, "state"));

        if (!state || strcmp(state, "paused") != 0 ||
            json_is_true(json_object_get(json_object_get(s, "lifecycle"), "autoResume")))
                return true;
        tell_error(x, 409, "paused", "sandbox '%s' is paused: POST /api/v1/agent/sandboxes/%s/resume", x->id, x->id);
        return false;
}

static void find_ask(struct exchange *x, void (*on_answer)(struct exchange *x, const struct ask_answer *a))
{
        char target[EXCHANGE_ID_MAX + 16];

        (void)snprintf(target, sizeof(target), "/sandboxes/%s", x->id);
        ask(x, &(struct ask_options){.to = ASK_API, .method = "GET", .target = target, .on_answer = on_answer});
}

static void find_answered(struct exchange *x, const struct ask_answer *a)
{
        if (sandbox_found(x, a))
                x->next(x);
}

static void find_running_answered(struct exchange *x, const struct ask_answer *a)
{
        if (sandbox_found(x, a) && sandbox_can_serve(x))
                x->next(x);
}

void sandbox_find(struct exchange *x, void (*next)(struct exchange *x))
{
        x->next = next;
        find_ask(x, find_answered);
}

void sandbox_find_running(struct exchange *x, void (*next)(struct exchange *x))
{
        x->next = next;
        find_ask(x, find_running_answered);
}

void sandbox_find_or(struct exchange *x, void (*next)(struct exchange *x), void (*missing)(struct exchange *x))
{
        x->missing = missing;
        sandbox_find(x, next);
}
