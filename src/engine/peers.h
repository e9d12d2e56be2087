/* peers.h - the engine's two sockets: who may connect, and what they ask handed to who answers (requests.h). */
#pragma once
#include "engine/guest/engine.h"

struct err;

int peers_start(struct engine *e, struct err *err);
void peers_stop(struct engine *e);
