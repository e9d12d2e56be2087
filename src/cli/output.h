/* output.h - what commands print on the terminal, in the same way for all of them. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

const char *output_text(const json_t *obj, const char *key); /* "-": there is none, or it is empty */
void output_json(const json_t *v);
void output_size(json_int_t bytes, char out[16]); /* "1.5 MiB" */
/* As JSON, or with `print_table`. */
void output_list(const json_t *list, bool as_json, void (*print_table)(const json_t *list));
