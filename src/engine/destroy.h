/* destroy.h - the end of everything a data directory runs, without an engine. */
#pragma once

struct err;

/* End every sandbox of the data directory and remove what the engine made for them: processes, cgroups, links, filter,
 * directories.  ERR_CONFLICT: an engine still runs.  Fine when there is nothing. */
int engine_destroy_all(const char *data_dir, struct err *err);
