/* build_calls.h - calls of the builder (src/builder) and, but for prepare and unpack, of the role agent, for the holder of the sandbox's token, as root of the sandbox:
 *
 *      POST /sandglass/prepare     JSON {"kind":"home"|"user"|"workdir"|"configure",...}, as the step has it
 *      POST /sandglass/copy        body: a tar archive; query: src, dest, owner, mode, user, workdir;
 *                                  without user: the default one of the sandbox
 *      POST /sandglass/unpack      body: a tar archive, a layer of an image; onto "/"
 *      GET  /sandglass/archive     query: path; answers a tar archive
 *
 * Archives that come in may be compressed by gzip or zstd.
 * Each runs in a process of its own (build_process.h).  Errors are {"code","message"}. */
#pragma once

struct handler_context;
struct http_request;

void build_call_prepare(const struct handler_context *context, struct http_request *rq);
void build_call_copy(const struct handler_context *context, struct http_request *rq);
void build_call_unpack(const struct handler_context *context, struct http_request *rq);
void build_call_archive(const struct handler_context *context, struct http_request *rq);
