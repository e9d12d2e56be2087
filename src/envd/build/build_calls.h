/* build_calls.h - calls of the builder (src/builder), for the holder of the sandbox's token, as root of the sandbox:
 *
 *      POST /sandglass/prepare     JSON {"kind":"home"|"user"|"workdir"|"configure",...}, as the step has it
 *
 * Each runs in a process of its own (build_process.h).  Errors are {"code","message"}. */
#pragma once

struct handler_context;
struct http_request;

void build_call_prepare(const struct handler_context *context, struct http_request *rq);
