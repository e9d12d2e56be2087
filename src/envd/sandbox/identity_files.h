/* identity_files.h - the files by which a sandbox knows itself: /run/e2b, its name in /etc/hosts, /etc/machine-id.
 *
 * Runs in: PID 1 of a sandbox, as its root.  Best effort: a root that cannot be written to is the template's affair. */
#pragma once

#define HOSTNAME_MAX 64

struct settings;

struct identity_files {
        char name[HOSTNAME_MAX + 1]; /* the name that is in /etc/hosts; empty: none yet */
};

/* A new sandbox: an empty machine-id is filled, one that the template brings stays. */
void identity_files_create(struct identity_files *files, const struct settings *s);
/* After a restore: the host may have another name.  (A copy's machine-id is the engine's to write: nothing may run before
 * it is there.) */
void identity_files_update(struct identity_files *files, const struct settings *s);
