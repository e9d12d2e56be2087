/* place.h - entries of an archive become files of the sandbox, below "/".
 *
 * Paths are relative to "/", as tar.h gives names.  Directories on the way are opened without leaving "/" and, when asked
 * for, without leaving its file system; the last one stays open, since entries of a directory come together.
 * What exists already is replaced as place_rules say.  One process, no other writer is expected: a link that is put in the
 * way meanwhile leads elsewhere in the sandbox, never out of it. */
#pragma once
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/str.h"
#include "wire/tar/tar.h"

struct place_rules {
        bool stays_on_root; /* what is on another file system (/proc, /dev) is left out, with a note */
        bool keeps_dirs;    /* directories that exist keep owner and mode; links to directories are followed */
        bool replaces_dirs; /* a file may take the place of a directory and all that is in it */
        bool refuses_links; /* no entry goes through a symbolic link that the same archive has made */
        bool has_owner;     /* all entries get uid and gid; else each its own */
        bool has_mode;      /* all but symbolic links get mode */
        bool keeps_times;   /* files get the archive's times */
        bool keeps_xattrs;  /* and its extended attributes, but for those of overlays and security modules */
        bool remembers;     /* `made` has every path, for place_remove_older() */
        uint32_t uid, gid;  /* of has_owner, and of directories that no entry names */
        uint32_t mode;
};

struct place {
        struct place_rules rules;
        int root; /* owned: "/" */
        uint64_t root_dev;
        int parent; /* owned: the directory last used; -1: none */
        char parent_path[PATH_MAX];
        bool parent_is_setgid;
        bool is_parent_elsewhere;     /* it is on another file system, and left out */
        int file;                     /* owned: the file being written; -1: none */
        uint64_t file_size, file_end; /* of it: as announced, and how far bytes were written */
        struct map made, links;       /* paths that this archive has made; those of them that are symbolic links */
        struct dir_time *times;       /* owned: of directories, set last */
        size_t time_count;
        uint64_t entries, bytes;
        json_t *notes; /* owned: texts for people */
};

int place_open(struct place *p, const struct place_rules *rules, struct err *err);
void place_done(struct place *p);

/* An entry begins: everything but the bytes of a file is done here.  0, or negative with *err. */
int place_begin(struct place *p, const struct tar_entry *e, const char *path, struct err *err);
/* Bytes of the file that began; ignored for entries that were left out. */
int place_write(struct place *p, const struct tar_data *data, struct err *err);
int place_end(struct place *p, const struct tar_entry *e, struct err *err);
/* After the last entry: the times of directories. */
void place_finish(struct place *p);

/* Remove path with all that is in it, but for what this archive has made (rules.remembers). */
int place_remove_older(struct place *p, const char *path, struct err *err);
/* The same for everything in the directory. */
int place_empty_older(struct place *p, const char *dir, struct err *err);
/* Directories up to and with path exist, or are made with the owner of the rules. */
int place_make_dirs(struct place *p, const char *path, struct err *err);

void place_note(struct place *p, const char *fmt, ...) PRINTF(2, 3);

/* ---- between place.c, place_entry.c and place_file.c ---- */

/* The directory of path, made where it is missing, in p->parent; *ret_base is the last part of path.  1: it is left out. */
int place_parent(struct place *p, const char *path, const char **ret_base, struct err *err);
void place_forget_parent(struct place *p); /* a directory may have become something else */
int place_remember(struct place *p, const char *path);
int place_keep_time(struct place *p, const char *path, const struct tar_entry *e); /* of a directory */
/* 1: what is there stays, and the file is left out. */
int place_room_for_file(struct place *p, const char *base, const char *path, struct err *err);
int place_file_owner(struct place *p, const struct tar_entry *e, int fd, const char *path);
void place_file_xattrs(struct place *p, const struct tar_entry *e, const char *base, const char *path);
int place_file_begin(struct place *p, const struct tar_entry *e, const char *base, const char *path, struct err *err);
