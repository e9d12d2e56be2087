/* token.h - the bearer token of `sandglass mcp --http`. */
#pragma once

struct err;

/* The file with the token: `given`, else mcp-token in the user's directory for settings, made with a new token at the first use.
 * *ret is for free(). */
int token_file_of(const char *given, char **ret, struct err *err);
int token_read(const char *given, char **ret, struct err *err); /* the token itself, of the same file */
