/* restore_place.h - where a sandbox is restored: a private mount namespace with its root and its /dev, and its images. */
#pragma once
#include "engine/checkpoint/checkpoint.h"
#include "engine/storage/rootfs.h"
#include "engine/jobs/job_process.h"

struct restore_place {
        int userns; /* maps its range, for idmapped mounts */
        struct rootfs rootfs;
        char root[64], dev[64]; /* mount points that every user can reach */
        char *images, *work;    /* owned paths */
};

void restore_place_init(struct restore_place *p);
/* dir: sandboxes/<id>.  The calling process is in the mount namespace afterwards. */
int restore_place_make(struct restore_place *p, const struct job_conf *c, int dir, const struct plan_create *plan,
                       const struct checkpoint *cp, uint32_t uid_base, struct err *err);
/* Files go; mounts and namespaces go with the process. */
void restore_place_clear(struct restore_place *p, const struct job_conf *c, int dir);
