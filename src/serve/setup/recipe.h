/* recipe.h - what the base template is made of: packages, and files put over them.  Data only. */
#pragma once

#define RECIPE_SUITE "trixie"
#define RECIPE_ALIAS "base"
#define RECIPE_TEMPLATE_ID "b4se0debian0trixie00" /* the same on every installation */

struct recipe_file {
        const char *path; /* below the root, without a leading slash */
        unsigned mode;
        unsigned owner; /* uid and gid */
        const char *text;
};

extern const char recipe_packages[];            /* comma-separated */
extern const struct recipe_file recipe_files[]; /* ends with a NULL path */
extern const char *const *const recipe_steps[]; /* commands run inside the root, in order; ends with NULL */
