/* builder_rig.h - a real builder, and a real envd in a copy of a system that the test may change as it likes.
 *
 * envd runs with a root directory of its own: an overlay of the base template (SANDGLASS_TEST_IMAGES) or of this machine, whose
 * changes are in memory and end with the test.  Needs root. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "io/channel.h"

struct builder_rig {
        char dir[64];
        pid_t builder, envd;
        uint16_t port; /* of envd */
        struct loop *loop;
        struct channel *channel;
        json_t *answer;     /* owned: of the last step */
        struct buf log;     /* messages of the last step, a line each; a tail of them when they are many */
        size_t log_entries; /* how many there were */
        size_t log_bytes;
        bool is_closed; /* the builder has ended the connection */
};

/* NULL: everything runs; else why not, for SKIP. */
const char *builder_rig_start(struct builder_rig *g, const char *envd_path);
void builder_rig_stop(struct builder_rig *g);

/* A socket to envd, as the engine dials it; -1 on failure. */
int builder_rig_dial(const struct builder_rig *g);
/* Do a step; the answer is g->answer.  Steals spec.  second: a further fd (borrowed), -1: none. */
const json_t *builder_rig_step(struct builder_rig *g, json_t *spec, int second);
const char *builder_rig_error(const struct builder_rig *g); /* message of the last answer; "": it was ok */
const char *builder_rig_kind(const struct builder_rig *g);  /* kind of that error */
/* The path as this process can open it. */
const char *builder_rig_path(const struct builder_rig *g, const char *inside);
/* From now on the files of the copy may have so much in all. */
bool builder_rig_limit(const struct builder_rig *g, unsigned mb);
bool builder_rig_logged(struct builder_rig *g, const char *line); /* exactly this line? */
