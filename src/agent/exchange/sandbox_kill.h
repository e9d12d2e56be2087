/* sandbox_kill.h - a sandbox that was made for a request and is not wanted is ended, whether the request is still there or not. */
#pragma once
struct agent;

void sandbox_kill(struct agent *a, const char *id, const char *key); /* with the caller's token; tried a few times */
void sandbox_kills_done(struct agent *a);
