/* Tags of templates, and going back to an earlier build. */
#include "control/api/handlers.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/template/template_path.h"
#include "control/catalogue/builds.h"
#include "model/build/build_names.h"
#include "model/json_field.h"
#include "wire/url.h"

/* The reference in a field of the body. */
static int tags_reference(const json_t *body, const char *field, struct template_ref *ret, struct err *err)
{
        const char *text = NULL;
        struct err why = {0};

        if (json_field_text(body, field, &text, err) < 0)
                return -EINVAL;
        if (!text || !text[0])
                return err_set(err, ERR_INVALID, "validation error: field '%s' is required", field);
        if (template_ref_parse(str_of(text), ret, &why) < 0)
                return err_set(err, ERR_INVALID, "Invalid template reference: %s", why.msg);
        return 0;
}

/* The tags in the body: at least one. */
static json_t *tags_list(const json_t *body, struct err *err)
{
        json_t *list = NULL;

        if (json_field_text_list(body, "tags", BUILD_TAGS_MAX, &list, err) < 0)
                return NULL;
        if (json_array_size(list) == 0) {
                err_set(err, ERR_INVALID, "validation error: field 'tags' must have at least one tag");
                return NULL;
        }
        return build_tags_of(list, NULL, err);
}

/* ---- assign ---- */

static int assign(struct api_exchange *x, const json_t *tags, struct build_entry *e, struct err *err)
{
        struct template_rows *ts = x->api->template_rows;
        int64_t now = ts->now_ns() / 1000 * 1000;
        size_t i;
        json_t *v;
        int r = 0;

        json_array_foreach (tags, i, v)
                if (r == 0)
                        r = template_tag_put(ts, e, json_string_value(v), now, err);
        return r;
}

static int assign_find(struct api_exchange *x, struct build_entry **ret, struct err *err)
{
        struct template_row *t = NULL;
        struct template_ref ref;
        int r = tags_reference(x->body, "target", &ref, err);

        if (r == 0)
                r = own_template(x, &ref, &t, err);
        return r < 0 ? r : builds_ready_of(t, ref.tag, ref.name, ret, err);
}

void handle_assign_tags(struct api_exchange *x)
{
        struct build_entry *e = NULL;
        struct err err = {0};
        json_t *tags = tags_list(x->body, &err);

        if (!tags || assign_find(x, &e, &err) < 0 || assign(x, tags, e, &err) < 0) {
                json_decref(tags);
                answer_err(x, &err);
                return;
        }
        answer_json(x, 201, json_pack("{s:o,s:s}", "tags", tags, "buildID", e->build.id));
}

/* ---- remove ---- */

static int remove_check(const json_t *tags, const struct template_ref *ref, struct err *err)
{
        size_t i;
        json_t *v;

        if (ref->tag[0])
                return err_set(err, ERR_INVALID, "Invalid template reference: the name must not contain a tag");
        json_array_foreach (tags, i, v)
                if (strcmp(json_string_value(v), TAG_DEFAULT) == 0)
                        return err_set(err, ERR_INVALID, "Cannot delete the 'default' tag");
        return 0;
}

void handle_remove_tags(struct api_exchange *x)
{
        struct template_row *t = NULL;
        struct template_ref ref;
        struct err err = {0};
        json_t *tags = tags_list(x->body, &err), *v;
        int r = tags ? tags_reference(x->body, "name", &ref, &err) : -EINVAL;
        size_t i;

        if (r == 0)
                r = remove_check(tags, &ref, &err);
        if (r == 0)
                r = own_template(x, &ref, &t, &err);
        json_array_foreach (tags, i, v)
                if (r == 0)
                        r = template_tag_remove(x->api->template_rows, t, json_string_value(v), &err);
        json_decref(tags);
        if (r < 0)
                answer_err(x, &err);
        else
                answer_empty(x, 204);
}

/* ---- list ---- */

void handle_list_tags(struct api_exchange *x)
{
        struct template_row *t = NULL;
        struct err err = {0};
        json_t *list;

        if (path_template(x, &t, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        list = json_array();
        LIST_EACH (node, &t->tags) {
                const struct template_tag *tag = LIST_ENTRY(node, struct template_tag, node);
                char time[CLOCK_TEXT_MAX];

                clock_format(tag->created_ns, time);
                (void)json_array_append_new(list, json_pack("{s:s,s:s,s:s}", "tag", tag->tag, "buildID",
                                                            tag->build->build.id, "createdAt", time));
        }
        answer_json(x, 200, list);
}

/* ---- going back ---- */

/* The newest ready build before the one that the tag points to. */
static struct build_entry *rollback_former(const struct template_row *t, const struct build_entry *now)
{
        struct build_entry *found = NULL;

        LIST_EACH (node, &t->builds) { /* oldest first */
                struct build_entry *e = LIST_ENTRY(node, struct build_entry, node);

                if (e == now)
                        break;
                if (e->build.status == BUILD_READY)
                        found = e;
        }
        return found;
}

/* "build": number or id; or "buildID". */
static const json_t *rollback_wanted(const json_t *body)
{
        const char *name = json_field_is_set(body, "buildID") ? "buildID" : "build";

        return json_object_get(body, name);
}

static int rollback_find(const struct template_row *t, const json_t *want, const char *tag, struct build_entry **ret,
                         struct err *err)
{
        const struct template_tag *now = template_tag_find(t, tag);
        struct build_entry *e = NULL;

        if (!want || json_is_null(want)) {
                if (!now)
                        return err_set(err, ERR_NOT_FOUND, "tag '%.60s' does not exist for template '%s'", tag, t->id);
                e = rollback_former(t, now->build);
                if (!e)
                        return err_set(err, ERR_CONFLICT, "there is no ready build before build %u",
                                       now->build->build.number);
        } else if (json_is_integer(want) && json_integer_value(want) > 0 && json_integer_value(want) <= UINT32_MAX) {
                e = builds_find_of(t, (uint32_t)json_integer_value(want), NULL);
        } else if (json_is_string(want) && uuid_is_valid(json_string_value(want))) {
                e = builds_find_of(t, 0, json_string_value(want));
        } else {
                return err_set(err, ERR_INVALID,
                               "validation error: field 'build' must be the number or the id of a build");
        }
        if (!e)
                return err_set(err, ERR_NOT_FOUND, "the template has no such build (any more)");
        if (e->build.status != BUILD_READY)
                return err_set(err, ERR_CONFLICT, "build %u is not ready: its status is %s", e->build.number,
                               build_status_name(e->build.status));
        *ret = e;
        return 0;
}

void handle_roll_back_template(struct api_exchange *x)
{
        struct template_rows *ts = x->api->template_rows;
        char tag[TEMPLATE_REF_MAX + 1] = TAG_DEFAULT;
        struct template_row *t = NULL;
        struct build_entry *e = NULL;
        const char *text = NULL;
        struct err err = {0};
        int r = json_field_text(x->body, "tag", &text, &err);

        if (r == 0 && text && text[0])
                r = build_tag_parse(text, tag, &err);
        if (r == 0)
                r = path_template(x, &t, &err);
        if (r == 0)
                r = rollback_find(t, rollback_wanted(x->body), tag, &e, &err);
        if (r == 0)
                r = template_tag_put(ts, e, tag, ts->now_ns() / 1000 * 1000, &err);
        if (r < 0)
                answer_err(x, &err);
        else
                answer_json(x, 200,
                            json_pack("{s:s,s:s,s:s,s:i}", "templateID", t->id, "tag", tag, "buildID", e->build.id,
                                      "number", (int)e->build.number));
}
