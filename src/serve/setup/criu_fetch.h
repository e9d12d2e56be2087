/* criu_fetch.h - a copy of Debian's CRIU with everything it needs, in <criu_dir>/tool. */
#pragma once

struct err;

/* As criu_tool.h says.  ERR_UNAVAILABLE: interrupted. */
int criu_fetch(const char *criu_dir, const char *mirror, struct err *err);
