/* process_start.h - from the request of Start to a running process. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "envd/rpc/fault.h"
#include "envd/rpc/settings.h"
#include "envd/rpc/users.h"

struct process;
struct process_table;

struct start_request {                /* borrowed from the message */
        const char *cmd, *cwd, *tag;  /* cwd, tag NULL: not given */
        json_t *config, *args, *envs; /* args, envs NULL: none */
        bool is_pty, has_stdin;
        uint32_t cols, rows;
};
/* 0 or -1 with invalid_argument. */
int start_request_decode(const json_t *in, struct start_request *ret, struct fault *f);
/* cols and rows of a PTY message; *ret_present false when there is none. */
int pty_size_decode(const json_t *in, bool *ret_present, uint32_t *ret_cols, uint32_t *ret_rows, struct fault *f);

struct process_start {
        const struct start_request *rq;
        const struct settings *settings;
        const struct user *user;
        bool keep_user; /* do not change credentials */
};
int process_start(struct process_table *t, const struct process_start *ps, struct process **ret, struct fault *f);

/* The environment as an array for exec: PATH HOME USER LOGNAME, then the default variables, then the request's; later
 * ones win.  One allocation, to be freed; NULL out of memory. */
char **environment_build(const struct settings *s, const struct user *u, const json_t *envs);
