/* kind_facts.h - the part of a record that only one kind of engine has: a name and an object of that name.
 *
 *     {..., "kind": "namespace", "namespace": {"slot": 20, "uid_base": 1073741824, "restored": false}}
 *
 * A second kind of engine adds a member to the union and a row in kind_facts.c. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

enum engine_kind { ENGINE_NAMESPACE };

struct namespace_facts {
        unsigned slot;     /* whose cgroups, uid range and link are in use; 0: none */
        uint32_t uid_base; /* 0: none */
        bool is_restored;  /* from a checkpoint: the network namespace is the sandbox's own, and not for another one */
};

struct kind_facts {
        enum engine_kind kind;
        union {
                struct namespace_facts namespace;
        };
};

const char *engine_kind_name(enum engine_kind kind);
bool engine_kind_find(const char *name /* may be NULL */, enum engine_kind *ret);
bool kind_facts_is_empty(const struct kind_facts *f); /* nothing of the host is in use */
/* Add the two members to obj.  Negative: out of memory. */
int kind_facts_add(json_t *obj, const struct kind_facts *f);
/* ERR_INVALID: a kind that this program does not have, or facts that it would not write. */
int kind_facts_decode(const json_t *obj, struct kind_facts *ret, struct err *err);
