/* base_template.h - the base template: made from Debian packages, kept as one layer and a manifest.
 *
 * Built in images/layers/.tmp-*, flushed to disk, renamed to its final name; the manifest is renamed into place last.
 * So a build that fails, is interrupted or is killed leaves at most a .tmp-*, removed by the next call. */
#pragma once

struct err;

/* Build the base template unless there is a template already; says on stdout what it does.  mirror NULL: the one of the
 * host's own apt configuration.  Needs root; SIGINT, SIGTERM, SIGHUP blocked.  ERR_UNAVAILABLE: interrupted. */
int base_template_ensure(const char *images_dir, const char *mirror, struct err *err);
/* The same, whether or not there is one already. */
int base_template_build(const char *images_dir, const char *mirror, struct err *err);
