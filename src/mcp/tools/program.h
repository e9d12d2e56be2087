/* program.h - a program that a tool started: its output as it comes, its input, its end.
 *
 * The program has a session (process group) of its own, so that all of its processes can be signalled.  Its end is reported when it has
 * exited and its output has ended, or PROGRAM_LINGER_MS after its exit: a process in the background may hold the output open.
 * What nobody takes is not read: a program that prints faster than on_output returns waits. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/str.h"
#include "io/loop.h"

struct err;
struct program;

#define PROGRAM_LINGER_MS 200u
#define PROGRAM_EXTRA_MAX 3
#define PROGRAM_SPARE_FDS 64

enum program_output { PROGRAM_STDOUT, PROGRAM_STDERR };

struct program_options {
        struct loop *loop;
        const char *const *argv; /* argv[0] is searched in PATH */
        const char *cwd;
        const char *const *env; /* more variables, "NAME=value", NULL-terminated; NULL: none */
        bool keeps_stdin;       /* stdin is a pipe for program_write(); otherwise /dev/null */
        bool drops_output;      /* stdout and stderr are /dev/null */
        /* More fds, for the program only: extra[i] becomes extra_at[i]. */
        int extra[PROGRAM_EXTRA_MAX], extra_at[PROGRAM_EXTRA_MAX];
        unsigned extra_count;
        void (*on_output)(struct program *p, enum program_output which, struct str piece, void *arg);
        void (*on_end)(struct program *p, void *arg); /* once; the program may be freed in it */
        void *arg;
};

struct program {
        struct list node; /* of all programs, for program_reap() */
        struct program_options opt;
        struct io out, err, in; /* fd -1: closed */
        struct buf input;       /* not yet taken by the program */
        pid_t pid;              /* 0: it was reaped */
        int status;             /* as waitpid has it, once reaped */
        bool closes_stdin;      /* when the input is written */
        struct timer linger;
        struct task ended;
};

/* 0; negative with words: no such program, no such directory, no memory.  ERR_LIMIT: almost no descriptors are left; the last
 * PROGRAM_SPARE_FDS are for connections and files. */
int program_start(const struct program_options *opt, struct program **ret, struct err *err);
struct program *program_free(struct program *p); /* kills what still runs of it; always NULL; on_end is not called */
#define PROGRAM_INPUT_BYTES_MAX (16u << 20)      /* that wait for the program to read them */
int program_write(struct program *p, struct str bytes); /* -EPIPE: stdin is closed; -E2BIG: too much waits already */
void program_close_stdin(struct program *p);
void program_signal(struct program *p, int sig); /* to all of its processes */
/* Its exit code as a shell has it: 128 + the signal that ended it. */
int program_exit_code(const struct program *p);
/* Let this process have as many descriptors as the system allows.  Programs get the limit that was there before. */
void program_raise_limit(void);
/* A program of this name is in PATH. */
bool program_is_installed(const char *name);
/* Reap every child that has exited. */
void program_reap(void);
