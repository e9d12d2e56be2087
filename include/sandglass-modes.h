/* sandglass-modes.h - where programs of an agent run: on this machine, in a sandbox, or both, behind one interface.
 *
 *      struct sg_runner *runner;
 *      struct sg_program program = {.argv = (const char *[]){"node", "agent.mjs", NULL}, .on_message = show};
 *      struct sg_program_end end;
 *
 *      if (sg_runner_open(NULL, NULL, &runner, &err) < 0 ||
 *          sg_runner_run(runner, &program, NULL, &end, &err) < 0)
 *              return fprintf(stderr, "%s\n", err.message), 1;
 *      sg_runner_close(runner, SG_CLOSE_KILL, NULL, &err);
 *
 * mode     programs run                                            workspace
 * local    on this machine, as the user of this process            ./workspace, made if missing
 * e2b      in a sandbox of any server that speaks E2B's protocol    /home/user/workspace
 * hybrid   on this machine, and those of a named worker in a        ./workspace here, /home/user/workspace in each sandbox
 *          sandbox of that worker
 *
 * A program that works in one mode works in the others.  Workers are made at their first use, used again afterwards, and all
 * ended by sg_runner_close().  In the modes local and e2b all workers share the one place there is.
 *
 * The rules of sandglass.h hold here, too: results, memory, options, time limits, cancelling.  A runner may be used by several
 * threads at once; callbacks come in the thread that runs the program. */
#ifndef SANDGLASS_MODES_H
#define SANDGLASS_MODES_H

#include <sandglass.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sg_runner;

enum sg_mode {
        SG_MODE_BY_ENVIRONMENT, /* what the variable SANDBOX_MODE names, in any case of letters; not set or not known: local */
        SG_MODE_LOCAL,
        SG_MODE_E2B,
        SG_MODE_HYBRID,
};

/* "local", "e2b", "hybrid"; static text. */
SG_API const char *sg_mode_name(enum sg_mode mode);
/* The mode of this name, in any case of letters.  NULL, "" and names that are not known: SG_MODE_LOCAL. */
SG_API enum sg_mode sg_mode_from_name(const char *name);
/* The same, but SG_INVALID for a name that is not known. */
SG_API int sg_mode_parse(const char *name, enum sg_mode *ret, struct sg_error *err);

struct sg_runner_options {
        enum sg_mode mode;
        struct sg_client *client;      /* borrowed; NULL: sg_client_open_from_env(NULL), at the first sandbox */
        const char *template_name;     /* of new sandboxes; NULL: "base" */
        uint32_t timeout_s;            /* how long a sandbox lives; 0: 3600.  Then it is paused */
        const char *sandbox_id;        /* mode e2b: this sandbox instead of a new one; resumed if it is paused */
        const char *workspace;         /* here: NULL: "workspace" in the current directory */
        const char *sandbox_workspace; /* in sandboxes, an absolute path; NULL: /home/user/workspace */
        /* Variables of this process that programs get, by name; ends with NULL.  NULL: ANTHROPIC_API_KEY,
         * ANTHROPIC_BASE_URL, ANTHROPIC_MODEL.  Variables that are not set are left out.  Of all others, programs in
         * sandboxes get none, and programs here only those that any program needs (PATH, HOME, LANG, TERM and the like). */
        const char *const *pass_env;
        const struct sg_pair *env; /* further variables with their values; NULL: none */
        uint32_t workers_max;      /* mode hybrid: sandboxes at a time; 0: 16 */
        uintptr_t reserved[4];
};

/* Local: makes the workspace.  e2b: makes the sandbox, or connects to it, and makes the workspace in it.  hybrid: makes the
 * workspace here.  SG_INVALID: an option does not fit the mode. */
SG_API int sg_runner_open(const struct sg_runner_options *options, const struct sg_call *call, struct sg_runner **ret,
                          struct sg_error *err);

SG_API enum sg_mode sg_runner_mode(const struct sg_runner *runner); /* never SG_MODE_BY_ENVIRONMENT */
/* The absolute path of the workspace where programs of this worker run.  As long as the runner. */
SG_API const char *sg_runner_workspace(const struct sg_runner *runner, const char *worker);
/* The sandbox of this worker; mode e2b: the sandbox, for any name.  As long as the runner.  NULL: there is none (yet). */
SG_API struct sg_sandbox *sg_runner_sandbox(struct sg_runner *runner, const char *worker);

/* ---- running programs ---- */

struct sg_message {       /* one line of output; as long as the callback */
        bool is_json;     /* a JSON object; other lines are text */
        bool is_stderr;   /* else of standard output */
        bool is_cut;      /* the line was longer than line_max: the beginning, as text */
        const char *type; /* the member "type" of the object; "": there is none, or it is no text */
        /* Without the end of the line, followed by a NUL that len does not count.  Always UTF-8: bytes of a text that are none
         * have become U+FFFD. */
        const char *text;
        size_t len;
};
/* 0: go on; negative: the program is ended, and the call returns SG_CANCELLED. */
typedef int sg_message_fn(const struct sg_message *message, void *arg);

#define SG_LINE_MAX (16u << 20)
#define SG_PROGRAM_OUTPUT_MAX ((uint64_t)1 << 30)

struct sg_program {
        const char *const *argv;   /* ends with NULL; no shell */
        const char *worker;        /* a name of 1 to 64 letters, digits, "-", "_", "."; NULL: none */
        const struct sg_pair *env; /* besides those of the runner; NULL: none */
        const char *cwd;           /* below the workspace; NULL: the workspace */
        /* What the program reads: these bytes and then the end; or what comes from input_fd (borrowed) until its end.
         * Neither: nothing. */
        const char *input;
        size_t input_len;
        bool reads_fd;
        int input_fd;

        sg_message_fn *on_message; /* NULL: output is dropped */
        void *arg;
        size_t line_max;     /* 0: SG_LINE_MAX; longer lines are cut */
        uint64_t output_max; /* bytes in all; 0: SG_PROGRAM_OUTPUT_MAX; more: the program is ended, SG_TOO_LARGE */
        uintptr_t reserved[4];
};

struct sg_program_end {           /* the caller's memory */
        int exit_code;            /* 128 + number where a signal ended the program, as shells say it */
        int signal;               /* its number; 0: none */
        uint64_t messages, texts; /* lines of each kind */
        bool is_cut;              /* a line was longer than line_max */
};

/* Run a program to its end, and tell its output line by line as it comes; a last line without an end counts, too.  A program
 * that fails is no error: see exit_code.
 *
 * The time limit of the call is that of the program; none by default.  After it (SG_TIMEOUT), when the call is cancelled
 * (SG_CANCELLED), and when there is too much output, the program is ended with its whole process group: by SIGTERM, and a
 * second later by SIGKILL.  What a program on this machine has left behind in its process group is ended with it.
 *
 * SG_NOT_FOUND: there is no such program on this machine; in a sandbox its exit code is then 127, as in shells.  SG_LIMIT: more workers than workers_max. */
SG_API int sg_runner_run(struct sg_runner *runner, const struct sg_program *program, const struct sg_call *call,
                         struct sg_program_end *ret, struct sg_error *err);

/* ---- files of the workspace ----
 * Paths are relative to the workspace of the worker and stay in it: SG_INVALID otherwise. */

/* Missing directories are made.  Here a file is there whole, or as before; in a sandbox it is written in place, and a write that
 * fails half way leaves the beginning. */
SG_API int sg_runner_write(struct sg_runner *runner, const char *worker, const char *path, const void *bytes,
                           size_t len, const struct sg_call *call, struct sg_error *err);
/* At most `max` bytes (0: 64 MiB), else SG_TOO_LARGE.  *ret is followed by a NUL that *ret_len (may be NULL) does not count. */
SG_API int sg_runner_read(struct sg_runner *runner, const char *worker, const char *path, size_t max,
                          const struct sg_call *call, char **ret, size_t *ret_len, struct sg_error *err);

/* ---- pausing and the end ---- */

/* All sandboxes of the runner, with their memory; no program must run in them.  Until sg_runner_resume(), programs and files
 * of them are SG_CONFLICT.  Here there is nothing to pause: mode local succeeds at once. */
SG_API int sg_runner_pause(struct sg_runner *runner, const struct sg_call *call, struct sg_error *err);
/* Also those that have paused by themselves, at the end of their time. */
SG_API int sg_runner_resume(struct sg_runner *runner, const struct sg_call *call, struct sg_error *err);

enum sg_close {
        SG_CLOSE_KILL,  /* sandboxes are ended */
        SG_CLOSE_PAUSE, /* they are paused, if they are not */
        SG_CLOSE_KEEP,  /* they stay as they are, to the end of their time */
};
/* Frees the runner in any case; an error names a sandbox that could not be ended or paused.  No program must run.  The workspace
 * here stays. */
SG_API int sg_runner_close(struct sg_runner *runner, enum sg_close how, const struct sg_call *call,
                           struct sg_error *err);

#ifdef __cplusplus
}
#endif
#endif
