/* authorities.h - variables by which programs trust the certificates that the host added to this sandbox. */
#pragma once
#include <jansson.h>

/* Add them to an environment, if the host added any.  Looked up each time: the files of a sandbox that was resumed may be
 * others.  0 or -1. */
int authorities_put(json_t *env);
