/* instructions.h - the text of a Dockerfile as instructions: directives, comments, continued lines, flags, here-documents.
 * Pure.  What an instruction means is stages.h's. */
#pragma once
#include "base/auto.h"
#include "base/str.h"
#include "dockerfile/problems.h"
#include "dockerfile/words.h"

#define DOCKERFILE_MAX (1u << 20) /* bytes */

struct here_document {
        char *name;     /* owned: without quotes */
        char *content;  /* owned: all lines, each with its line end */
        bool expands;   /* its name was not quoted: variables are replaced */
        bool cuts_tabs; /* <<-: tabs at the beginnings of lines were removed */
};

struct instruction {
        unsigned line;      /* of the keyword */
        char *keyword;      /* owned: in capitals */
        char *text;         /* owned: after the flags, continued lines joined, without blanks at both ends */
        struct words flags; /* "name" or "name=value", without dashes and quotes */
        struct here_document *documents; /* owned */
        size_t document_count;
};

struct instructions { /* zeroed: none */
        struct instruction *at;
        size_t count;
        char escape; /* \ or ` */
};

/* What is wrong is added to problems; the instructions that could be read are in *ret in any case (the caller's:
 * instructions_done()). */
void instructions_read(struct str text, struct instructions *ret, struct problems *problems);
void instructions_done(struct instructions *i);
#define AUTO_INSTRUCTIONS AUTO(instructions_done)

/* The value of a flag, "" for one without a value; NULL: not given. */
const char *instruction_flag(const struct instruction *i, const char *name);
