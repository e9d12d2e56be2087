/* writable.h - a sandbox's writable storage: the files that the sandbox made or changed, the upper directory of its overlay.
 *
 * The storage is kept in the sandbox's directory.  Only this module knows how:
 *
 *     sandboxes/<id>/upper/   the files
 *                    work/    overlayfs's own, of the last mount
 *                    copy/    a copy of upper/ that is under way
 *                    names/   other names of files in upper/, for a restore (unlinked_files.h)
 *
 * Its way, and which function takes each step:
 *
 *     nothing --prepare, or made ahead (writable_ahead.h)--> ready --open--> in use by an overlay --its processes end--> idle
 *     idle --prepare with WRITABLE_KEPT--> ready
 *     idle --seal--> nothing, and a layer in sealed/
 *     in use, its processes frozen --copy, copy_seal--> in use, and a layer in sealed/
 *     any --discard--> nothing
 *
 * The storage may become a file system of its own.  A rename or a link across its border then fails with EXDEV.  So callers move
 * the sandbox's directory as a whole (to lost/, to the trash), and never anything out of it; what becomes a layer is a matter of
 * this module.  This is also where a limit in bytes goes: a member of struct writable, with which writable_prepare() makes a
 * sparse image of that size, writable_open() mounts the image, and writable_seal() copies the files or keeps the image.
 *
 * All of it blocks: for the disk helper and job processes, and for the engine itself where it starts or a job process died. */
#pragma once
#include <stdbool.h>

#include "engine/storage/tree_size.h"

struct err;

struct writable {   /* borrowed directories */
        int dir;    /* the sandbox's own */
        int sealed; /* where layers are that were a sandbox's storage */
        int trash;
};

enum writable_use {
        WRITABLE_NEW,   /* empty; what an earlier try left is thrown away */
        WRITABLE_AHEAD, /* empty: it was made ahead, and is new */
        WRITABLE_KEPT,  /* with the files that the sandbox has */
};

int writable_make(int dir); /* an empty storage in this directory; fine when it is there */
/* Make the storage ready for an overlay.  WRITABLE_KEPT without files: -ENOENT.  ERR_NO_SPACE: disk full. */
int writable_prepare(const struct writable *w, enum writable_use use, struct err *err);

/* The directories for an overlay, below a detached mount with owners mapped by userns; the mount is the caller's.  Prepared
 * before. */
#define WRITABLE_UPPER "upper"
#define WRITABLE_WORK "work"
int writable_open(const struct writable *w, int userns, int *ret_mount, struct err *err);
/* Why an overlay could not make anything in its work directory: -ENOSPC and the like; 0: not for want of room. */
int writable_try_room(const struct writable *w);

struct tree_size writable_measure(const struct writable *w);
/* To disk, with everything in the sandbox's directory. */
int writable_flush(const struct writable *w, struct err *err);
void writable_discard(const struct writable *w); /* to the trash; fine when there is none */

/* ------------------------------------------------------------- becoming a layer */

/* The files become this layer; below: only the directory of that name among them, and the others are discarded.  Fine when
 * they did already.  No mount may use them.  ERR_INTERNAL: there are none.  ERR_NOT_FOUND: there is no such directory. */
int writable_seal(const struct writable *w, const char *below, const char *layer, struct err *err);
bool writable_is_sealed(const struct writable *w, const char *layer); /* there is such a layer */
/* The files were to become this layer, and are still here: a crash came first. */
bool writable_is_seal_undone(const struct writable *w, const char *layer);

/* A copy of the files becomes a layer, for a sandbox that goes on.  Its processes stand still during writable_copy() alone.
 * ERR_TOO_LARGE: more than is copied (upper_copy.h).  ERR_NO_SPACE: disk full.  After a failure: writable_copy_discard(). */
int writable_copy_measure(const struct writable *w, struct tree_size *ret, struct err *err);
int writable_copy(const struct writable *w, struct tree_size *ret, struct err *err);
int writable_copy_seal(const struct writable *w, const char *layer, struct err *err);
/* To the trash.  1: moved.  0: there was none.  Negative: it is still there; logged. */
int writable_copy_discard(const struct writable *w);

/* ------------------------------------------------------------- single files */

int writable_open_files(const struct writable *w); /* where the files are, as a directory */
/* A directory for other names of these files: a link from one to the other works. */
int writable_make_names(const struct writable *w);    /* -EEXIST: writable_names_discard() was not called */
int writable_open_names(const struct writable *w);    /* -ENOENT: there is none */
int writable_names_discard(const struct writable *w); /* as writable_copy_discard() */
