/* disk.h - the disk helper: a process that does to files what the engine's loop wants done, so that the loop never waits for a
 * disk that stalls.
 *
 * Requests are carried out one after the other, in the order in which they were made, and their ends are told in that order.
 * A helper that died is replaced, and the new helper gets the requests that were not finished.  Each of them may be done twice,
 * except disk_make(), which fails then. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/host/helper.h"
#include "engine/records/lost_note.h"
#include "engine/records/record.h"
#include "engine/storage/rootfs.h"
#include "engine/records/paused.h"

struct disk;

enum disk_place { DISK_SANDBOXES, DISK_CHECKPOINTS, DISK_SEALED, DISK_LOST };

struct disk_request; /* owned by struct disk, until its end was told */

/* err: ERR_NONE, or why the request failed. */
typedef void disk_on_done(void *arg, const struct err *err);

struct disk_dirs { /* borrowed */
        int sandboxes, layers, sealed, checkpoints, trash, lost;
        int ahead; /* writable_ahead.h */
        int host;  /* host_layer.h; -1: none */
        const char *boot_id;
        bool has_uuid, by_fds; /* of overlays: mount_ways.h */
};

/* Close fds where the wait for it does not hurt (a mount's is an RCU wait), and set them to -1. */
typedef void disk_close_later(void *arg, int *fds, size_t n);

struct disk {
        struct loop *loop;
        struct disk_dirs dirs;
        disk_close_later *close_later;
        void *close_arg;
        struct helper helper;
        struct list requests; /* in order; the helper works at the first */
        /* disk_throw() found no room; before its end is told. */
        void (*on_full)(struct disk *d, enum disk_place place, const char *name);
        uint64_t last;
};

int disk_open(struct disk *d, struct loop *l, const struct disk_dirs *dirs, disk_close_later *close_later,
              void *close_arg, struct err *err);
void disk_close(struct disk *d); /* waits a moment for requests that are under way */

/* All of these copy their arguments.  on_done may be NULL; it is called once, from the loop, unless disk_forget() comes first.
 * They return NULL when there is no memory, or no room to send the request: then nothing was begun, and on_done is not called. */

struct disk_make {
        const char *id;
        const struct plan_create *plan; /* its layers and origin */
        uint32_t uid_base;              /* of its uid range */
        int userns;                     /* maps that range; open until on_done, or until disk_forget() */
        const struct record *record;    /* written last */
        bool is_paused;                 /* the sandbox is paused, and has a directory */
        struct paused paused;           /* then: what paused.json says; its memory is given up */
        /* The file tree is made, and can be sent to envd; the fds in *tree are the callee's.  The record is written afterwards. */
        void (*on_tree)(void *arg, struct rootfs *tree);
};
struct disk_request *disk_make(struct disk *d, const struct disk_make *m, disk_on_done *on_done, void *arg);
struct disk_request *disk_save(struct disk *d, const struct record *r, disk_on_done *on_done,
                               void *arg); /* writes running.json */
struct disk_request *disk_note_running(struct disk *d, const char *id, disk_on_done *on_done,
                                       void *arg); /* removes paused.json */
struct disk_request *disk_note_paused(struct disk *d, const char *id, disk_on_done *on_done,
                                      void *arg); /* removes running.json */
/* Move to the trash (trash.h).  Fine when it is not there, except in lost/ (ERR_NOT_FOUND).  ERR_NO_SPACE: it is tried
 * again (trash_retry.h), except in lost/. */
struct disk_request *disk_throw(struct disk *d, enum disk_place place, const char *name, disk_on_done *on_done,
                                void *arg);
/* Move to lost/ (lost_note.h).  Fine when it is not there. */
struct disk_request *disk_lose(struct disk *d, enum disk_place place, const char *name, const struct lost_note *note,
                               disk_on_done *on_done, void *arg);
struct disk_request *disk_tidy_lost(struct disk *d, unsigned days, disk_on_done *on_done, void *arg);
/* Change these members of what is noted as its origin (origin.h). */
struct disk_request *disk_origin(struct disk *d, enum disk_place place, const char *name, const json_t *changes,
                                 disk_on_done *on_done, void *arg);
struct disk_request *disk_sync(struct disk *d, disk_on_done *on_done,
                               void *arg); /* ends when all requests before it have ended */

void disk_forget(struct disk_request *q); /* it goes on, without callbacks; NULL is fine */

/* ------------------------------------------------------------- between engine and helper */

#define DISK_ORIGIN_MAX (8u << 10) /* in a message; a longer one is in a file */
#define DISK_TEXT_MAX ((96u << 10) + DISK_ORIGIN_MAX)

enum disk_what {
        DISK_MAKE,
        DISK_SAVE,
        DISK_NOTE_RUNNING,
        DISK_NOTE_PAUSED,
        DISK_THROW,
        DISK_LOSE,
        DISK_TIDY_LOST,
        DISK_ORIGIN,
        DISK_SYNC,
};

struct disk_order { /* engine -> helper; after it layer_count names, each with its NUL, the record's text, and an origin */
        uint64_t number;
        enum disk_what what;
        enum disk_place place;
        char id[SEALED_ID_MAX]; /* of the sandbox, the checkpoint or the layer */
        uint32_t uid_base;
        bool is_paused, is_upper_kept;
        struct paused paused;
        uint32_t layer_count;
        struct lost_note note;
        unsigned days;
        uint32_t origin_len; /* 0: none, or it is in a file */
        bool has_text; /* the last fd is a file with an origin, or with changes of one; with DISK_MAKE the first is userns */
};
_Static_assert(SEALED_ID_MAX >= SANDBOX_ID_MAX && SEALED_ID_MAX >= CHECKPOINT_ID_MAX, "an id fits");

#define DISK_FDS_MAX 2

struct disk_word { /* helper -> engine */
        uint64_t number;
        bool is_over;
        bool has_tree;    /* the first fd is the tree's mount, the last ones are its parts */
        bool has_boot_id; /* the second fd is the boot id's */
        struct err err;
};
_Static_assert(sizeof(struct disk_word) <= HELPER_MESSAGE_MAX, "fits into one message");

_Noreturn void disk_serve(const struct disk_dirs *dirs, int sock);
