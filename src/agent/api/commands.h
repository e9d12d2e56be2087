/* commands.h - what the handlers of commands share.
 *
 * A command is a process that envd knows: by a tag if it was started here (the tag is the id of the command), else by its pid.
 * envd keeps the output; nothing of a command is kept in this role between two requests. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "envd_client/envd_process.h"

struct command_output;
struct exchange;

#define COMMAND_ID_MAX 65
#define COMMAND_ID_PREFIX "cmd_"
#define COMMAND_ID_RANDOM 20

struct command_id {
        char text[COMMAND_ID_MAX];
        uint32_t pid; /* 0: `text` is a tag */
};

/* The command that the path names.  false: none can have such an id, and the request is answered. */
bool command_id_take(struct exchange *x, struct command_id *ret);
void command_id_make(char out[COMMAND_ID_MAX]);
json_t *command_selector(const struct command_id *id);                      /* for envd: {"tag"} or {"pid"}; new */
void command_tell_missing(struct exchange *x, const struct command_id *id); /* 404 */
/* The request cannot be carried out, since envd or the way to it says so. */
void command_tell_failure(struct exchange *x, const struct envd_process_end *end);
/* A timeout of envd ends a command with SIGKILL: what a shell's timeout(1) says of such a command. */
#define COMMAND_TIMED_OUT 124
/* The answer: obj (stolen; NULL: out of memory) with what both outputs hold, `stdout` and `stderr`.  They are released. */
void command_tell(struct exchange *x, json_t *obj, struct command_output *out, struct command_output *err);
/* exit_code, and `signal` ("killed") if a signal ended the command. */
json_t *command_show_end(json_t *obj, const struct envd_process_end *end);
