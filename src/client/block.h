/* block.h - what the library's functions return: a struct and all that it points to, released together by sg_free().
 *
 * A block is named by the struct it begins with. */
#pragma once
#include <stddef.h>

#include "base/str.h"

void *block_create(size_t n); /* zeroed; NULL: no memory */
void *block_add(void *block,
                size_t n); /* further zeroed memory of this block; NULL: no memory, also if block is NULL */
char *block_text(void *block, struct str text); /* a C string; NULL: no memory */
void block_free_p(void *p);                     /* for AUTO: of a pointer to a block */
