/* tool.h - a tool that a model can call: its description, the schema of its arguments, the function that does it.
 *
 * The schema is JSON text and the only place that says what a tool takes: clients get it, and arguments are checked against it
 * (schema.h) before the function is called.  A function finishes its call, now or later, with one of the tool_*() below: what goes wrong
 * in a tool is a result with isError, which the model reads, not an error of the protocol. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct call;
struct mcp;

enum tool_hints {
        TOOL_READS_ONLY = 1,
        TOOL_DESTROYS = 2,
        TOOL_MAY_REPEAT = 4,  /* calling twice is as good as calling once */
        TOOL_REACHES_OUT = 8, /* touches more than the sandbox */
};

struct tool {
        const char *name, *title, *description;
        unsigned hints;
        const char *schema;                        /* of the arguments: an object */
        const char *output;                        /* schema of structuredContent; NULL: the result has only content */
        bool (*is_there)(const struct mcp *m);     /* NULL: always */
        void (*run)(struct call *c, json_t *args); /* args is borrowed for the call */
};

/* All tools of a server, in the order of the list.  The two functions are what a backend (mcp.h) needs of them. */
struct tool_set {
        const struct tool *const *tools;
        size_t count;
};
uint64_t tool_set_there(const struct tool_set *set, const struct mcp *m); /* a bit for each tool that is there now */
json_t *tool_set_list(const struct tool_set *set, const struct mcp *m);   /* NULL: no memory */
void tool_set_call(const struct tool_set *set, struct call *c, const char *name, json_t *args);

/* What the function ends its call with.  `structured` is taken; NULL: there is none. */
void tool_text(struct call *c, struct str text, json_t *structured);
void tool_textf(struct call *c, json_t *structured, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void tool_image(struct call *c, const char *mime, struct str bytes, const char *caption);
void tool_failed(struct call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same as values, for functions that run in a thread; NULL: no memory.  These take `content` (an array) and `structured`. */
json_t *tool_result(json_t *content, json_t *structured, bool is_error);
json_t *tool_text_content(struct str text); /* bytes that are no UTF-8 are replaced */
json_t *tool_image_content(const char *mime, struct str bytes);

/* What a file is that begins like this: a MIME type that models can look at; NULL: no picture. */
const char *tool_picture_type(struct str head);

/* Arguments that the schema has checked. */
const char *arg_text(const json_t *args, const char *name, const char *otherwise);
json_int_t arg_number(const json_t *args, const char *name, json_int_t otherwise);
bool arg_flag(const json_t *args, const char *name);
