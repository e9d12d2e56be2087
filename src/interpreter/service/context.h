/* context.h - a context: one kernel with its state, and the queue of runs for it.
 *
 *                  ┌───────────────── kernel died: again ────────────────┐
 *                  ▼                                                     │
 *   (new) ──> STARTING ──ready──> IDLE ──run──> FETCHING ──> PREPARING ──> RUNNING ──over──> SETTLING ──> IDLE
 *                │  ▲              │ ▲ (variables of the sandbox) (silent)   │ client gone        ▲ (undo, silent)
 *                │  │ run          │ └──────────────────────────────┐        ▼                    │
 *        failed  ▼  │              │ restart                        │    ABANDONED ──interrupted──┘
 *              BROKEN              ▼                                │
 *                               STOPPING ──kernel ended──> STARTING ┘         any state ──remove──> REMOVING ──> freed
 *
 * One run at a time, in the order they came.  Before a run's code, one silent execution sets variables; after it, another
 * one undoes them, and the next run waits for that.  A run whose client left is interrupted every second; a kernel that is
 * still busy after INTERRUPTS_MAX of them is killed and started again.
 * A run whose kernel died before the code was sent waits for the next kernel, as the first of the queue.
 * After an interrupt the next execution is a silent one that does nothing: a late interrupt hits that, never another client's run. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "interpreter/jupyter/kernelspec.h"
#include "interpreter/jupyter/language.h"
#include "interpreter/kernel/kernel.h"
#include "io/loop.h"

struct context;
struct contexts;
struct envs_fetch;
struct err;
struct run;

#define CONTEXT_ID_MAX 37 /* a UUID */
#define IDENTITY_MAX 128

enum context_state {
        CONTEXT_STARTING,
        CONTEXT_IDLE,
        CONTEXT_FETCHING,
        CONTEXT_PREPARING,
        CONTEXT_RUNNING,
        CONTEXT_ABANDONED,
        CONTEXT_SETTLING,
        CONTEXT_STOPPING,
        CONTEXT_BROKEN,
        CONTEXT_REMOVING,
};

/* Somebody who waits for a context to be made, restarted or removed; embedded, unhooked by list_remove(&w->node). */
struct context_waiter {
        struct list node;
        /* failure: why it did not work; NULL: it did, and c is the context (NULL after a removal). */
        void (*done)(struct context_waiter *w, struct context *c, const char *failure);
};

struct context {
        struct list node; /* in contexts.all */
        struct contexts *contexts;
        enum context_state state;
        char id[CONTEXT_ID_MAX];
        char *language, *cwd;           /* owned; the cwd as it was given */
        char *directory;                /* owned; where its kernel begins */
        struct kernelspec spec;         /* owned */
        const struct language *dialect; /* NULL: no statements are known for it */
        bool is_default, is_created;    /* created: the client knows of it */
        struct kernel *kernel;          /* NULL: none */
        unsigned failed_starts;         /* since the last run, and since a kernel lived for some time */
        uint64_t ready_ms;              /* when the kernel was ready */
        struct list waiters;            /* context_waiter: for IDLE */
        struct list removers;           /* context_waiter: for the end */

        struct list queue;           /* runs that wait */
        struct run *run;             /* the one that is under way; owned */
        struct envs_fetch *fetch;    /* FETCHING */
        json_t *fetched;             /* variables of the sandbox, not set yet; NULL: none */
        json_t *sandbox_variables;   /* set in the kernel; NULL: not known yet */
        json_t *former_variables;    /* set in the kernel, of the sandbox that this one is a copy of; NULL: none */
        char identity[IDENTITY_MAX]; /* of the sandbox, when random numbers were last seeded */
        json_t *undo;                /* variables of the run, to be undone; NULL: none */
        bool needs_fence;            /* an interrupt was sent */

        /* The execution under way. */
        char request[KERNEL_ID_MAX]; /* its id; empty: it was not sent yet */
        struct buf statements;       /* the code of a silent one, until its answer */
        unsigned tries;              /* of sending, of interrupting, or of waiting, depending on the state */
        unsigned aborts;             /* how often the kernel dropped it */
        bool may_drop;  /* the one before failed or was interrupted: the kernel may drop what comes after it */
        bool has_begun; /* there was output */
        bool has_answer, has_idle;
        bool waits_for_late; /* both came; there may be more output */
        struct timer timer;
        struct task release;
};

/* Begin a context whose kernel starts.  ERR_NOT_FOUND: no such kernel.  ERR_INVALID with *ret_bad_directory: there is no
 * such directory.  The caller adds a waiter. */
int context_create(struct contexts *cs, const char *language, const char *cwd, bool is_default, struct context **ret,
                   bool *ret_bad_directory, struct err *err);
/* The run goes to the end of the queue; the context owns it. */
void context_add_run(struct context *c, struct run *run);
void context_wait(struct context *c, struct context_waiter *w); /* until it is idle, or failed */
void context_restart(struct context *c, struct context_waiter *w);
void context_remove(struct context *c, struct context_waiter *w); /* w may be NULL */
void context_free(struct context *c);                             /* at the end of the service: at once */
