/* GET, PUT, DELETE /credentials[/{name}]: passed on to the API, which keeps them. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/api/handlers.h"
#include "agent/exchange/ask.h"
#include "agent/exchange/exchange.h"
#include "agent/request/text_field.h"
#include "base/err.h"
#include "model/json_field.h"

#define NAME_BYTES_MAX 256

static json_t *credential_show(const json_t *c)
{
        static const struct {
                const char *name, *from;
        } fields[] = {{"name", "name"},
                      {"scope", "scope"},
                      {"created_at", "createdAt"},
                      {"updated_at", "updatedAt"},
                      {"readable", "readable"}};
        json_t *obj = json_object();

        for (size_t i = 0; i < ARRAY_LEN(fields); i++)
                obj = json_with_ref(obj, fields[i].name, json_object_get(c, fields[i].from));
        return obj;
}

static json_t *credentials_show(const json_t *all)
{
        json_t *list = json_array(), *one;
        size_t i;

        json_array_foreach (all, i, one)
                (void)json_array_append_new(list, credential_show(one));
        return json_with(json_object(), "credentials", list);
}

static void credentials_answered(struct exchange *x, const struct ask_answer *a)
{
        if (a->status >= 400)
                ask_pass_error(x, a);
        else if (json_is_array(a->body))
                tell_json(x, a->status, credentials_show(a->body));
        else if (a->body)
                tell_json(x, a->status, credential_show(a->body));
        else
                tell_empty(x, a->status);
}

static void credentials_pass(struct exchange *x, const char *method)
{
        AUTO_BUF struct buf target = BUF_INIT(4096);
        struct str query = x->rq->url.query;
        int r = buf_addc(&target, "/sandglass/credentials");

        if (x->segment.n > NAME_BYTES_MAX) {
                tell_error(x, 404, NULL, "no credential has such a name");
                return;
        }
        if (r == 0 && x->segment.n)
                r = buf_addf(&target, "/%.*s", STR_ARG(x->segment));
        if (r == 0 && query.n)
                r = buf_addf(&target, "?%.*s", STR_ARG(query));
        if (r < 0 || !buf_cstr(&target))
                tell_error(x, 400, NULL, "the query is too long");
        else
                ask(x, &(struct ask_options){.to = ASK_API,
                                             .method = method,
                                             .target = buf_cstr(&target),
                                             .body = x->body,
                                             .is_secret = true,
                                             .on_answer = credentials_answered});
}

void agent_get_credentials(struct exchange *x)
{
        credentials_pass(x, "GET");
}

void agent_put_credential(struct exchange *x)
{
        const char *value = NULL;
        struct err err = {0};

        /* The API takes an object, too, and has its own words for other types. */
        if (json_is_string(json_object_get(x->body, "value")) && text_field(x->body, "value", &value, &err) < 0)
                tell_err(x, &err);
        else
                credentials_pass(x, "PUT");
}

void agent_delete_credential(struct exchange *x)
{
        credentials_pass(x, "DELETE");
}
