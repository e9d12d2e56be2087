/* requests.h - the engine's two sockets: who may connect, what may be asked, who answers. */
#pragma once
#include "engine/engine.h"

struct err;

int requests_start(struct engine *e, struct err *err);
void requests_stop(struct engine *e);
