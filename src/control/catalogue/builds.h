/* builds.h - the builds of templates: their rows, from the request to the image.
 *
 * Who runs builds (build_runner.h) keeps the id of a build, and looks the build up at each step: it may have been cancelled, or
 * its template deleted.  What a build has done so far is in the cache (layer_cache.h), so it can always begin again. */
#pragma once
#include "control/catalogue/template_rows.h"

struct build_request;

#define BUILD_SUPERSEDED "The build was canceled because it was superseded by a newer one."
#define BUILD_CANCELLED "build was cancelled"

struct build_entry *builds_find(const struct template_rows *ts, const char *id); /* or NULL */
/* The newest build of the template; or NULL. */
struct build_entry *builds_newest(const struct template_row *t);
/* By its number or its id; or NULL. */
struct build_entry *builds_find_of(const struct template_row *t, uint32_t number, const char *id);
/* The ready build that a tag ("": default) or, where that is allowed, a build's id means.
 * ERR_NOT_FOUND: "tag 't' does not exist for template 'x'"; `shown` is the name in it. */
int builds_ready_of(const struct template_row *t, const char *tag, const char *shown, struct build_entry **ret,
                    struct err *err);
/* How many builds of the team are BUILDING. */
size_t builds_running(const struct template_rows *ts, int64_t team);

/* A new build, WAITING, with the next number; tags, sizes and times of b are set.  b is moved from. */
int builds_add(struct template_rows *ts, struct template_row *t, struct build *b, struct build_entry **ret,
               struct err *err);

/* ---- WAITING to BUILDING ---- */

/* The start request is kept with the row. */
int build_begin(struct template_rows *ts, struct build_entry *e, const struct build_request *request, struct err *err);
/* The request of a build that is BUILDING.  *ret is the caller's: build_request_done(). */
int build_load_request(const struct template_rows *ts, const struct build_entry *e, struct build_request *ret,
                       struct err *err);
/* The build is begun (again).  ERR_LIMIT: it was begun BUILD_ATTEMPTS_MAX times before. */
int build_note_attempt(struct template_rows *ts, struct build_entry *e, struct err *err);

/* ---- to READY or ERROR.  ERR_CONFLICT: the build is over already. ---- */

struct build_result {           /* what sandboxes begin with; all borrowed */
        const char *checkpoint; /* "": files only */
        json_t *layers;
        const char *image_of;
        bool image_secured;
        json_t *env;                                /* NULL: none */
        const char *default_user, *default_workdir; /* NULL: none */
        const char *start_cmd, *ready_cmd;          /* NULL: none */
};
/* The files of the result are on disk.  The build's tags point to it from now on, but for tags that were given to another build
 * after this one was requested.  The row counts in refs.h.  It is on disk after the store's next flush (durable.h). */
int build_set_ready(struct template_rows *ts, struct build_entry *e, const struct build_result *result,
                    struct err *err);
/* step: "base", "finalize", the number of a step as text; NULL: none. */
int build_set_error(struct template_rows *ts, struct build_entry *e, const char *message, const char *step,
                    struct err *err);

/* Replace the layers of a READY build, in the store too. */
int build_set_layers(struct template_rows *ts, struct build_entry *e, json_t *layers, struct err *err);

/* Remove builds that no tag points to: of each template the newest `kept` of those that are ready, and the newest `kept` of those
 * that failed, stay.  Each id that is removed is told.  Returns how many. */
size_t builds_collect(struct template_rows *ts, size_t kept, void (*on_removed)(const char *id, void *arg), void *arg);
