#include <errno.h>

#include "base/auto.h"
#include "base/err.h"
#include "fault.h"
#include "model/conf.h"
#include "model/credential/credential.h"
#include "model/request/create_request.h"
#include "model/plan.h"
#include "model/template.h"

#define ID "i0123456789abcdefghij"

static void json_p(json_t **j)
{
        json_decref(*j);
}
#define AUTO_JSON AUTO(json_p)

/* The message to decode; it does not take part in the failing. */
static json_t *parse(const char *text)
{
        json_t *msg;

        fault_pause();
        msg = json_loads(text, 0, NULL);
        fault_resume();
        return msg;
}

static int a_configuration_is_made_encoded_and_decoded(void)
{
        AUTO(conf_done) struct conf c = {0}, copy = {0};
        AUTO_JSON json_t *msg = NULL;
        struct err err = {0};
        int r;

        r = conf_defaults(&c, "/d", &err);
        if (r == 0)
                r = conf_check(&c, &err);
        MUST(r == 0 || err.kind != ERR_NONE);
        if (r < 0)
                return r;
        msg = conf_encode(&c);
        if (!msg)
                return -ENOMEM;
        r = conf_decode(msg, &copy, &err);
        MUST(r == 0 || err.kind != ERR_NONE);
        return r;
}

static int a_plan_is_decoded_and_encoded(void)
{
        AUTO_JSON json_t *msg =
                parse("{\"id\":\"" ID "\",\"layers\":[\"base-1\",\"top\"],"
                      "\"limits\":{\"memory_bytes\":536870912,\"cpu_count\":2,\"pids\":256},"
                      "\"net\":{\"internet\":true,\"allow\":[\"203.0.113.7\"],\"deny\":[\"0.0.0.0/0\"]},"
                      "\"init\":{\"sandboxID\":\"" ID "\"}}");
        AUTO_JSON json_t *again = NULL;
        struct plan_create p;
        struct err err = {0};
        int r;

        r = plan_decode(msg, &p, &err);
        MUST(r == 0 || err.kind != ERR_NONE);
        if (r < 0)
                return r;
        again = plan_encode(&p);
        plan_done(&p);
        return again ? 0 : -ENOMEM;
}

static int a_create_request_is_decoded(void)
{
        AUTO_JSON json_t *msg = parse("{\"templateID\":\"base\",\"timeout\":60,\"metadata\":{\"a\":\"b\",\"c\":\"d\"},"
                                      "\"envVars\":{\"X\":\"1\"},\"secure\":true,\"allow_internet_access\":true}");
        struct create_request c;
        struct err err = {0};
        int r;

        r = create_request_decode(msg, CREATE_V2, 3600, &c, &err);
        MUST(r == 0 || err.kind != ERR_NONE);
        if (r == 0)
                create_request_done(&c);
        return r;
}

static int a_template_is_decoded(void)
{
        static const struct template_defaults defaults = {2, 512, 1024};
        AUTO_JSON json_t *msg = NULL;
        struct template *t = NULL;
        struct err err = {0};
        int r;

        msg = parse("{\"templateID\":\"rki5dems9wqfm4r03t7g\",\"alias\":\"base\",\"layers\":[\"base-1\"],"
                    "\"cpuCount\":2,\"memoryMB\":512,\"defaultUser\":\"user\",\"defaultWorkdir\":\"/home/user\"}");
        r = template_decode(msg, &defaults, &t, &err);
        MUST(r == 0 || err.kind != ERR_NONE);
        t = template_free(t);
        return r;
}

static int credentials_are_unfolded(void)
{
        static const struct {
                const char *name, *value;
        } rows[] = {
                {"codex", "sk-key"},
                {"git", "https://a:b@c\n"},
                {"claude", "{\"claudeAiOauth\":{\"accessToken\":\"a\"}}"},
                {"mine", "{\"env\":{\"A\":\"b\"},\"files\":{\"x/y\":\"z\"}}"},
        };
        struct err err = {0};
        json_t *parts;

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                parts = NULL;
                if (credential_unfold(rows[i].name, str_of(rows[i].value), &parts, &err) < 0) {
                        MUST(!parts && err.kind != ERR_NONE && fault_was_hit());
                        return -ENOMEM;
                }
                credential_free(parts);
        }
        return 0;
}

int main(void)
{
        EACH(a_configuration_is_made_encoded_and_decoded);
        EACH(a_plan_is_decoded_and_encoded);
        EACH(a_create_request_is_decoded);
        EACH(a_template_is_decoded);
        EACH(credentials_are_unfolded);
        return fault_done();
}
