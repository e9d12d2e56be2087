/* criu_find.h - where this server's CRIU is: a private copy, or the host's own.
 *
 * A CRIU directory holds tool/ (criu, ld.so, lib/, version: put there by src/serve/setup/criu_tool.c) and run/ (criu_tool.run_dir). */
#pragma once
#include "engine/criu/criu.h"

struct err;

struct criu_place {
        char *dir, *shim, *run_dir; /* owned; dir NULL: the host's own */
};

/* The private copy, else the host's, unless it is known to fail in this boot (criu_proof.h); run/ is made.  ERR_UNAVAILABLE:
 * there is none left, with what to do. */
int criu_find(const char *criu_dir, struct criu_place *ret, struct err *err);
int criu_find_private(const char *criu_dir, struct criu_place *ret,
                      struct err *err);                                            /* ERR_UNAVAILABLE: there is none */
int criu_find_host(const char *criu_dir, struct criu_place *ret, struct err *err); /* likewise */
void criu_place_done(struct criu_place *p);
struct criu_tool criu_place_tool(const struct criu_place *p); /* borrowed from p */

const char *criu_host_program(void); /* NULL: the host has none */
