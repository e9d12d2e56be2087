/* save.h - the files of --save DIR: pictures and documents among the results of a run, never over a file that is there. */
#pragma once
#include "client/code/run_stream.h"

struct err;

struct save_dir {
        const char *path; /* borrowed */
        int fd;           /* owned; -1: nothing is saved */
        unsigned last;    /* number of the last file's name */
};

/* Makes the directory where there is none.  On success *ret is the caller's: save_dir_close(). */
int save_dir_open(const char *path, struct save_dir *ret, struct err *err);
void save_dir_close(struct save_dir *d);
/* Writes what the result holds of png, jpeg, svg, pdf and html as result-N.png and so on; tells the path of each file. */
int save_result(struct save_dir *d, const struct run_event *result, void (*on_saved)(const char *path, void *arg),
                void *arg, struct err *err);

/* The bytes that a field of a result stands for: base64, with line ends, is decoded; other text is unquoted. */
int save_field_bytes(const struct run_event *result, enum run_field field, struct buf *out);
