/* ready_check.h - how to ask whether a template is ready.
 *
 * The commands that clients make of their conditions (waitForPort and so on, model/build/ready_command.h) are known here: they
 * change nothing, so they are asked often at first, and without a login shell; and those that need a program which the image
 * may lack (ss, pgrep) do without.  Any other command runs as it is written. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct ready_check {
        json_t *args;               /* owned: of /bin/sh */
        uint32_t first_ms, most_ms; /* how long to wait between two checks, at first and at most */
};

/* -ENOMEM. */
int ready_check_of(const char *cmd, struct ready_check *ret);
void ready_check_done(struct ready_check *c);
uint32_t ready_check_next_ms(const struct ready_check *c, uint32_t last_ms); /* 0: there was none yet */
