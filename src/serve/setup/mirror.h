/* mirror.h - which Debian mirror: the one given, else the host's own. */
#pragma once

struct err;

/* *ret is malloc'd.  given: from the command line; NULL: ask this host's apt.  ERR_NOT_FOUND: it knows none. */
int mirror_find(const char *given, char **ret, struct err *err);
