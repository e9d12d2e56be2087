/* context.h - the directory that a Dockerfile copies from: which files a COPY takes, and their hash.
 *
 * The hash is the one that other clients compute (SHA-256 of "COPY <src> <dest>", then of each file by name: its path, mode,
 * size and bytes), so that an upload is shared with them wherever they copy the same. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "dockerfile/dockerfile.h"
#include "dockerfile/ignore.h"
#include "wire/sha256.h"

struct err;

#define CONTEXT_ENTRIES_MAX 1000000u /* of one COPY */

struct context {
        int dir;                 /* owned */
        struct ignore ignore;    /* owned */
        bool links_may_lead_out; /* the source of a COPY may be a link to a file outside: the folder is one of ours */
};

/* Open the directory, and read `<dockerfile>.dockerignore` (a path; NULL: not looked for) or `.dockerignore` in it.
 * ERR_INVALID with an empty message: problems has errors, which are of that file. */
int context_open(const char *dir, const char *dockerfile, struct context *ret, struct problems *problems,
                 struct err *err);
void context_close(struct context *c);
#define AUTO_CONTEXT AUTO(context_close)

struct context_entry {
        char *path;  /* owned: relative to the context; "": the context itself */
        char *name;  /* owned: in the archive; NULL: as path */
        mode_t mode; /* of lstat(), but of the source itself, if that is a link, its target's */
        int64_t size, mtime;
};

enum context_files_kind {
        CONTEXT_FILES,   /* an archive is made of the entries */
        CONTEXT_TEXT,    /* ... of one file with the text of a here-document */
        CONTEXT_ARCHIVE, /* the one entry is an archive, which is sent as it is, or unpacked by `program` first */
};

struct context_files { /* zeroed: none */
        enum context_files_kind kind;
        struct context_entry *at; /* owned */
        size_t count;
        const struct dockerfile_copy *copy; /* borrowed */
        const char *program;                /* static: "xz"; NULL: the archive is plain or gzip */
        char hash[SHA256_HEX_LEN + 1];
};

/* The files of a copy.  Its step gets its filesHash, and the source as the server is to understand it.  What is wrong with
 * the copy (nothing found, outside the context) is added to problems, and then the list is empty; a negative errno is for
 * files that cannot be read. */
int context_find(const struct context *c, struct dockerfile_copy *copy, struct context_files *ret,
                 struct problems *problems, struct err *err);
void context_files_done(struct context_files *f);
#define AUTO_CONTEXT_FILES AUTO(context_files_done)

/* context_archive.c: the archive of these files in an unnamed temporary file, to be read from its beginning.  On success
 * *ret_fd is the caller's. */
int context_archive(const struct context *c, const struct context_files *f, bool is_compressed, int *ret_fd,
                    struct err *err);
/* Which program unpacks this file; "": none is needed; NULL: no archive.  `fd` is read from its beginning. */
const char *context_archive_program(int fd);
