/* filesystem_rpc.h - the methods of filesystem.Filesystem; filesystem_rpc.c: single files; list_dir.c,
 * remove_tree.c: whole trees. */
#pragma once
#include "envd/files/file_entry.h"
#include "envd/rpc/users.h"

struct rpc;

void filesystem_rpc_stat(struct rpc *rpc);
void filesystem_rpc_list_dir(struct rpc *rpc);
void filesystem_rpc_make_dir(struct rpc *rpc);
void filesystem_rpc_move(struct rpc *rpc);
void filesystem_rpc_remove(struct rpc *rpc);

/* How entries are shown to this caller; loads us, for the names of owners. */
struct file_entry_options filesystem_entry_options(const struct rpc *rpc, struct users *us);
