/* identity_files.h - the files by which a sandbox knows itself: /run/e2b, its name in /etc/hosts, /etc/machine-id.
 *
 * Runs in: PID 1 of a sandbox, as its root.  Failures are ignored: a template may have a root that cannot be
 * written to. */
#pragma once

#define HOSTNAME_MAX 64

struct settings;

struct identity_files {
        char name[HOSTNAME_MAX + 1]; /* the name that is in /etc/hosts; empty: none yet */
};

/* For a new sandbox: an empty machine-id is filled, one that the template brings stays. */
void identity_files_create(struct identity_files *files, const struct settings *s);
/* After a resume: the sandbox may have another name.  (The machine-id of a copy is written by the engine, before any
 * process of the copy runs.) */
void identity_files_update(struct identity_files *files, const struct settings *s);
