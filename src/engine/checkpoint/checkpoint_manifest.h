/* checkpoint_manifest.h - the manifest of a checkpoint as text and back: which files, how large, their sums, the facts.
 *
 * Pure.  What is read back is checked field by field, and the whole by a sum of its own: it names files to be opened. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "engine/checkpoint/checkpoint.h"

struct err;

#define CHECKPOINT_MANIFEST "manifest.json"
#define MANIFEST_BYTES_MAX (16u << 20)
#define MANIFEST_FILES_MAX 200000u
#define MANIFEST_NAME_MAX 104

struct manifest_file {
        char name[MANIFEST_NAME_MAX]; /* [A-Za-z0-9_-][A-Za-z0-9._-]*: no path, nothing hidden */
        uint64_t size;
        uint32_t crc;
};

struct manifest {
        struct checkpoint_facts facts;
        struct manifest_file *files; /* owned */
        size_t count, room;
};

void manifest_done(struct manifest *m);
int manifest_add(struct manifest *m, const char *name, struct err *err); /* ERR_INVALID: a name no image has */
const struct manifest_file *manifest_find(const struct manifest *m, const char *name); /* NULL: none */
uint64_t manifest_bytes(const struct manifest *m);

int manifest_encode(struct manifest *m, char **ret_text, struct err *err); /* sorts the files */
/* ERR_INVALID "checkpoint damaged: manifest.json: ..." or, of another format or machine, a message that says so. */
int manifest_decode(struct str text, struct manifest *ret, struct err *err);
