/* build_log.h - what builds said: one file for each build, <data>/builds/<build id>.log, one JSON object per line:
 * {"t":nanoseconds,"l":"info","m":"text","s":"base"}; s (the step) may be missing.  Lines are only ever added, so an entry keeps its
 * position.
 *
 * Files that were read or written lately stay open, with an index of their lines. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"

struct err;

#define BUILD_LOG_BYTES_MAX (64u << 20)   /* of one build; what comes after that is left out, and the log says so */
#define BUILD_LOG_MESSAGE_MAX (16u << 10) /* bytes of one message; a longer one is cut */
#define BUILD_LOG_PAGE_MAX 100            /* entries that are read at once */

enum build_log_level { BUILD_LOG_DEBUG, BUILD_LOG_INFO, BUILD_LOG_WARN, BUILD_LOG_ERROR, BUILD_LOG_LEVELS };

struct build_logs {
        int dir;             /* owned; -1: it could not be opened */
        struct list open;    /* of struct build_log, owned; the one used last is first */
        struct map by_build; /* -> struct build_log, borrowed */
        size_t count;
};

int build_logs_init(struct build_logs *ls, const char *dir, struct err *err); /* makes the directory */
void build_logs_done(struct build_logs *ls);                                  /* also zeroed */

const char *build_log_level_name(enum build_log_level level);
int build_log_level_of(const char *name, enum build_log_level *ret); /* -EINVAL */

/* Add one entry.  step: NULL: none.  A failure (a full disk) loses the entry and is only logged: builds go on. */
void build_log_add(struct build_logs *ls, const char *build_id, int64_t t_ns, enum build_log_level level,
                   const char *step, const char *message);
/* The entries that a message of the builder has: [{"t","l","m"}]; others are left out. */
void build_log_add_all(struct build_logs *ls, const char *build_id, const char *step, const char *before,
                       const json_t *entries);

/* Entries of at least that level, from the nth of those on, at most `limit` (BUILD_LOG_PAGE_MAX): a list of
 * {"timestamp","level","message","step"?}, as clients see it.  New reference; NULL out of memory.  A log that is not there is
 * empty. */
json_t *build_log_read(struct build_logs *ls, const char *build_id, enum build_log_level level, uint64_t from,
                       size_t limit);
/* The same by time: those after `after_ns`, oldest first; or is_backward: those before `after_ns`, newest first. */
json_t *build_log_read_time(struct build_logs *ls, const char *build_id, enum build_log_level level, int64_t at_ns,
                            bool is_backward, size_t limit);

void build_log_remove(struct build_logs *ls, const char *build_id); /* fine when it is not there */
/* Remove the logs of builds that `is_known` does not know. */
void build_logs_collect(struct build_logs *ls, bool (*is_known)(const char *build_id, void *arg), void *arg);
