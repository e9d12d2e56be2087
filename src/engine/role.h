/* role.h - the engine's process: `sandglass role engine`. */
#pragma once

struct conf;

/* Serve until SIGTERM; sandboxes live on.  The exit status. */
int engine_main(const struct conf *conf);
