/* interpreter.h - the code interpreter of a sandbox: contexts, and runs whose events are told as they come.
 *
 * Blocks until the answer is there, the time is up, or a signal came. */
#pragma once
#include <jansson.h>

#include "cli/api.h"
#include "client/code/run_stream.h"

struct err;

#define INTERPRETER_TEMPLATE "code-interpreter-v1"
#define CODE_MAX (32u << 20)

struct interpreter {
        struct cli_api *api;               /* borrowed */
        const struct api_sandbox *sandbox; /* borrowed */
        int signals;                       /* borrowed: a signalfd */
        struct sg_cancel *cancel;          /* owned: of it */
        struct sg_sandbox *box;            /* owned */
};

/* `signals` from cli_take_signals().  On success *ret is the caller's: interpreter_close(). */
int interpreter_open(struct cli_api *api, const struct api_sandbox *sandbox, int signals, struct interpreter *ret,
                     struct err *err);
void interpreter_close(struct interpreter *it);

struct run_request {
        struct str code;
        const char *language, *context; /* at most one of them; NULL: the interpreter's default */
        json_t *env;                    /* borrowed, {name: text}; NULL: none */
        uint32_t timeout_s;             /* 0: none */
        run_event_fn *on_event;         /* negative ends the run */
        /* While it runs: called about once a minute.  NULL: not. */
        void (*on_minute)(void *arg);
        void *arg;
};

/* 0: the run came to its end, with or without an error event.  Otherwise the request is closed, upon which the interpreter
 * interrupts the run:
 * ERR_INTERRUPTED (-EINTR): a signal came, and is left in `signals`.
 * ERR_TIMEOUT: the run took longer than timeout_s.
 * ERR_NOT_FOUND: no such context, or the sandbox is gone.  ERR_CONFLICT: the sandbox was paused.
 * ERR_UNAVAILABLE: nothing answers at that port, or the answer was cut off.  ERR_INVALID: in the interpreter's words.
 * What on_event returned, with its *err. */
int interpreter_run(struct interpreter *it, const struct run_request *rq, struct err *err);

/* A context of its own; cwd NULL: the usual.  *ret_id is the caller's: free(). */
int interpreter_context_create(struct interpreter *it, const char *language, const char *cwd, char **ret_id,
                               struct err *err);
/* Also after a signal.  Waits a few seconds at most. */
int interpreter_context_delete(struct interpreter *it, const char *id, struct err *err);
/* ERR_NOT_FOUND: there is no such context.  *ret_language is the caller's: free(). */
int interpreter_context_language(struct interpreter *it, const char *id, char **ret_language, struct err *err);

int interpreter_take_signal(struct interpreter *it); /* the number of the signal that came; 0: none */
