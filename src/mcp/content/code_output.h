/* code_output.h - what a run of the code interpreter has given, as the result of a tool: text without its middle, and pictures.
 *
 * Output, results and errors are added as they come.  Nothing is dropped silently: long text loses its middle with a note, and a note
 * says how many pictures were left out.  Knows neither HTTP nor the library: two servers have the tool run_code. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "mcp/protocol/shorten.h"

#define CODE_TEXT_BYTES 30000u
#define CODE_PICTURES_MAX 8u
#define CODE_PICTURE_BYTES_MAX (16u << 20) /* of all of them, as base64 */

struct code_output {
        struct shortened text;
        json_t *pictures; /* owned: an array of content */
        size_t picture_bytes, pictures_left_out;
        bool has_failed;
};

/* A field of a result that has several, as the interpreter names it; NULL: absent. */
struct code_result {
        const json_t *text, *markdown, *latex, *json; /* the first one that is there is shown */
        json_t *png, *jpeg;                           /* texts in base64 */
};

void code_output_init(struct code_output *c);
void code_output_done(struct code_output *c);
/* 0 or -ENOMEM, as the next three. */
int code_output_add(struct code_output *c, struct str text);
int code_output_add_result(struct code_output *c, const struct code_result *result);
int code_output_add_error(struct code_output *c, struct str name, struct str value, struct str traceback);
/* A line about the run itself, in brackets; the run counts as failed. */
int code_output_add_failure(struct code_output *c, const char *words);
/* The result of the tool: the text, then how it went and how long it took, then the pictures.  stopped_after_s 0: the run has ended by
 * itself.  NULL: no memory. */
json_t *code_output_result(const struct code_output *c, double seconds, unsigned stopped_after_s);
