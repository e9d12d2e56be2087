/* build_names.h - names, tags, sizes and other small things that a client chooses for a build.  Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/template_ref.h"

struct err;

#define BUILD_TAGS_MAX 100 /* of one request */
#define TAG_DEFAULT "default"

bool uuid_is_valid(const char *s);       /* 8-4-4-4-12 hexadecimal digits, of either case */
bool build_hash_is_valid(const char *s); /* 64 lower-case hexadecimal digits */
bool build_mode_is_valid(const char *s); /* 1 to 4 octal digits, or 5 that begin with 0 */

/* The name of a template that is to be built, in the namespace `slug`.  *ret has an empty tag where none is given.
 * ERR_INVALID: "Invalid name: …", "namespace 'a' must match your team 'b'", "Invalid tag: …". */
int build_name_parse(const char *text, const char *slug, struct template_ref *ret, struct err *err);
/* A tag that is to be given to a build, lowered.  ERR_INVALID: "Invalid tag: …". */
int build_tag_parse(const char *text, char ret[TEMPLATE_REF_MAX + 1], struct err *err);
/* The tags of a list and one more (may be empty), each once, in lower case; without any of them ["default"].
 * New reference; NULL and *err: ERR_INVALID. */
json_t *build_tags_of(const json_t *list, const char *more, struct err *err);

/* The numbers of a template, in the contract's words; `most`: what the server allows. */
#define BUILD_CPUS_MAX 32u
#define BUILD_MEMORY_MIN_MB 128u
int build_check_cpus(int64_t cpus, uint32_t most, struct err *err);
int build_check_memory(int64_t memory_mb, uint32_t most, struct err *err);

/* Does a client with this User-Agent expect that steps run as root?  ("e2b-js-sdk/2.2.9", "e2b-python-sdk/2.0.0": older than
 * 2.3.0.) */
bool build_agent_is_root_default(struct str user_agent);
