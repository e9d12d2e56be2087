/* step.h - one step of a build under way: from control's message to the answer.
 *
 *      message ──▶ begin (kinds[]) ──▶ requests to envd, log entries ──▶ step_succeed() or step_fail() ──▶ freed by the loop
 *
 * A step whose connection to control ends is abandoned: control kills its sandbox, or sends the step again. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "builder/step_log.h"
#include "io/loop.h"

struct channel;
struct http_client;
struct step;

struct step_kind {
        const char *name;
        unsigned fds; /* how many come with the message */
        /* 0: under way.  Negative: *err says why not. */
        int (*begin)(struct step *s, struct err *err);
        void (*done)(struct step *s); /* release s->own; NULL: there is nothing */
};
extern const struct step_kind step_run, step_home, step_user, step_workdir, step_copy, step_unpack, step_archive,
        step_configure, step_start;

struct step {
        struct list node; /* of its connection */
        struct loop *loop;
        struct channel *channel; /* borrowed; NULL: answered, or control is gone */
        json_int_t req;
        json_t *spec; /* owned: the object "step" */
        char *token;  /* owned: envd's; NULL: envd needs none */
        const struct step_kind *kind;
        struct http_client *envd; /* owned: fds[0] */
        int second;               /* owned: fds[1], or -1 */
        struct step_log log;
        void *own; /* the kind's */
        struct task gone;
};

/* Takes the fds it needs.  A message that is none is answered with an error. */
void step_begin(struct loop *loop, struct channel *ch, struct list *steps, const json_t *msg, int *fds, size_t nfds);
void step_abandon(struct step *s); /* control is gone: end without an answer */

/* Answer, once; the step is freed by the loop.  `more` is stolen: members besides "ok"; NULL: none. */
void step_succeed(struct step *s, json_t *more);
void step_fail(struct step *s, const struct err *err);
/* What a failed exchange with envd means: a connection that ended is a sandbox that is gone. */
void step_fail_envd(struct step *s, const struct err *why);

/* A client for a socket into the sandbox; takes the fd. */
int step_envd_client(struct step *s, int fd, struct http_client **ret, struct err *err);
