/* engine_ops.h - the seam between guests and the kinds of engine that run them: one row of functions for each kind.
 *
 * guest/ has what every sandbox has: states (guest.h), records on disk, requests that wait, jobs, the way to a pause and back.
 * Behind the row is what only one kind has: for namespaces cells, slots, cgroups and firewall rules (namespace/); for microVMs
 * disks, a VMM process and a tap or vsock (microvm/microvm.h shows how the row carries them).
 *
 * Every guest has one process whose end is the end of the guest (guest_watch()): the first process of a sandbox, or the VMM.
 * Functions run in the engine's loop and do not block, but for the group "host" below. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/records/kind_facts.h"

struct ask;
struct engine;
struct err;
struct guest;
struct job;
struct job_answer;
struct plan_create;
struct plan_net;
struct record;

struct guest_usage {
        uint64_t memory_bytes;
        uint64_t memory_cache; /* of memory_bytes: what files are read from */
        uint64_t memory_limit, cpu_us, pids;
};

struct engine_ops {
        enum engine_kind kind;
        const char *isolation; /* what users are told: "namespace", "microvm", "emulated" */
        size_t guest_bytes;    /* of the kind's struct, whose first member is a struct guest */

        /* ----- the host: at start and end of the engine */

        /* Can this host run it?  ERR_UNAVAILABLE says what is missing, and what to do. */
        int (*probe)(struct err *err);
        /* Take numbers, groups and tables.  Before privileges are dropped, and before sandboxes are adopted. */
        int (*open)(struct engine *e, struct err *err);
        /* Adopted sandboxes are known: load their rules, start helpers, clear what nobody owns. */
        int (*begin)(struct engine *e, struct err *err);
        void (*end)(struct engine *e);                          /* sandboxes live on */
        void (*describe)(const struct engine *e, json_t *info); /* add what the request `info` is told */
        bool (*has_room)(const struct engine *e);               /* for guests that are made ahead; NULL: always */

        /* ----- one guest: its life */

        void (*init)(struct guest *g); /* a new struct, zeroed but for its common part */
        /* Carry out the plan (taken).  Ends with guest_started() or guest_fail(), or when give_up() comes. */
        void (*start)(struct guest *g, struct plan_create *plan, struct ask *a);
        /* A start that is under way is stopped; returns the request for it, which is then the caller's.  NULL: there is none. */
        struct ask *(*give_up)(struct guest *g);
        /* A job process of an engine before this one uses these facts: nobody else may be given them.  False: they are
         * another's. */
        bool (*reserve)(struct guest *g, const struct kind_facts *facts);
        /* The process of this record lives: get hold of everything else that it has, before the record becomes g's.
         * ERR_NOT_FOUND: the process is ending.  ERR_CONFLICT: the record does not belong here. */
        int (*adopt)(struct guest *g, const struct record *r, int pidfd, struct err *err);
        /* An adopted one goes on: thaw it, put its limits and rules right. */
        int (*go_on)(struct guest *g, struct err *err);
        void (*kill)(struct guest *g); /* all its processes; the end is told by the watch */
        /* Its processes are gone: give back everything but files, and forget the facts. */
        void (*release)(struct guest *g);

        /* ----- one guest: pause, copy, resume; the work itself is done by a job process (jobs/) */

        void (*pause)(const struct guest *g, struct job *job); /* fill in what a job needs to write down its memory */
        void (*copy)(const struct guest *g, struct job *job);
        /* Take what the restored processes will use, note it in g->record.facts, and fill in the job. */
        int (*resume)(struct guest *g, struct job *job, struct err *err);
        /* The job is done: take over what the job process hands over beside the process (the fds taken are set to -1). */
        int (*resumed)(struct guest *g, struct job_answer *answer, struct err *err);
        int (*thaw)(struct guest *g);                              /* of a warm one; negative errno */
        void (*hand_over)(const struct guest *g, struct job *job); /* of a standby: fill in what a job needs to know */

        /* ----- one guest: looking, reaching, rules */

        /* Answer a with a socket connected to the port inside. */
        void (*dial)(struct guest *g, uint16_t port, struct ask *a);
        int (*stats)(const struct guest *g, struct guest_usage *ret, struct err *err);
        int (*set_net)(struct guest *g, struct plan_net *net /* taken on success */, struct err *err);
};
