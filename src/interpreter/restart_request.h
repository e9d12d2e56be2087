/* restart_request.h - asks envd to start this program again when it ends (model/envd_restart.h).
 *
 * Without envd as the parent, or without being root, nothing is asked for: then the serving process alone looks after the
 * guardian. */
#pragma once

/* The same program with these arguments (NULL at the end), environment and directory.  Failures are logged. */
void restart_request_make(char *const *args);
void restart_request_drop(void);
