#include "engine/jobs/job.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/host/instance.h"
#include "engine/records/lost_note.h"
#include "engine/records/record.h"
#include "engine/storage/host_layer.h"
#include "model/json_field.h"
#include "model/plan.h"

/* ------------------------------------------------------------- fields */

static int field_is_wrong(const char *field, const char *what, struct err *err)
{
        return err_set(err, ERR_INVALID, "job: %s: not %s", field, what);
}

static int decode_number(const json_t *obj, const char *field, uint64_t min, uint64_t max, uint64_t *ret,
                         struct err *err)
{
        const json_t *v = json_object_get(obj, field);
        json_int_t n = json_integer_value(v);

        if (!json_is_integer(v) || n < 0 || (uint64_t)n < min || (uint64_t)n > max)
                return field_is_wrong(field, "a number in its range", err);
        *ret = (uint64_t)n;
        return 0;
}

static int decode_bool(const json_t *obj, const char *field, bool *ret, struct err *err)
{
        const json_t *v = json_object_get(obj, field);

        if (!json_is_boolean(v))
                return field_is_wrong(field, "a boolean", err);
        *ret = json_is_true(v);
        return 0;
}

static bool is_lost_name(struct str s)
{
        enum lost_kind kind;

        return strlen(s.p) == s.n && lost_kind_of(s.p, &kind);
}

static int decode_id(const json_t *obj, const char *field, bool (*is_valid)(struct str), const char **ret,
                     struct err *err)
{
        const json_t *v = json_object_get(obj, field);

        if (!json_is_string(v) || !is_valid((struct str){json_string_value(v), json_string_length(v)}))
                return field_is_wrong(field, "an id", err);
        *ret = json_string_value(v);
        return 0;
}

/* Absent: *ret is NULL. */
static int decode_id_if_any(const json_t *obj, const char *field, bool (*is_valid)(struct str), const char **ret,
                            struct err *err)
{
        *ret = NULL;
        return json_object_get(obj, field) ? decode_id(obj, field, is_valid, ret, err) : 0;
}

static int decode_ids_if_any(const json_t *obj, const char *field, bool (*is_valid)(struct str), const json_t **ret,
                             struct err *err)
{
        const json_t *list = json_object_get(obj, field), *v;
        size_t i;

        if (list && !json_is_array(list))
                return field_is_wrong(field, "a list of ids", err);
        json_array_foreach (list, i, v)
                if (!json_is_string(v) || !is_valid((struct str){json_string_value(v), json_string_length(v)}))
                        return field_is_wrong(field, "a list of ids", err);
        *ret = list;
        return 0;
}

static int decode_origin(const json_t *obj, const json_t **ret, struct err *err)
{
        return plan_origin_decode(json_object_get(obj, "origin"), ret, err) < 0 ? err_wrap(err, "job") : 0;
}

/* ------------------------------------------------------------- what only the namespace engine has */

static json_t *encode_namespace(const struct job_namespace *n)
{
        return json_pack("{s:I,s:I,s:I,s:I,s:s}", "slot", (json_int_t)n->slot, "uid_base", (json_int_t)n->uid_base,
                         "pid", (json_int_t)n->pid, "address", (json_int_t)n->address, "envd", n->envd ? n->envd : "");
}

static int decode_envd(const json_t *obj, const char **ret, struct err *err)
{
        const json_t *v = json_object_get(obj, "envd");
        size_t n = json_string_length(v);

        if (!json_is_string(v) || (n != 0 && n != RECORD_HASH_MAX - 1) ||
            strspn(json_string_value(v), "0123456789abcdef") != n)
                return field_is_wrong("envd", "a hash", err);
        *ret = json_string_value(v);
        return 0;
}

static int decode_namespace(const json_t *job, bool has_process, struct job_namespace *ret, struct err *err)
{
        const json_t *obj = json_object_get(job, "namespace");
        uint64_t slot, uid_base, pid, address;
        int r;

        if (!json_is_object(obj))
                return field_is_wrong("namespace", "an object", err);
        if ((r = decode_number(obj, "slot", SLOT_FIRST, SLOTS_MAX - 1, &slot, err)) < 0 ||
            (r = decode_number(obj, "uid_base", 1, UINT32_MAX - UID_RANGE, &uid_base, err)) < 0 ||
            (r = decode_number(obj, "pid", has_process ? 1 : 0, has_process ? INT_MAX : 0, &pid, err)) < 0 ||
            (r = decode_number(obj, "address", 0, UINT32_MAX, &address, err)) < 0 ||
            (r = decode_envd(obj, &ret->envd, err)) < 0)
                return r;
        ret->slot = (unsigned)slot;
        ret->uid_base = (uint32_t)uid_base;
        ret->pid = (pid_t)pid;
        ret->address = (uint32_t)address;
        return 0;
}

/* ------------------------------------------------------------- one codec for each kind */

static json_t *encode_pause(const struct job *j, json_t *obj)
{
        const struct job_pause *p = &j->pause;

        obj = json_with_text(obj, "checkpoint", p->checkpoint);
        obj = json_with(obj, "durable", json_boolean(p->is_durable));
        obj = json_with_ref(obj, "origin", (json_t *)(uintptr_t)p->origin); /* counts one more, changes nothing */
        return json_with(obj, "namespace", encode_namespace(&p->namespace));
}

static int decode_pause(const json_t *obj, struct job *j, struct err *err)
{
        struct job_pause *p = &j->pause;
        int r;

        if ((r = decode_id_if_any(obj, "checkpoint", checkpoint_id_is_valid, &p->checkpoint, err)) < 0 ||
            (r = decode_bool(obj, "durable", &p->is_durable, err)) < 0 || (r = decode_origin(obj, &p->origin, err)) < 0)
                return r;
        return decode_namespace(obj, true, &p->namespace, err);
}

static json_t *encode_copy(const struct job *j, json_t *obj)
{
        const struct job_copy *c = &j->copy;

        obj = json_with_text(obj, "checkpoint", c->checkpoint);
        obj = json_with_text(obj, "layer", c->layer);
        obj = json_with_ref(obj, "origin", (json_t *)(uintptr_t)c->origin);
        return json_with(obj, "namespace", encode_namespace(&c->namespace));
}

static int decode_copy(const json_t *obj, struct job *j, struct err *err)
{
        struct job_copy *c = &j->copy;
        int r;

        if ((r = decode_id(obj, "checkpoint", checkpoint_id_is_valid, &c->checkpoint, err)) < 0 ||
            (r = decode_id(obj, "layer", sealed_id_is_valid, &c->layer, err)) < 0 ||
            (r = decode_origin(obj, &c->origin, err)) < 0)
                return r;
        return decode_namespace(obj, true, &c->namespace, err);
}

static json_t *encode_restore(const struct job *j, json_t *obj)
{
        const struct job_restore *s = &j->restore;

        obj = json_with(obj, "plan", plan_encode(s->plan));
        obj = json_with(obj, "turn", json_integer((json_int_t)s->turn));
        obj = json_with(obj, "recent", json_boolean(s->is_recent));
        obj = json_with(obj, "standby", json_boolean(s->is_standby));
        return json_with(obj, "namespace", encode_namespace(&s->namespace));
}

static int decode_plan(const json_t *obj, bool is_standby, struct plan_create **ret, struct err *err)
{
        struct plan_create *plan = malloc(sizeof(*plan));
        int r;

        if (!plan)
                return err_set(err, ERR_INTERNAL, "job: plan: out of memory");
        r = (is_standby ? plan_decode_standby : plan_decode)(json_object_get(obj, "plan"), plan, err);
        if (r < 0) {
                free(plan);
                return err_wrap(err, "job: plan");
        }
        *ret = plan;
        return 0;
}

/* The plan comes last: it is the only one that has to be released. */
static int decode_restore(const json_t *obj, struct job *j, struct err *err)
{
        struct job_restore *s = &j->restore;
        int r;

        if ((r = decode_number(obj, "turn", 0, INT64_MAX, &s->turn, err)) < 0 ||
            (r = decode_bool(obj, "recent", &s->is_recent, err)) < 0 ||
            (r = decode_bool(obj, "standby", &s->is_standby, err)) < 0 ||
            (r = decode_namespace(obj, false, &s->namespace, err)) < 0)
                return r;
        r = decode_plan(obj, s->is_standby, &s->plan, err);
        return r == 0 && strcmp(s->plan->id, j->id) != 0 ? field_is_wrong("plan", "of the same sandbox", err) : r;
}

static json_t *encode_hand_over(const struct job *j, json_t *obj)
{
        const struct job_hand_over *h = &j->hand_over;

        obj = json_with(obj, "plan", plan_encode(h->plan));
        obj = json_with_text(obj, "host_version", h->host_version);
        return json_with(obj, "namespace", encode_namespace(&h->namespace));
}

static int decode_hand_over(const json_t *obj, struct job *j, struct err *err)
{
        const json_t *version = json_object_get(obj, "host_version");
        struct job_hand_over *h = &j->hand_over;
        int r;

        if (!json_is_string(version) ||
            (json_string_length(version) > 0 &&
             !host_layer_version_is_valid((struct str){json_string_value(version), json_string_length(version)})))
                return field_is_wrong("host_version", "a version of the host's files", err);
        h->host_version = json_string_value(version);
        if (!standby_id_is_valid(str_of(j->id)))
                return field_is_wrong("id", "the id of a standby", err);
        r = decode_namespace(obj, true, &h->namespace, err);
        return r < 0 ? r : decode_plan(obj, false, &h->plan, err);
}

static json_t *encode_seal(const struct job *j, json_t *obj)
{
        obj = json_with_text(obj, "layer", j->seal.layer);
        obj = json_with_text(obj, "below", j->seal.below);
        return json_with_ref(obj, "origin", (json_t *)(uintptr_t)j->seal.origin);
}

static int decode_seal(const json_t *obj, struct job *j, struct err *err)
{
        int r;

        if ((r = decode_id(obj, "layer", sealed_id_is_valid, &j->seal.layer, err)) < 0 ||
            (r = decode_id_if_any(obj, "below", layer_id_is_valid, &j->seal.below, err)) < 0)
                return r;
        return decode_origin(obj, &j->seal.origin, err);
}

static json_t *encode_flush(const struct job *j, json_t *obj)
{
        obj = json_with_text(obj, "checkpoint", j->flush.checkpoint);
        return json_with_text(obj, "layer", j->flush.layer);
}

static int decode_flush(const json_t *obj, struct job *j, struct err *err)
{
        int r = decode_id_if_any(obj, "checkpoint", checkpoint_id_is_valid, &j->flush.checkpoint, err);

        return r < 0 ? r : decode_id_if_any(obj, "layer", sealed_id_is_valid, &j->flush.layer, err);
}

static json_t *encode_lost(const struct job *j, json_t *obj)
{
        obj = json_with_text(obj, "name", j->lost.name);
        return json_with_text(obj, "after", j->lost.after);
}

static int decode_lost(const json_t *obj, struct job *j, struct err *err)
{
        int r = decode_id_if_any(obj, "name", is_lost_name, &j->lost.name, err);

        return r < 0 ? r : decode_id_if_any(obj, "after", is_lost_name, &j->lost.after, err);
}

static json_t *encode_lost_restore(const struct job *j, json_t *obj)
{
        const struct job_lost_restore *l = &j->lost_restore;

        obj = json_with_text(obj, "sandbox", l->sandbox);
        obj = json_with_ref(obj, "checkpoints", (json_t *)(uintptr_t)l->checkpoints);
        return json_with_ref(obj, "layers", (json_t *)(uintptr_t)l->layers);
}

static int decode_lost_restore(const json_t *obj, struct job *j, struct err *err)
{
        struct job_lost_restore *l = &j->lost_restore;
        int r;

        if ((r = decode_id_if_any(obj, "sandbox", sandbox_id_is_valid, &l->sandbox, err)) < 0 ||
            (r = decode_ids_if_any(obj, "checkpoints", checkpoint_id_is_valid, &l->checkpoints, err)) < 0)
                return r;
        return decode_ids_if_any(obj, "layers", sealed_id_is_valid, &l->layers, err);
}

/* ------------------------------------------------------------- the kinds */

enum job_sandbox { NO_SANDBOX, LOOKS_AT_SANDBOX, LOCKS_SANDBOX };

static const struct {
        const char *name;
        enum job_sandbox sandbox;
        json_t *(*encode)(const struct job *j,
                          json_t *obj); /* obj with its fields, as json_with(); NULL: it has none */
        int (*decode)(const json_t *obj, struct job *j, struct err *err);
} kinds[JOB_KINDS] = {
        [JOB_PAUSE] = {"pause", LOCKS_SANDBOX, encode_pause, decode_pause},
        [JOB_COPY] = {"copy", LOCKS_SANDBOX, encode_copy, decode_copy},
        [JOB_RESTORE] = {"restore", LOCKS_SANDBOX, encode_restore, decode_restore},
        [JOB_HAND_OVER] = {"hand_over", LOCKS_SANDBOX, encode_hand_over, decode_hand_over},
        [JOB_SEAL] = {"seal", LOCKS_SANDBOX, encode_seal, decode_seal},
        [JOB_MAKE_DURABLE] = {"make_durable", LOCKS_SANDBOX, NULL, NULL},
        [JOB_FLUSH] = {"flush", NO_SANDBOX, encode_flush, decode_flush},
        [JOB_MEASURE] = {"measure", LOOKS_AT_SANDBOX, NULL, NULL},
        [JOB_NAMES] = {"names", NO_SANDBOX, NULL, NULL},
        [JOB_USAGE] = {"usage", NO_SANDBOX, NULL, NULL},
        [JOB_RECHECK] = {"recheck", LOOKS_AT_SANDBOX, NULL, NULL},
        [JOB_LOST] = {"lost", NO_SANDBOX, encode_lost, decode_lost},
        [JOB_LOST_RESTORE] = {"lost_restore", NO_SANDBOX, encode_lost_restore, decode_lost_restore},
};

bool job_has_sandbox(enum job_kind kind)
{
        return kinds[kind].sandbox != NO_SANDBOX;
}

bool job_locks_sandbox(enum job_kind kind)
{
        return kinds[kind].sandbox == LOCKS_SANDBOX;
}

const char *job_kind_name(enum job_kind kind)
{
        return kinds[kind].name;
}

/* ------------------------------------------------------------- jobs */

json_t *job_encode(const struct job *j)
{
        json_t *obj = json_with_text(json_object(), "kind", kinds[j->kind].name);

        if (job_has_sandbox(j->kind))
                obj = json_with_text(obj, "id", j->id);
        if (job_locks_sandbox(j->kind)) {
                obj = json_with(obj, "note", job_note_encode(&j->note));
                obj = json_with(obj, "makes_directory", json_boolean(j->makes_directory));
        }
        return kinds[j->kind].encode ? kinds[j->kind].encode(j, obj) : obj;
}

static int decode_kind(const json_t *obj, enum job_kind *ret, struct err *err)
{
        const char *name = json_string_value(json_object_get(obj, "kind"));

        for (int kind = 0; name && kind < JOB_KINDS; kind++)
                if (strcmp(kinds[kind].name, name) == 0) {
                        *ret = (enum job_kind)kind;
                        return 0;
                }
        return field_is_wrong("kind", "a kind of job", err);
}

static int decode_sandbox(const json_t *obj, struct job *j, struct err *err)
{
        int r = decode_id(obj, "id", guest_id_is_valid, &j->id, err);

        if (r < 0 || !job_locks_sandbox(j->kind))
                return r;
        r = decode_bool(obj, "makes_directory", &j->makes_directory, err);
        if (r < 0)
                return r;
        return job_note_decode(json_object_get(obj, "note"), &j->note, err) < 0 ? err_wrap(err, "job: note") : 0;
}

static int decode_fields(const json_t *obj, struct job *j, struct err *err)
{
        int r = decode_kind(obj, &j->kind, err);

        if (r == 0 && job_has_sandbox(j->kind))
                r = decode_sandbox(obj, j, err);
        if (r == 0 && kinds[j->kind].decode)
                r = kinds[j->kind].decode(obj, j, err);
        return r;
}

int job_decode(json_t *message, struct job *ret, struct err *err)
{
        struct job j = {.message = message};
        int r = decode_fields(message, &j, err);

        if (r < 0)
                job_done(&j);
        else
                *ret = j;
        return r;
}

void job_done(struct job *j)
{
        struct plan_create *plan = j->kind == JOB_RESTORE     ? j->restore.plan
                                   : j->kind == JOB_HAND_OVER ? j->hand_over.plan
                                                              : NULL;

        if (plan) {
                plan_done(plan);
                free(plan);
        }
        plan_net_done(&j->note.net);
        json_decref(j->message);
        *j = (struct job){0};
}
