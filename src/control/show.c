#include "control/show.h"

#include <string.h>

#include "base/clock.h"
#include "control/control.h"
#include "control/tokens.h"
#include "model/conf.h"
#include "model/json_field.h"
#include "model/route.h"

/* The secrets that clients of s get: NULL where it has none.  All that is built here is whole or NULL. */
struct secrets {
        char envd[TOKEN_MAX], traffic[TOKEN_MAX];
        const char *envd_shown, *traffic_shown;
};

static void secrets_of(const struct control *c, const struct sandbox *s, struct secrets *ret)
{
        *ret = (struct secrets){0};
        if (s->is_secured) {
                token_envd(c->seed, s->id, ret->envd);
                ret->envd_shown = ret->envd;
        }
        if (!sandbox_is_public(s)) {
                token_traffic(c->seed, s->id, ret->traffic);
                ret->traffic_shown = ret->traffic;
        }
}

static json_t *show_common(const struct sandbox *s)
{
        json_t *obj = json_pack("{s:s,s:s,s:s,s:s}", "sandboxID", s->id, "clientID", CLIENT_ID, "templateID",
                                s->template_id, "envdVersion", ENVD_VERSION);

        return json_with_text(obj, "alias", s->alias);
}

json_t *show_sandbox(const struct control *c, const struct sandbox *s)
{
        json_t *obj = show_common(s);
        struct secrets secrets;

        secrets_of(c, s, &secrets);
        obj = json_with_text(obj, "domain", c->conf->domain);
        obj = json_with_text(obj, "envdAccessToken", secrets.envd_shown);
        return json_with_text(obj, "trafficAccessToken", secrets.traffic_shown);
}

json_t *show_listed(const struct sandbox *s)
{
        json_t *obj = show_common(s);
        char time[CLOCK_TEXT_MAX];

        clock_format(s->started_ns, time);
        obj = json_with_text(obj, "startedAt", time);
        clock_format(s->end_ns, time);
        obj = json_with_text(obj, "endAt", time);
        obj = json_with(obj, "cpuCount", json_integer(s->cpu_count));
        obj = json_with(obj, "memoryMB", json_integer(s->memory_mb));
        obj = json_with(obj, "diskSizeMB", json_integer(s->disk_mb));
        obj = json_with_text(obj, "state", sandbox_is_shown_running(s) ? "running" : "paused");
        return json_with_ref(obj, "metadata", s->metadata);
}

json_t *show_detail(const struct control *c, const struct sandbox *s)
{
        json_t *obj = show_listed(s);
        struct secrets secrets;

        secrets_of(c, s, &secrets);
        obj = json_with_text(obj, "domain", c->conf->domain);
        obj = json_with_text(obj, "envdAccessToken", secrets.envd_shown);
        obj = json_with(obj, "allowInternetAccess",
                        s->internet == CHOICE_UNSET ? json_null() : json_boolean(s->internet == CHOICE_YES));
        obj = json_with_ref(obj, "network", s->network);
        return json_with(
                obj, "lifecycle",
                json_pack("{s:b,s:s}", "autoResume", s->auto_resume, "onTimeout", s->auto_pause ? "pause" : "kill"));
}

/* Until it runs, its old connections lead nowhere and new requests have to wait, if they may: for one at rest that is
 * for who wakes it, for one on its way to running for anybody. */
static bool may_wait(const struct sandbox *s)
{
        switch (s->state) {
        case SANDBOX_RESUMING:
        case SANDBOX_SNAPSHOTTING:
        case SANDBOX_ROLLING_BACK: return true;
        default: return sandbox_wakes(s);
        }
}

json_t *show_route(const struct control *c, const struct sandbox *s)
{
        struct route r = {.is_running = s->state == SANDBOX_RUNNING || s->state == SANDBOX_COPYING,
                          .mask_host = (char *)sandbox_mask_host(s)}; /* borrowed for the call */
        struct secrets secrets;

        secrets_of(c, s, &secrets);
        memcpy(r.id, s->id, sizeof(r.id));
        r.traffic_token = (char *)secrets.traffic_shown;
        r.wakes = !r.is_running && may_wait(s);
        r.at_us = clock_mono_us();
        return route_encode(&r, r.is_running ? "running" : "paused");
}

json_t *show_snapshot(const char *slug, const struct snapshot *sn)
{
        if (!sn->name)
                return json_pack("{s:o,s:[]}", "snapshotID", json_sprintf("%s:%s", sn->template_id, sn->tag), "names");
        return json_pack("{s:o,s:[o]}", "snapshotID", json_sprintf("%s/%s:%s", slug, sn->name, sn->tag), "names",
                         json_sprintf("%s/%s", slug, sn->name));
}
