/* envd_restart.h - how a program of a sandbox asks envd, its PID 1, to start it again: the contract between both.
 *
 * The program is a child of envd, also one that its parent left behind.  As root it writes ENVD_RESTART_DIR/PID with its own pid: the
 * object {"cmd", "args", "envs", "cwd"}, as "process" of a Start call has it; all but cmd may be absent.  When it ends in any way
 * but with exit status 0, envd starts that, as root.  To end for good, the program removes the file, or exits with 0.
 * The files are those of the running processes: a checkpoint has both, and a sandbox that begins without processes
 * begins without files. */
#pragma once

#define ENVD_RESTART_DIR "/run/sandglass/restart"
#define ENVD_RESTART_MAX (256u << 10) /* bytes of a file */
