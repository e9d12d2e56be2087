/* view.h - how a build goes on, for the person who waits: on a terminal a line that changes, elsewhere the log as it comes. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define VIEW_TAIL 20 /* lines of output that are shown again after a failure */

struct view {
        bool is_live;          /* stderr is a terminal */
        bool is_shown;         /* the live line is there */
        uint64_t since_ms;     /* the build began */
        uint64_t step_ms;      /* ... and the step */
        char *step;            /* owned: what the step is; NULL: none yet */
        char *tail[VIEW_TAIL]; /* owned: a ring of the last lines of output */
        unsigned tail_count;   /* how many there were */
};

void view_start(struct view *v);
void view_doing(struct view *v, const char *what);        /* a step of our own: "uploading ..." */
void view_entries(struct view *v, const json_t *entries); /* of the log, as the API has them */
void view_tick(struct view *v);                           /* a few times a second */
/* Takes the live line away; after a failure the last lines of output are shown. */
void view_end(struct view *v, bool has_failed);
