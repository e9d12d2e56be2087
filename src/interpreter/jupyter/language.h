/* language.h - names of languages, and the statements by which variables are set in a running kernel.
 *
 * The statements are executed silently.  Names and values are escaped for each language; what a language cannot hold
 * (a name that bash cannot export) is left out.  No I/O. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define LANGUAGE_NAME_MAX 256

/* Trimmed, lower-case, "js" and "ts" in full, empty: python.  -E2BIG past LANGUAGE_NAME_MAX. */
int language_normalise(struct str name, char out[LANGUAGE_NAME_MAX]);
/* Which kernel runs this (normalised) language: javascript for typescript, else the name itself. */
const char *language_kernel(const char *language);

struct language; /* how statements look; one row of a table */
/* By the language that a kernelspec names, in any case; NULL: not in the table. */
const struct language *language_find(const char *kernel_language);
/* A context in a directory that does not exist: does it begin elsewhere instead of failing? */
bool language_ignores_missing_directory(const struct language *l);
/* Are its variables those of the process?  (Not in Java, where they are system properties.) */
bool language_has_process_environment(const struct language *l);

/* Can this be a variable of a process?  The name is not empty and has no '=', neither has a NUL. */
bool variable_is_valid(struct str name, struct str value);

/* Append statements, each with its line end.  l may be NULL: nothing is added.  -ENOMEM, -E2BIG. */
int language_set(const struct language *l, struct str name, struct str value, struct buf *out);
int language_unset(const struct language *l, struct str name, struct buf *out);
/* A statement that a late interrupt hits instead of the next run; may be nothing. */
int language_fence(const struct language *l, struct buf *out);
/* New random numbers for a kernel that continues from the memory of another one. */
int language_reseed(const struct language *l, uint32_t seed, struct buf *out);
