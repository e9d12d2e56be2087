#include "control/catalogue/sources.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "control/access/keys.h"
#include "control/catalogue/builds.h"
#include "control/catalogue/snapshots.h"
#include "control/catalogue/templates.h"
#include "wire/sha256.h"

/* "ns/name" or "name" */
struct shown_ref {
        char text[2 * TEMPLATE_REF_MAX + 2];
};

static struct shown_ref shown_ref_of(const struct template_ref *ref)
{
        struct shown_ref s;

        (void)snprintf(s.text, sizeof(s.text), "%s%s%s", ref->ns, ref->ns[0] ? "/" : "", ref->name);
        return s;
}

static int source_not_found(const struct template_ref *ref, struct err *err)
{
        return err_set(err, ERR_NOT_FOUND, "template '%.128s' not found", shown_ref_of(ref).text);
}

static int source_denied(const struct template_ref *ref, const struct team *team, struct err *err)
{
        return err_set(err, ERR_DENIED, "Team '%.60s' does not have access to the template '%.128s'", team->slug,
                       shown_ref_of(ref).text);
}

/* ---- which template ---- */

/* Any snapshot of that name or id; the tag decides between several. */
static const struct snapshot *source_any_snapshot(const struct sources *s, const struct template_ref *ref,
                                                  const struct team *team)
{
        LIST_EACH (node, &s->snapshots->all) {
                const struct snapshot *sn = &LIST_ENTRY(node, struct snapshot_entry, node)->snapshot;

                if (sn->team == team->no &&
                    (strcmp(sn->template_id, ref->name) == 0 || (sn->name && strcmp(sn->name, ref->name) == 0)))
                        return sn;
        }
        return NULL;
}

static int source_manifest(const struct sources *s, const char *name, const struct template **ret)
{
        struct template_ref bare = {0};

        (void)snprintf(bare.name, sizeof(bare.name), "%s", name);
        return templates_find(s->manifests, &bare, "", ret, NULL);
}

static int source_in_namespace(const struct sources *s, const struct template_ref *ref, const struct team *asking,
                               struct template_source *ret, struct err *err)
{
        const struct team *owner = keys_team_named(s->keys, str_of(ref->ns));

        if (!owner || strcmp(owner->slug, ref->ns) != 0)
                return source_not_found(ref, err);
        ret->row = template_rows_by_alias(s->rows, owner->no, ref->name);
        if (!ret->row && (ret->row = template_rows_by_id(s->rows, ref->name)) && ret->row->team != owner->no)
                ret->row = NULL;
        if (ret->row)
                return owner == asking || ret->row->is_public ? 0 : source_denied(ref, asking, err);
        if (owner != asking)
                return source_not_found(ref, err);
        ret->snapshot = source_any_snapshot(s, ref, asking);
        if (ret->snapshot || source_manifest(s, ref->name, &ret->manifest) == 0)
                return 0;
        return source_not_found(ref, err);
}

/* `python3` is another name of `code-interpreter-v1`: the team's own, or the one that all teams know. */
static struct template_row *source_by_other_name(const struct sources *s, const char *name, const struct team *team)
{
        const char *alias = template_rows_meaning(s->rows, name);
        struct template_row *t = alias ? template_rows_by_alias(s->rows, team->no, alias) : NULL;

        return t || !alias ? t : template_rows_by_bare_alias(s->rows, alias);
}

int sources_find_template(const struct sources *s, const struct template_ref *ref, const struct team *team,
                          struct template_source *ret, struct err *err)
{
        *ret = (struct template_source){0};
        if (ref->ns[0])
                return source_in_namespace(s, ref, team, ret, err);
        if ((ret->row = template_rows_by_alias(s->rows, team->no, ref->name)) ||
            (ret->snapshot = source_any_snapshot(s, ref, team)) || source_manifest(s, ref->name, &ret->manifest) == 0 ||
            (ret->row = template_rows_by_bare_alias(s->rows, ref->name)) ||
            (ret->row = source_by_other_name(s, ref->name, team)))
                return 0;
        ret->row = template_rows_by_id(s->rows, ref->name);
        if (!ret->row)
                return source_not_found(ref, err);
        return ret->row->team == team->no || ret->row->is_public ? 0 : source_denied(ref, team, err);
}

/* ---- which image ---- */

int sources_find(const struct sources *s, const struct template_ref *ref, const struct team *team,
                 struct template_source *ret, struct err *err)
{
        int r = sources_find_template(s, ref, team, ret, err);

        if (r < 0)
                return r;
        if (ret->row)
                return builds_ready_of(ret->row, ref->tag, shown_ref_of(ref).text, &ret->build, err);
        if (ret->snapshot)
                return snapshots_find(s->snapshots, ref, team, &ret->snapshot, err);
        if (!template_ref_is_newest(ref))
                return err_set(err, ERR_NOT_FOUND, "tag '%s' does not exist for template '%s'", ref->tag, ref->name);
        return 0;
}

/* ---- what is in it ---- */

static json_t *manifest_layers(const struct template *t)
{
        json_t *layers = json_array();

        for (size_t i = 0; layers && i < t->layer_count; i++)
                if (json_array_append_new(layers, json_string(t->layers[i])) < 0) {
                        json_decref(layers);
                        return NULL;
                }
        return layers;
}

/* A manifest may be written anew with other layers: they say which state it is. */
static void manifest_id(const struct template *t, char out[UUID_MAX + 1])
{
        char sum[SHA256_HEX_LEN + 1];
        struct sha256 h;
        uint8_t raw[SHA256_LEN];

        sha256_init(&h);
        for (size_t i = 0; i < t->layer_count; i++)
                sha256_add(&h, t->layers[i], strlen(t->layers[i]) + 1);
        sha256_end(&h, raw);
        hex_encode(raw, sizeof(raw), sum);
        (void)snprintf(out, UUID_MAX + 1, "m-%.32s", sum);
}

static void source_base_from_manifest(const struct template *t, struct source_base *b)
{
        memcpy(b->template_id, t->id, sizeof(b->template_id));
        manifest_id(t, b->id);
        b->alias = t->alias;
        b->layers = manifest_layers(t);
        b->default_user = t->default_user;
        b->default_workdir = t->default_workdir;
        b->cpu_count = t->cpu_count;
        b->memory_mb = t->memory_mb;
        b->disk_mb = t->disk_mb;
}

static void source_base_from_snapshot(const struct snapshot *sn, struct source_base *b)
{
        memcpy(b->template_id, sn->template_id, sizeof(b->template_id));
        (void)snprintf(b->id, sizeof(b->id), "%s", sn->id);
        b->alias = sn->name;
        memcpy(b->checkpoint, sn->checkpoint, sizeof(b->checkpoint));
        memcpy(b->image_of, sn->image_of, sizeof(b->image_of));
        b->image_secured = sn->image_secured;
        b->layers = json_incref(sn->layers);
        b->env = sn->env;
        b->default_user = sn->default_user;
        b->default_workdir = sn->default_workdir;
        b->cpu_count = sn->cpu_count;
        b->memory_mb = sn->memory_mb;
        b->disk_mb = sn->disk_mb;
}

static void source_base_from_build(const struct template_row *t, const struct build *from, struct source_base *b)
{
        memcpy(b->template_id, t->id, sizeof(b->template_id));
        (void)snprintf(b->id, sizeof(b->id), "%s", from->id);
        b->alias = t->alias;
        memcpy(b->checkpoint, from->checkpoint, sizeof(b->checkpoint));
        memcpy(b->image_of, from->image_of, sizeof(b->image_of));
        b->image_secured = from->image_secured;
        b->layers = json_incref(from->layers);
        b->env = from->env;
        b->default_user = from->default_user;
        b->default_workdir = from->default_workdir;
        b->start_cmd = from->start_cmd;
        b->ready_cmd = from->ready_cmd;
        b->cpu_count = from->cpu_count;
        b->memory_mb = from->memory_mb;
        b->disk_mb = from->disk_mb;
}

int source_base_of(const struct template_source *src, struct source_base *ret)
{
        *ret = (struct source_base){0};
        if (src->build)
                source_base_from_build(src->row, &src->build->build, ret);
        else if (src->snapshot)
                source_base_from_snapshot(src->snapshot, ret);
        else
                source_base_from_manifest(src->manifest, ret);
        return ret->layers ? 0 : -ENOMEM;
}

void source_base_done(struct source_base *b)
{
        json_decref(b->layers);
        *b = (struct source_base){0};
}

/* ---- for messages ---- */

static void names_add(struct buf *out, const char *name)
{
        if (buf_room(out) < strlen(name) + 2)
                return;
        if (out->len)
                (void)buf_addc(out, ", ");
        (void)buf_addc(out, name);
}

void sources_names(const struct sources *s, const struct team *team, struct buf *out)
{
        (void)templates_has(s->manifests, "base"); /* reads the directory again, if it changed */
        for (size_t i = 0; i < s->manifests->count; i++)
                names_add(out, s->manifests->all[i]->alias);
        LIST_EACH (node, &s->rows->all) {
                const struct template_row *t = LIST_ENTRY(node, struct template_row, node);

                if (t->alias && !list_is_empty(&t->tags) && (t->team == team->no || (t->is_public && t->is_bare)))
                        names_add(out, t->alias);
        }
}
