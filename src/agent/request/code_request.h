/* code_request.h - POST …/code: its body turned into that of the code interpreter, and the interpreter's lines into one answer.
 * Pure. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/str.h"

struct err;

#define CODE_TIMEOUT_S 300u /* of code whose request says nothing */
#define CODE_TIMEOUT_MAX_S (24u * 3600)

/* {"code","language"?,"context_id"?,"env"?,"timeout_s"?}: the body of POST /execute; new.  ERR_INVALID names the field. */
int code_request_decode(const json_t *body, json_t **ret, uint32_t *ret_timeout_s, struct err *err);
/* {"stdout","stderr","results":[...],"error":{...}?,"execution_count"?} out of the lines of an execution.
 * ERR_INTERNAL: they are none, or end too early. */
int code_answer_decode(struct str lines, json_t **ret, struct err *err);
