/* process_rpc.h - the methods of process.Process; process_rpc.c: Start, Connect, List; process_input_rpc.c: the
 * rest. */
#pragma once
#include "envd/rpc/fault.h"

struct process;
struct process_table;
struct rpc;

void process_rpc_start(struct rpc *rpc);
void process_rpc_connect(struct rpc *rpc);
void process_rpc_list(struct rpc *rpc);
void process_rpc_send_input(struct rpc *rpc);
void process_rpc_stream_input(struct rpc *rpc);
void process_rpc_send_signal(struct rpc *rpc);
void process_rpc_close_stdin(struct rpc *rpc);
void process_rpc_update(struct rpc *rpc);

struct process_selector { /* which process: by tag unless that is NULL */
        uint32_t pid;
        const char *tag;
};
int process_selector_decode(const json_t *in, struct process_selector *ret, struct fault *f);
int process_selector_not_found(const struct process_selector *sel, struct fault *f); /* -1 */
/* The live process that the field `process` of the message names; NULL with *f set. */
struct process *process_selector_find(struct process_table *t, const json_t *in, struct fault *f);
