/* rig.h - an engine of one's own for the root tests: a data directory, the process, its two sockets, and a count of
 * everything it may leave behind. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rig {
        char dir[64]; /* <dir>/data, <dir>/images/layers/base */
        char sock[96], dial_sock[96];
        pid_t engine;
        int listen_fd, dial_fd; /* as the supervisor holds them */
        int channel;            /* to engine.sock; -1 */
        int dial_channel;
        json_int_t req;
        unsigned pool_size;
        unsigned warm_mb;       /* 0, unless set before rig_start() */
        unsigned warm_stall_ms; /* likewise; 0: as configured by default */
};

const char *rig_reason_to_skip(void); /* NULL: the tests can run here */
const char *rig_criu_dir(void);       /* where `make test` has put CRIU; NULL: nowhere */
bool rig_open(struct rig *g, unsigned pool_size);
void rig_close(struct rig *g);     /* ends everything and removes the directory */
bool rig_start(struct rig *g);     /* the engine's process */
void rig_reconnect(struct rig *g); /* hang up and call again */
void rig_crash(struct rig *g);     /* kill -9 */
bool rig_stop(struct rig *g);      /* SIGTERM; did it end well? */

/* One message each way; the answer is the caller's; NULL: the engine hung up. */
json_t *rig_call(struct rig *g, json_t *msg);
void rig_send(struct rig *g, json_t *msg); /* without waiting */
json_t *rig_receive(struct rig *g);

json_t *rig_plan(const char *id); /* of a default sandbox on layer "base" */
/* Create from a plan (used up): NULL, or why not ("not_found: ..."), valid until the next call. */
const char *rig_create(struct rig *g, json_t *plan);
const char *rig_kill(struct rig *g, const char *id);
/* checkpoint NULL: files only; id and layer of seal and drop may be NULL, too. */
const char *rig_pause(struct rig *g, const char *id, const char *checkpoint);
const char *rig_seal(struct rig *g, const char *id, const char *layer);
const char *rig_drop(struct rig *g, const char *checkpoint, const char *layer);
const char *rig_forget(struct rig *g, const char *id); /* one that ended by itself: nobody has a row of it any more */
const char *rig_state(struct rig *g, const char *id);  /* as `list` has it; NULL: not there */
void rig_dial_send(struct rig *g, const char *id, unsigned port);           /* the first half of rig_dial() */
int rig_dial_receive(struct rig *g);                                        /* the second */
int rig_dial(struct rig *g, const char *id, unsigned port);                 /* connected socket, or -1 */
const char *rig_dial_refusal(struct rig *g, const char *id, unsigned port); /* why it failed; NULL: it did not */
/* A command for cell_init inside; its answer, valid until the next call. */
const char *rig_run(struct rig *g, const char *id, const char *command);

pid_t rig_helper(struct rig *g, const char *name); /* "sg-cell-maker", ...: its pid; 0: none (yet) */
bool rig_hold(pid_t pid);                          /* stop it, and wait until it stands */
pid_t rig_job_process(struct rig *g);              /* of the job queue, at work; 0: none */
pid_t rig_spare(struct rig *g);                    /* who waits for the next job */
pid_t rig_newest_process(struct rig *g);           /* in any of its sandboxes and cells */
json_t *rig_info(struct rig *g);
void rig_wait_pool(struct rig *g);                      /* until it is full */
void rig_wait_files(const struct rig *g, long at_most); /* until so few of sandboxes, images and trash are there */

struct leak_count {
        long processes, mounts, cgroups, links, fds, files;
};
/* Of this rig.  Waits until it is no more than `want` says, a few seconds at most; NULL: at once. */
struct leak_count rig_count(struct rig *g, const struct leak_count *want);
bool leak_none(const struct leak_count *after, const struct leak_count *before); /* else it is printed */

/* For the rig_ calls that give NULL for success, or why not. */
#define CHECK_NONE(why)                                                                                                \
        do {                                                                                                           \
                const char *why_ = (why);                                                                              \
                if (why_)                                                                                              \
                        printf("# %s\n", why_);                                                                        \
                CHECK(!why_);                                                                                          \
        } while (0)

#define CHECK_STARTS(why, with)                                                                                        \
        do {                                                                                                           \
                const char *why_ = (why);                                                                              \
                if (!why_ || strncmp(why_, with, strlen(with)) != 0)                                                   \
                        printf("# is: %s\n", why_ ? why_ : "(success)");                                               \
                CHECK(why_ &&strncmp(why_, with, strlen(with)) == 0);                                                  \
        } while (0)
