/* kernelspec.h - kernels that are installed: where they are, and how they are started.
 *
 * A kernel is a directory with a kernel.json.  Directories are read each time, so a kernel that was just installed is
 * found.  Blocks on the file system only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct err;

#define KERNEL_JSON_MAX (1u << 20)

struct kernelspec {
        char *name;     /* of its directory: "python3" */
        char *dir;      /* "{resource_dir}" */
        char *language; /* "python"; never NULL, may be empty */
        char **argv;    /* NULL-terminated; with placeholders in it: kernelspec_argv() */
        char **env;     /* "NAME=value", NULL-terminated; may be empty; variables of our environment are filled in */
        bool interrupts_by_message;
        bool idle_is_last; /* nothing of an execution comes after its idle */
};
#define AUTO_KERNELSPEC AUTO(kernelspec_done)
void kernelspec_done(struct kernelspec *s); /* zeroed is fine */

/* Decode a kernel.json.  ERR_INVALID names what is wrong.  name and dir are left NULL. */
int kernelspec_decode(struct str json, struct kernelspec *ret, struct err *err);
/* Find the kernel for a language in these directories (NULL-terminated list, first one first): by the name of its
 * directory, or the usual name for this language ("python3", "ir"), else by the language that its kernel.json names (any
 * case).  ERR_NOT_FOUND: there is none.  ERR_INVALID: the
 * kernel of that name has a kernel.json that cannot be used. */
int kernelspec_find(const char *const *dirs, const char *language, struct kernelspec *ret, struct err *err);
/* The argv to execute, with {connection_file}, {resource_dir} and {prefix} filled in: malloc'd, in one piece each; NULL out
 * of memory.  The prefix of a kernel in PREFIX/share/jupyter/kernels is PREFIX, else /usr. */
char **kernelspec_argv(const struct kernelspec *s, const char *connection_file);
void string_list_free(char **list);
