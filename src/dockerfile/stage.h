/* stage.h - what the files of the conversion share: the stages of a Dockerfile while its instructions are followed. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "dockerfile/dockerfile.h"
#include "dockerfile/expand.h"
#include "dockerfile/instructions.h"

struct stage {
        char *name;     /* owned: lower-case, or its number */
        unsigned line;  /* of its FROM */
        json_t *object; /* owned: name, what it is from, steps */
        json_t *lines;  /* owned: of each step */
        json_t *env;    /* owned: {name: text}; null: its value is known to the server only */
        json_t *args;   /* owned: {name: text}; null: declared without a value */
        json_t *shell;  /* owned: SHELL, an array; NULL: the usual */
        json_t *entry;  /* owned: an array (exec form), or text (shell form); NULL: none */
        json_t *cmd;    /* the same */
        json_t *ready;  /* owned: text of HEALTHCHECK; NULL: none */
        json_t *needs;  /* owned: numbers of the stages that this one uses */
        bool is_root;   /* its user, at this point */
        bool sets_user, sets_workdir;
        bool is_from_template;
        bool is_needed;
};

struct converter {
        const struct dockerfile_options *opt;
        struct problems *problems;
        char escape;
        unsigned line;        /* of the instruction that is being followed */
        json_t *global_args;  /* owned: {name: text} before the first FROM */
        json_t *used_args;    /* owned: names of build_args that an ARG took */
        struct stage *stages; /* owned */
        size_t count;
        struct dockerfile_build *build; /* the result: its copies are added as they are found */
};

typedef void instruction_fn(struct converter *c, struct stage *s, const struct instruction *i);

/* stage_from.c */
void convert_from(struct converter *c, const struct instruction *i);
void convert_global_arg(struct converter *c, const struct instruction *i);
/* By name, or by number: its number; -1: there is none. */
int converter_find_stage(const struct converter *c, const char *name);
void stage_need(struct stage *s, size_t other);
void stage_done(struct stage *s);
/* stage_env.c */
instruction_fn convert_env, convert_arg, convert_workdir, convert_user;
/* stage_copy.c */
instruction_fn convert_copy, convert_add;
/* stage_run.c */
instruction_fn convert_run, convert_cmd, convert_entrypoint, convert_healthcheck, convert_shell;
/* The words of a command for a shell, joined: text, the caller's; NULL: no memory. */
json_t *command_text(const json_t *words);
/* What ENTRYPOINT and CMD say together; NULL: nothing. */
json_t *stage_start_command(const struct stage *s);

/* A step with these arguments (stolen).  The step is borrowed; NULL: no memory, which the problems know. */
json_t *stage_add_step(struct converter *c, struct stage *s, const char *type, json_t *args);
/* A word with the stage's variables (s NULL: the global ones) replaced: malloc'd; NULL: a problem was added. */
char *converter_expand(struct converter *c, struct stage *s, unsigned line, const char *word);
/* Prepare a look-up in the stage's variables. */
struct expand converter_expander(struct converter *c, struct stage *s);
/* Flags that are not in the list (ends with NULL) are errors. */
void converter_check_flags(struct converter *c, const struct instruction *i, const char *const *known);
void converter_out_of_memory(struct converter *c);
