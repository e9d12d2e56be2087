/* criu_proof.h - what was found out about a CRIU in this boot, as a note in the CRIU directory: another kernel may come with
 * the next boot.
 *
 *     proof-private, proof-host   one line: the boot, the program's identity, "works" or "fails" and why */
#pragma once
#include <stddef.h>

struct criu_place;
struct err;

enum criu_verdict { CRIU_UNTRIED, CRIU_WORKS, CRIU_FAILS };

/* *why, if it is not NULL, gets the reason of CRIU_FAILS, as ERR_UNAVAILABLE. */
enum criu_verdict criu_proof_read(const char *criu_dir, const struct criu_place *p, struct err *why);
/* why NULL: it works.  Without the note it is tried again, that is all. */
void criu_proof_write(const char *criu_dir, const struct criu_place *p, const struct err *why);
