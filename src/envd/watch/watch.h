/* watch.h - changes in a directory, or in a whole tree, as inotify reports them.
 *
 * Each watch has an inotify instance of its own.  Names are relative to the watched directory; "." is the
 * directory itself. */
#pragma once
#include <stdbool.h>

#include "base/map.h"
#include "envd/rpc/fault.h"
#include "io/loop.h"

enum watch_event { WATCH_CREATE, WATCH_RENAME, WATCH_CHMOD, WATCH_WRITE, WATCH_REMOVE };
const char *watch_event_name(enum watch_event ev); /* "EVENT_TYPE_CREATE" */

struct watch {
        struct io io; /* the inotify fd */
        struct loop *loop;
        char *path; /* owned; what is watched */
        bool is_recursive;
        struct map dirs; /* watch descriptor (its bytes) -> struct watch_dir */
        /* A directory was moved away.  The next event may say where to. */
        uint32_t moved_cookie;
        char *moved_from; /* owned; NULL: nothing pending */
        bool has_failed;
        void (*on_event)(struct watch *w, enum watch_event ev, const char *name);
        void (*on_error)(struct watch *w, const char *why); /* once; nothing follows it */
        void *arg;
};

/* Watch path; set on_event, on_error and arg right after.  -1 with *f set: not_found, invalid_argument, internal. */
int watch_create(struct loop *loop, const char *path, bool is_recursive, bool allow_network, struct watch **ret,
                 struct fault *f);
void watch_free(struct watch *w);
void watch_fail(struct watch *w, const char *why); /* calls on_error, the first time */
void watch_drain(struct watch *w);                 /* report all events up to now */
void watch_pause(struct watch *w);                 /* the kernel keeps what happens meanwhile, up to its limit */
void watch_resume(struct watch *w);
