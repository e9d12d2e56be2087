/* envd_introduce.h - tell the envd of a restored sandbox who it is now. */
#pragma once
#include <jansson.h>

struct err;

/* POST /init to the envd inside the network namespace; bounded in time.  token: the one that envd has now; NULL: none.
 * ERR_TIMEOUT: no answer in time.  ERR_INTERNAL: no envd, or it refused. */
int envd_introduce(int netns, const char *token, const json_t *init, struct err *err);
