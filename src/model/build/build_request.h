/* build_request.h - the body of POST /v2/templates/{templateID}/builds/{buildID}, decoded and checked.  Pure.
 *
 * The same object is kept in the row of the build, and decoded again when the build is begun again. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define BUILD_REQUEST_MAX (4u << 20) /* bytes of the body */
#define BUILD_STEPS_MAX 1000         /* of one stage */
#define BUILD_STAGES_MAX 50
#define BUILD_ARGS_MAX 1000            /* of one step */
#define BUILD_SHELL_MAX 256            /* words of a shell */
#define BUILD_COMMAND_MAX (256u << 10) /* bytes of one argument */
#define BUILD_FILES_HASH_LEN 64

enum build_step_type { STEP_COPY, STEP_RUN, STEP_ENV, STEP_WORKDIR, STEP_USER };

struct build_step { /* all borrowed from the request's JSON; NULL: not given */
        enum build_step_type type;
        json_t *args; /* texts: RUN [cmd, user?], COPY [src, dest, owner?, mode?], ENV [k, v, ...], one for the others */
        const char *files_hash;              /* COPY: of the archive; 64 hexadecimal digits */
        const char *from_stage, *from_image; /* COPY: instead of files_hash */
        size_t from_stage_index;             /* of from_stage, among the request's stages */
        json_t *shell;                       /* RUN: argv before the command, instead of a login shell */
        bool is_literal;                     /* ENV: values are taken as they are */
        bool force;
};

enum build_from { FROM_IMAGE, FROM_TEMPLATE, FROM_STAGE };

struct build_stage {
        const char *name; /* borrowed; "": the final one */
        enum build_from from_kind;
        const char *from;         /* borrowed; trimmed: what follows the first space is cut (see build_request.c) */
        size_t from_stage_index;  /* FROM_STAGE */
        struct build_step *steps; /* owned */
        size_t step_count;
        char *from_text; /* owned: what `from` points into */
};

struct build_request {
        json_t *json;                  /* owned */
        struct build_stage *stages;    /* owned; a stage uses only stages before it; the last is the template itself */
        size_t stage_count;            /* at least 1 */
        json_t *registry;              /* borrowed: credentials for the final stage's image; NULL: none */
        bool force;                    /* no cache at all */
        bool is_root_default;          /* steps run as root until a USER (clients before 2.3.0) */
        char *start_cmd, *ready_cmd;   /* owned; NULL: not given */
        uint32_t cpu_count, memory_mb; /* 0: not given */
};

/* ERR_INVALID: the message is what the client gets.  On success *ret is the caller's: build_request_done(). */
int build_request_decode(const json_t *body, struct build_request *ret, struct err *err);
void build_request_done(struct build_request *r); /* zeroed is fine */

static inline const struct build_stage *build_request_final(const struct build_request *r)
{
        return &r->stages[r->stage_count - 1];
}
const char *build_step_name(enum build_step_type type); /* "COPY", ... */
/* The nth argument, "" where there are fewer; borrowed. */
const char *build_step_arg(const struct build_step *s, size_t n);
