/* e2b_toml.h - e2b.toml: what to build, and under which name.  A strict part of TOML: keys with texts and whole numbers, no
 * tables.  Pure. */
#pragma once
#include <stdint.h>

#include "base/auto.h"
#include "base/str.h"
#include "dockerfile/problems.h"

#define E2B_TOML_MAX (1u << 20) /* bytes */

struct e2b_toml { /* zeroed: nothing is given; all owned */
        char *template_id, *template_name, *team_id, *dockerfile, *start_cmd, *ready_cmd;
        uint32_t cpu_count, memory_mb; /* 0: not given */
};

/* -EINVAL: problems has errors.  On success *ret is the caller's: e2b_toml_done(). */
int e2b_toml_parse(struct str text, struct e2b_toml *ret, struct problems *problems);
void e2b_toml_done(struct e2b_toml *t);
#define AUTO_E2B_TOML AUTO(e2b_toml_done)
