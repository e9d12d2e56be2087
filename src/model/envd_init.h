/* envd_init.h - how a cell's envd is told to become a sandbox: the contract between cell maker, engine and envd.
 *
 * The cell maker starts `envd --cell` as PID 1 of fresh namespaces, in a read-only root that has only /proc, /sys and /dev,
 * which are the sandbox's own, as uid 0 of its user namespace, seccomp filter installed, with one fd: 3, a Unix stream socket
 * to the engine.  envd opens its listening
 * socket (port 49983, in the cell's network namespace), sends ENVD_CELL_WAITING, and waits: no memory is touched that
 * need not be.
 *
 * The engine sends one message: 4 bytes length (big endian) + that many bytes of JSON (the init object), with the root's
 * detached mount fd attached to the first byte; and a second one, if the sandbox was booted again: a file with its boot id.
 * envd moves the root over "/", enters it, moves /proc, /sys and /dev there, hangs up the boot id, applies the object, answers
 * ENVD_CELL_READY (one byte) and closes fd 3, or answers ENVD_CELL_FAILED followed by a short text and exits.
 * End of file instead of a message means that the engine is gone: envd exits.
 *
 * The init object (all optional but sandboxID):
 *   sandboxID, templateID   text        also in E2B_SANDBOX_ID, E2B_TEMPLATE_ID and /run/e2b/
 *   hostname                text        default: the sandbox id
 *   accessToken             text        absent: envd is open
 *   envVars                 {name:text} default environment of every process; absent: as before
 *   hostEnvVars             {name:text} below these: the setting sandbox_env; absent: none
 *   defaultUser             text        default "root"
 *   defaultWorkdir          text        default: the user's home
 *   memoryMB                number      what the sandbox may use, for its own metrics; default: the machine's
 *
 * The same object goes by POST /init (127.0.0.1:49983, X-Access-Token: the token envd has) to an envd that was restored
 * from an image, with "resumed":true: envd takes the ids, the token and the rest from it, cuts every other connection,
 * which is of the time before, and writes its files anew (furnish.h): processes and what they have said stay.  The
 * host's name is the engine's to set, before that. */
#pragma once

#define ENVD_CELL_FD 3
#define ENVD_CELL_WAITING 'W'
#define ENVD_CELL_READY 'R'
#define ENVD_CELL_FAILED 'E'
#define ENVD_INIT_MAX (1u << 20)
#define ENVD_INIT_FDS_MAX 2 /* the root, the boot id */
#define ENVD_BOOT_ID "/proc/sys/kernel/random/boot_id"
