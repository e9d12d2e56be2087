/* edits.h - the argument `edits` of a tool: texts of a file that are replaced to the letter.  Pure. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"

struct err;

#define EDITS_WORK_MAX (512u << 20) /* edits times bytes of the file: others wait meanwhile */

/* In order, each on what the edits before have left; all of them or none.  `edits`: [{old_text, new_text, replace_all}], as the schema
 * has checked: old_text is not empty.  *now is replaced, its maximum stays; *changes counts. */
int edits_apply(const json_t *edits, struct buf *now, size_t *changes, struct err *err);
