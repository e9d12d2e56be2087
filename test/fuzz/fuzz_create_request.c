#include "base/err.h"
#include "fuzz.h"
#include "model/request/create_request.h"

#define TIMEOUT_MAX_S 86400

/* What was taken must be a plan that the engine takes, and within every limit. */
static void must_be_sound(const struct create_request *c)
{
        struct plan_net net = {0};
        json_t *encoded = plan_net_encode(&c->network.plan);
        const char *key;
        json_t *v;

        MUST(encoded && plan_net_decode(encoded, &net, NULL) == 0);
        MUST(net.internet == c->network.plan.internet && net.allow_count == c->network.plan.allow_count &&
             net.deny_count == c->network.plan.deny_count);
        plan_net_done(&net);
        json_decref(encoded);
        MUST(c->timeout_s > 0 && c->timeout_s <= TIMEOUT_MAX_S);
        MUST(c->template.name[0] && strlen(c->template.name) <= TEMPLATE_REF_MAX);
        MUST(c->network.is_public || c->is_secured);
        json_object_foreach (c->env, key, v)
                MUST(key[0] && !strchr(key, '=') && json_is_string(v));
        json_object_foreach (c->metadata, key, v)
                MUST(json_is_string(v));
}

static void decode(const json_t *body, enum create_version version)
{
        struct create_request c;
        struct err err = {0};

        if (create_request_decode(body, version, TIMEOUT_MAX_S, &c, &err) < 0) {
                MUST(err.kind != ERR_NONE && err.msg[0]);
                return;
        }
        must_be_sound(&c);
        MUST(version == CREATE_V1 || c.is_secured);
        create_request_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        json_t *body = json_loadb((const char *)data, size, 0, NULL);

        if (!body)
                return 0;
        decode(body, CREATE_V1);
        decode(body, CREATE_V2);
        json_decref(body);
        return 0;
}
