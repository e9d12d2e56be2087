#include "control/api/show.h"

#include <string.h>

#include "base/clock.h"
#include "control/access/tokens.h"
#include "control/api/api.h"
#include "model/conf.h"
#include "model/json_field.h"

/* The secrets that clients of a sandbox get; NULL: there is none.  Every object that is built here is whole or NULL. */
struct shown_secrets {
        char envd[TOKEN_MAX], traffic[TOKEN_MAX];
        const char *envd_shown, *traffic_shown;
};

static void shown_secrets_of(const struct api *api, const struct sandbox *s, struct shown_secrets *ret)
{
        *ret = (struct shown_secrets){0};
        if (s->is_secured) {
                token_envd(api->tokens, s->id, ret->envd);
                ret->envd_shown = ret->envd;
        }
        if (!sandbox_is_public(s)) {
                token_traffic(api->tokens, s->id, ret->traffic);
                ret->traffic_shown = ret->traffic;
        }
}

static json_t *show_common(const struct sandbox *s)
{
        json_t *obj = json_pack("{s:s,s:s,s:s,s:s}", "sandboxID", s->id, "clientID", CLIENT_ID, "templateID",
                                s->template_id, "envdVersion", ENVD_VERSION);

        return json_with_text(obj, "alias", s->alias);
}

json_t *show_sandbox(const struct api *api, const struct sandbox *s)
{
        json_t *obj = show_common(s);
        struct shown_secrets secrets;

        shown_secrets_of(api, s, &secrets);
        obj = json_with_text(obj, "domain", api->conf->domain);
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

json_t *show_detail(const struct api *api, const struct sandbox *s)
{
        json_t *obj = show_listed(s);
        struct shown_secrets secrets;

        shown_secrets_of(api, s, &secrets);
        obj = json_with_text(obj, "domain", api->conf->domain);
        obj = json_with_text(obj, "envdAccessToken", secrets.envd_shown);
        obj = json_with_text(obj, "trafficAccessToken", secrets.traffic_shown);
        obj = json_with(obj, "allowInternetAccess",
                        s->internet == CHOICE_UNSET ? json_null() : json_boolean(s->internet == CHOICE_YES));
        obj = json_with_ref(obj, "network", s->network);
        return json_with(
                obj, "lifecycle",
                json_pack("{s:b,s:s}", "autoResume", s->auto_resume, "onTimeout", s->auto_pause ? "pause" : "kill"));
}

json_t *show_snapshot(const char *slug, const struct snapshot *sn)
{
        if (!sn->name)
                return json_pack("{s:o,s:[]}", "snapshotID", json_sprintf("%s:%s", sn->template_id, sn->tag), "names");
        return json_pack("{s:o,s:[o]}", "snapshotID", json_sprintf("%s/%s:%s", slug, sn->name, sn->tag), "names",
                         json_sprintf("%s/%s", slug, sn->name));
}
