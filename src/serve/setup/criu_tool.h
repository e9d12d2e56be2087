/* criu_tool.h - getting CRIU, the program behind pausing with memory: proven to work here, or fetched and proven.
 *
 * Debian's stable releases have versions that fail with recent kernels, so a newer one is taken from forky with its own
 * loader and libraries into a private directory; the host's packages are not touched.  apt verifies what it downloads
 * (the archive's key, the signed Release file, hashes).  Unpacked in .tmp-*, flushed, renamed: a failure leaves at most a
 * .tmp-*, removed by the next call. */
#pragma once

struct err;

/* A CRIU that was proven to work, in criu_dir or on the host, fetched if need be. */
int criu_tool_get(const char *criu_dir, const char *mirror, struct err *err);
/* The same for a server.  Says on stdout what it does when that takes time.  A server without CRIU serves all but memory: every failure is logged
 * and otherwise ignored but being interrupted (ERR_UNAVAILABLE).  Needs root; SIGINT, SIGTERM, SIGHUP blocked. */
int criu_tool_ensure(const char *criu_dir, const char *mirror, struct err *err);
