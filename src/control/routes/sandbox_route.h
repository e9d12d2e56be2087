/* sandbox_route.h - how an edge sees a sandbox (model/route.h), from all that its row says. */
#pragma once
#include <jansson.h>

struct sandbox;
struct tokens;

json_t *sandbox_route_encode(const struct tokens *tokens, const struct sandbox *s); /* new reference */
