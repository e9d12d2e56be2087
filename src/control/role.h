/* role.h - the control role's entry. */
#pragma once

struct conf;

/* Serve until SIGTERM; returns the process's exit status. */
int control_main(const struct conf *conf);
