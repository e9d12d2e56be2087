/* snapshot.h - a copy of a sandbox, memory and files, that others can be started from: a kind of template.  Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/ids.h"

struct snapshot {
        char id[UUID_MAX];                 /* of this one copy */
        char template_id[TEMPLATE_ID_MAX]; /* shared by all with one name */
        char *name;                        /* owned; NULL: it has none */
        char *tag;                         /* owned; "default" where none was given */
        int64_t team;
        char source[SANDBOX_ID_MAX]; /* the sandbox it is a copy of */
        int64_t created_ns;
        char checkpoint[CHECKPOINT_ID_MAX]; /* "": files only */
        json_t *layers;                     /* owned */
        char image_of[SANDBOX_ID_MAX];      /* as in struct sandbox, and the next */
        bool image_secured;
        uint32_t cpu_count, memory_mb, disk_mb;
        json_t *env;                          /* owned; NULL: none */
        char *default_user, *default_workdir; /* owned; NULL: envd's own default */
};

void snapshot_done(struct snapshot *s); /* releases what it owns; zeroed is fine */
