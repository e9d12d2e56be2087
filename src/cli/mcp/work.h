/* work.h - a tool call that waits for a server: done in a thread, answered in the loop.
 *
 *      QUEUED ──a thread is free──> RUNNING ──its function returns──> DONE, and the loop answers
 *         └──cancelled──> gone         └──cancelled──> RUNNING, without a call; what it made is undone
 *
 * At most WORKERS_MAX threads run, WORKERS_LONG_MAX of them works that may take long; more of those wait, and others pass them.  A work has a copy of its arguments, and nothing that the loop touches while it runs. */
#pragma once
#include <jansson.h>
#include <sandglass.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "mcp/protocol/tool.h"

struct call;
struct err;
struct loop;
struct platform;
struct work;
struct workers;

#define WORKERS_MAX 32u
#define WORKERS_LONG_MAX 24u /* of them for works that may take long: the others are there for what ends those */
#define PROGRESS_MS 250u
#define PROGRESS_BYTES 2000u

typedef void work_fn(struct work *w);

struct platform_tool {
        struct tool tool; /* .run is work_start */
        work_fn *work;
        bool is_long; /* may take minutes, or as long as the caller says; so does every call with `wait_s` */
};

/* What a function of a tool gets, in its thread. */
struct work {
        struct platform *platform; /* only its client, files_fd and started may be used */
        const json_t *args;        /* as the schema has checked them */
        struct sg_call wait; /* for calls of the library: cancelled with the tool call, progress is told meanwhile */
        uint64_t begun_us;
        json_t *made;   /* owned; NULL, or an array of ids: sandboxes that this work has made */
        uint32_t pid;   /* 0, or the command that this work has started in the background */
        char *killed;   /* owned; NULL, or the id of a sandbox that is no more */
        json_t *result; /* owned; what the functions below have set */
};

int workers_create(struct loop *loop, struct platform *p, struct workers **ret, struct err *err);
/* Cancels all works and waits for them; what cancelled ones made is undone.  Always NULL; NULL is fine. */
struct workers *workers_free(struct workers *ws);
void work_start(struct call *c, json_t *args); /* the .run of each struct platform_tool */

/* For the thread: */
/* The sandbox that the argument sandbox_id names; NULL: the result says what is wrong. */
struct sg_sandbox *work_open(struct work *w);
const char *work_id(const struct work *w); /* the argument sandbox_id */
void work_add_made(struct work *w, const char *id);
/* End a command and all that it has started. */
int work_signal_all(struct sg_sandbox *box, uint32_t pid, int number, struct sg_error *err);
void work_progress(struct work *w,
                   struct str text); /* told soon, with what comes after it; long texts lose their beginning */
double work_seconds(const struct work *w);
/* The result; the last one counts.  These take `structured` (NULL: none). */
void work_text(struct work *w, struct str text, json_t *structured);
void work_textf(struct work *w, json_t *structured, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void work_failed(struct work *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A call of the library failed, about the sandbox of the argument or something else. */
void work_error(struct work *w, const struct sg_error *err);
