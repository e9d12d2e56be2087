#include "control/catalogue/standby_wishes.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/catalogue/builds.h"
#include "control/catalogue/template_rows.h"
#include "control/engine_link/plans.h"
#include "model/conf.h"
#include "model/sandbox.h"
#include "model/standby/standby_choice.h"

#define LOOK_MS 1000u /* templates are rebuilt and deleted, and time passes */
#define SOON_MS 20u
#define TELL_TIMEOUT_MS 10000
#define USES_MAX 256u
#define NO_ID "s00000000000000000000" /* the engine picks the names */

struct use {
        struct list node;
        char template_id[TEMPLATE_ID_MAX];
        char tag[TEMPLATE_REF_MAX + 1];
        int64_t used_ns;
};

static void use_free(struct standby_wishes *w, struct use *u)
{
        list_remove(&u->node);
        w->use_count--;
        free(u);
}

static struct use *find_use(const struct standby_wishes *w, const char *template_id, const char *tag)
{
        LIST_EACH (node, &w->uses) {
                struct use *u = LIST_ENTRY(node, struct use, node);

                if (strcmp(u->template_id, template_id) == 0 && strcmp(u->tag, tag) == 0)
                        return u;
        }
        return NULL;
}

static void note_use(struct standby_wishes *w, const char *template_id, const char *tag, int64_t used_ns)
{
        struct use *u = find_use(w, template_id, tag);

        if (!u && w->use_count < USES_MAX && strlen(tag) < sizeof(u->tag) && (u = calloc(1, sizeof(*u)))) {
                memcpy(u->template_id, template_id, sizeof(u->template_id));
                memcpy(u->tag, tag, strlen(tag) + 1);
                list_push_back(&w->uses, &u->node);
                w->use_count++;
        }
        if (u)
                u->used_ns = used_ns;
}

/* ---- the list for the engine ---- */

/* What a use means now; NULL: nothing that begins with a checkpoint. */
static const struct build *find_build(const struct standby_wishes *w, const struct use *u)
{
        const struct template_row *t = template_rows_by_id(w->rows, u->template_id);
        struct build_entry *e = NULL;
        struct err err;

        if (!t || builds_ready_of(t, u->tag, "", &e, &err) < 0 || !e->build.checkpoint[0])
                return NULL;
        return &e->build;
}

/* As of a create, without what belongs to one sandbox alone. */
static json_t *plan_of_build(const struct standby_wishes *w, const struct use *u, const struct build *b)
{
        struct sandbox s = {.memory_mb = b->memory_mb,
                            .cpu_count = b->cpu_count,
                            .layers = b->layers, /* borrowed: sandbox_done() is not for this one */
                            .image_secured = b->image_secured,
                            .internet = CHOICE_NO};
        json_t *plan = NULL;
        struct err err = {0};

        memcpy(s.id, NO_ID, sizeof(NO_ID));
        memcpy(s.template_id, u->template_id, sizeof(s.template_id));
        memcpy(s.checkpoint, b->checkpoint, sizeof(s.checkpoint));
        memcpy(s.image_of, b->image_of, sizeof(s.image_of));
        if (plan_for(w->conf, w->tokens, &s, true, &plan, &err) < 0) {
                log_warn("standbys.skipped", "template=%s error=\"%s\"", u->template_id, err.msg);
                return NULL;
        }
        (void)json_object_set_new(plan, "init", json_object());
        return plan;
}

static bool has_plan(const json_t *wants, const json_t *plan)
{
        const json_t *v;
        size_t i;

        json_array_foreach (wants, i, v)
                if (json_equal(json_object_get(v, "plan"), plan))
                        return true;
        return false;
}

static void add_want(const struct standby_wishes *w, const struct use *u, json_t *wants)
{
        const struct build *b = find_build(w, u);
        json_t *plan = b ? plan_of_build(w, u, b) : NULL;

        if (plan && !has_plan(wants, plan)) /* two tags may point to one build */
                (void)json_array_append_new(wants,
                                            json_pack("{s:O,s:i}", "plan", plan, "count", (int)w->conf->standbys));
        json_decref(plan);
}

static json_t *list_wants(struct standby_wishes *w)
{
        struct standby_use uses[USES_MAX];
        json_t *wants = json_array();
        size_t n = 0, chosen;

        LIST_EACH (node, &w->uses) {
                struct use *u = LIST_ENTRY(node, struct use, node);

                uses[n++] = (struct standby_use){u->used_ns, u};
        }
        chosen = standby_choose(uses, n, w->now_ns());
        for (size_t i = 0; i < chosen && wants; i++)
                add_want(w, uses[i].arg, wants);
        for (size_t i = chosen; i < n; i++)
                use_free(w, uses[i].arg); /* its time is over */
        return wants;
}

/* ---- telling the engine ---- */

static void on_told(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct standby_wishes *w = CONTAINER_OF(c, struct standby_wishes, call);

        (void)answer;
        json_decref(w->told);
        w->told = err ? NULL : w->telling;
        if (err) {
                json_decref(w->telling);
                log_warn("standbys.untold", "error=\"%s\", trying again", err->msg);
        }
        w->telling = NULL;
}

static void tell(struct standby_wishes *w)
{
        json_t *wants = list_wants(w);

        if (!wants || json_equal(wants, w->told) || (!w->told && json_array_size(wants) == 0)) {
                json_decref(wants);
                return;
        }
        w->telling = wants;
        w->call.on = on_told;
        engine_call(w->engine, &w->call, json_pack("{s:s,s:O}", "op", "standbys", "wants", wants), TELL_TIMEOUT_MS);
}

static void on_look(struct timer *t)
{
        struct standby_wishes *w = CONTAINER_OF(t, struct standby_wishes, look);

        if (!engine_call_is_started(&w->call) && w->engine->state == ENGINE_UP)
                tell(w);
        if (w->use_count > 0 || json_array_size(w->told) > 0)
                timer_set(w->loop, &w->look, LOOK_MS);
}

static void look_soon(struct standby_wishes *w)
{
        if (w->conf->standbys && w->conf->standby_memory_mb)
                timer_set(w->loop, &w->look, SOON_MS);
}

void standby_wishes_used(struct standby_wishes *w, const struct template_row *t, const char *tag)
{
        note_use(w, t->id, tag, w->now_ns());
        look_soon(w);
}

void standby_wishes_connected(struct standby_wishes *w)
{
        json_decref(w->told);
        w->told = NULL;
        if (w->use_count > 0)
                look_soon(w);
}

void standby_wishes_init(struct standby_wishes *w, const struct standby_wishes *from)
{
        *w = *from;
        list_init(&w->uses);
        w->look.on = on_look;
        LIST_EACH (node, &w->rows->all) {
                const struct template_row *t = LIST_ENTRY(node, struct template_row, node);

                if (t->last_spawned_ns > w->now_ns() - STANDBY_RECENT_NS)
                        note_use(w, t->id, "", t->last_spawned_ns);
        }
}

void standby_wishes_done(struct standby_wishes *w)
{
        if (!w->loop)
                return;
        timer_clear(&w->look);
        engine_call_cancel(&w->call);
        LIST_EACH (node, &w->uses)
                use_free(w, LIST_ENTRY(node, struct use, node));
        json_decref(w->told);
        json_decref(w->telling);
        *w = (struct standby_wishes){0};
}
