/* ready_command.h - when is a template ready?  A command, or one of the conditions that clients name instead.  Pure. */
#pragma once
#include <jansson.h>

struct err;

#define READY_COMMAND_MAX (64u << 10) /* bytes */

/* A text is the command.  An object has exactly one condition, and becomes the command that checks for it:
 * {"waitForPort":3000}, {"waitForURL":"http://…","statusCode":200}, {"waitForProcess":"node"}, {"waitForFile":"/f"},
 * {"waitForTimeout":20000} (milliseconds).  An empty text is no command.
 * *ret is the caller's: NULL: there is none (v is NULL or null).  ERR_INVALID names the member. */
int ready_command_of(const json_t *v, char **ret, struct err *err);
