#include "control/show.h"

#include <string.h>

#include "base/clock.h"
#include "control/control.h"
#include "control/tokens.h"
#include "model/conf.h"
#include "model/route.h"

static void set_text(json_t *obj, const char *name, const char *text)
{
        (void)json_object_set_new(obj, name, json_string(text));
}

static void set_time(json_t *obj, const char *name, int64_t real_ns)
{
        char text[CLOCK_TEXT_MAX];

        clock_format(real_ns, text);
        set_text(obj, name, text);
}

static void set_envd_token(const struct control *c, const struct sandbox *s, json_t *obj)
{
        char token[TOKEN_MAX];

        if (!s->is_secured)
                return;
        token_envd(c->seed, s->id, token);
        set_text(obj, "envdAccessToken", token);
}

static void set_traffic_token(const struct control *c, const struct sandbox *s, json_t *obj)
{
        char token[TOKEN_MAX];

        if (sandbox_is_public(s))
                return;
        token_traffic(c->seed, s->id, token);
        set_text(obj, "trafficAccessToken", token);
}

static json_t *show_common(const struct sandbox *s)
{
        json_t *obj = json_pack("{s:s,s:s,s:s,s:s}", "sandboxID", s->id, "clientID", CLIENT_ID, "templateID",
                                s->template_id, "envdVersion", ENVD_VERSION);

        if (s->alias)
                set_text(obj, "alias", s->alias);
        return obj;
}

json_t *show_sandbox(const struct control *c, const struct sandbox *s)
{
        json_t *obj = show_common(s);

        set_text(obj, "domain", c->conf->domain);
        set_envd_token(c, s, obj);
        set_traffic_token(c, s, obj);
        return obj;
}

json_t *show_listed(const struct sandbox *s)
{
        json_t *obj = show_common(s);

        set_time(obj, "startedAt", s->started_ns);
        set_time(obj, "endAt", s->end_ns);
        (void)json_object_set_new(obj, "cpuCount", json_integer(s->cpu_count));
        (void)json_object_set_new(obj, "memoryMB", json_integer(s->memory_mb));
        (void)json_object_set_new(obj, "diskSizeMB", json_integer(s->disk_mb));
        set_text(obj, "state", "running");
        if (s->metadata)
                (void)json_object_set(obj, "metadata", s->metadata);
        return obj;
}

json_t *show_detail(const struct control *c, const struct sandbox *s)
{
        json_t *obj = show_listed(s);

        set_text(obj, "domain", c->conf->domain);
        set_envd_token(c, s, obj);
        (void)json_object_set_new(obj, "allowInternetAccess",
                                  s->internet == CHOICE_UNSET ? json_null() : json_boolean(s->internet == CHOICE_YES));
        if (s->network)
                (void)json_object_set(obj, "network", s->network);
        (void)json_object_set_new(obj, "lifecycle", json_pack("{s:b,s:s}", "autoResume", 0, "onTimeout", "kill"));
        return obj;
}

json_t *show_route(const struct control *c, const struct sandbox *s)
{
        char token[TOKEN_MAX];
        struct route r = {.is_running = true, .mask_host = (char *)sandbox_mask_host(s)}; /* borrowed for the call */

        memcpy(r.id, s->id, sizeof(r.id));
        if (!sandbox_is_public(s)) {
                token_traffic(c->seed, s->id, token);
                r.traffic_token = token;
        }
        return route_encode(&r, "running");
}
