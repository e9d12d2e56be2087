/* merge.h - the request to merge sealed layers: checks it and gives it to the layer merger (layer_merger.h). */
#pragma once
#include <jansson.h>

struct ask;
struct engine;
struct err;

/* {"layers":["u-…", lowest first],"into":"u-…"}: answered when the merged layer is on disk, or could not be made.  The merge goes
 * on when the peer that asked for it leaves. */
int merge_request(struct engine *e, const json_t *msg, struct ask *a, struct err *err);
