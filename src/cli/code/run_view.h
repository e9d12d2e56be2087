/* run_view.h - what a run writes and returns, on our output: streams as they come, results as text or pictures, errors. */
#pragma once
#include "client/code/run_stream.h"
#include "cli/code/save.h"
#include "cli/code/terminal_pictures.h"

struct run_view {
        int signals;           /* borrowed: a wait for our output ends when one came */
        struct save_dir *save; /* borrowed; NULL: nothing is saved */
        enum picture_protocol pictures;
        bool is_raw;         /* lines as they come, instead */
        bool is_session;     /* a person sees each run's end */
        bool is_mid_line;    /* the last byte on the terminal was no line end */
        int code;            /* of the last run: 0, or that of its error */
        int64_t count;       /* of the last run; 0: not told */
        bool is_broken_pipe; /* nobody reads our output any more */
};

void run_view_begin(struct run_view *v);                                    /* of a run */
int run_view_event(const struct run_event *e, void *view, struct err *err); /* a run_event_fn */
int run_view_end_line(struct run_view *v,
                      struct err *err); /* begin a new line on a terminal, where it is in the middle of one */
/* Blocks until all is written; -EINTR: a signal came. */
int run_view_write(struct run_view *v, int fd, struct str bytes, struct err *err);
