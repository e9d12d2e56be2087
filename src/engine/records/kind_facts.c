#include "engine/records/kind_facts.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/host/instance.h"

/* ------------------------------------------------------------- namespaces */

static json_t *encode_namespace(const struct kind_facts *f)
{
        const struct namespace_facts *n = &f->namespace;

        return json_pack("{s:i,s:I,s:b}", "slot", (int)n->slot, "uid_base", (json_int_t)n->uid_base, "restored",
                         n->is_restored);
}

static int decode_namespace(const json_t *obj, struct kind_facts *f, struct err *err)
{
        json_int_t slot, uid;
        int restored = 0;
        json_error_t why;

        if (json_unpack_ex((json_t *)(size_t)obj, &why, JSON_STRICT, "{s:I,s:I,s:b}", "slot", &slot, "uid_base", &uid,
                           "restored", &restored) < 0)
                return err_set(err, ERR_INVALID, "namespace: %s", why.text);
        if ((slot != 0 && slot < SLOT_FIRST) || slot < 0 || slot >= SLOTS_MAX || uid < 0 || uid > UINT32_MAX ||
            (slot == 0) != (uid == 0))
                return err_set(err, ERR_INVALID, "namespace: a value is out of range");
        f->namespace = (struct namespace_facts){(unsigned)slot, (uint32_t)uid, restored};
        return 0;
}

static bool is_empty_namespace(const struct kind_facts *f)
{
        return f->namespace.slot == 0;
}

/* ------------------------------------------------------------- any kind */

static const struct {
        const char *name;
        json_t *(*encode)(const struct kind_facts *f);
        int (*decode)(const json_t *obj, struct kind_facts *f, struct err *err);
        bool (*is_empty)(const struct kind_facts *f);
} kinds[] = {[ENGINE_NAMESPACE] = {"namespace", encode_namespace, decode_namespace, is_empty_namespace}};

const char *engine_kind_name(enum engine_kind kind)
{
        return kinds[kind].name;
}

bool engine_kind_find(const char *name, enum engine_kind *ret)
{
        for (size_t i = 0; name && i < ARRAY_LEN(kinds); i++)
                if (strcmp(kinds[i].name, name) == 0) {
                        *ret = (enum engine_kind)i;
                        return true;
                }
        return false;
}

bool kind_facts_is_empty(const struct kind_facts *f)
{
        return kinds[f->kind].is_empty(f);
}

int kind_facts_add(json_t *obj, const struct kind_facts *f)
{
        const char *name = kinds[f->kind].name;

        if (json_object_set_new(obj, "kind", json_string(name)) < 0 ||
            json_object_set_new(obj, name, kinds[f->kind].encode(f)) < 0)
                return -ENOMEM;
        return 0;
}

int kind_facts_decode(const json_t *obj, struct kind_facts *ret, struct err *err)
{
        const char *name = json_string_value(json_object_get(obj, "kind"));
        struct kind_facts f = {0};
        int r;

        if (!engine_kind_find(name, &f.kind))
                return err_set(err, ERR_INVALID, "kind: '%.40s' is not a kind of engine that this program has",
                               name ? name : "");
        r = kinds[f.kind].decode(json_object_get(obj, name), &f, err);
        if (r == 0)
                *ret = f;
        return r;
}
